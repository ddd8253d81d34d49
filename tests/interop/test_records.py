"""Damaged files give what is whole in them, and an account of the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interop.samples import MTIME
from stratalog.errors import ImportFailed
from stratalog.interop.contract import Source
from stratalog.interop.records import Record, Tally, document, parse, records, storable, utc_ms


def load(data: bytes, name: str = "a.jsonl") -> tuple[list[Record], Tally]:
    source = Source(Path(name), data, MTIME)
    tally = Tally("test", source)
    return list(records(source, tally)), tally


def values(data: bytes) -> list[dict[str, Any]]:
    return [record.value for record in load(data)[0]]


@pytest.mark.parametrize(
    ("data", "line", "offset", "reason"),
    [
        (b'{"a":1}\n{"b":\n{"c":3}\n', 2, 8, "not JSON"),
        (b'{"a":1}\n"text"\n{"c":3}\n', 2, 8, "a str, not an object"),
        (b'{"a":1}\n' + b"\0" * 300 + b'\n{"c":3}\n', 2, 8, "300 NUL bytes"),
        (b'{"a":1}\n\0\0{"c":3}\n', 2, 8, "2 NUL bytes"),
        (b'{"a":1}\n{"x":"one\n{"c":3}', 2, 8, "not JSON"),
        (b'{"a":1}\n{"x":' + b"[" * 5000 + b'\n{"c":3}', 2, 8, "nested too deeply"),
        (b'{"a":1}\n{"x":' + b"9" * 5000 + b'}\n{"c":3}', 2, 8, "a number is too long"),
    ],
)
def test_bad_line(data: bytes, line: int, offset: int, reason: str) -> None:
    """A bad line is a skip with its line and byte offset, and the lines after it load."""
    found, tally = load(data)
    assert [record.value for record in found] == [{"a": 1}, {"c": 3}]
    damage = [skip for skip in tally.transcript([]).report.skipped if skip.kind == "damage"]
    assert (damage[0].line, damage[0].offset) == (line, offset)
    assert reason in damage[0].reason


def test_torn_tail() -> None:
    """A file cut in the middle of its last record gives all the records before."""
    data = b'{"a":1}\n{"b":2}\n{"c":"lo'
    assert values(data) == [{"a": 1}, {"b": 2}]


def test_several_on_a_line() -> None:
    """Objects that a lost newline put on one line are all read, each with its own offset."""
    found, _ = load(b'{"a":1}{"b":"\xc3\xa9"} {"c":3}\n')
    assert [record.value for record in found] == [{"a": 1}, {"b": "é"}, {"c": 3}]
    assert [record.offset for record in found] == [0, 7, 18]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c"])
def test_unicode_line_ends(mark: str) -> None:
    """Only a newline byte ends a line; what else ends lines in Unicode is text."""
    data = json.dumps({"a": f"x{mark}y"}, ensure_ascii=False).encode() + b'\n{"b":1}\n'
    assert values(data) == [{"a": f"x{mark}y"}, {"b": 1}]


def test_byte_order_mark_and_carriage_returns() -> None:
    """A byte order mark and Windows line ends are not content."""
    assert values(b'\xef\xbb\xbf{"a":1}\r\n{"b":2}\r\n\r\n') == [{"a": 1}, {"b": 2}]


def test_storable_by_rule() -> None:
    """Lone surrogates and bytes that are not UTF-8 become U+FFFD, NaN and infinities their names."""
    assert values(b'{"a":"x\\ud800y","\\udc00":NaN,"c":[Infinity,-Infinity,1e999]}') == [
        {"a": "x\ufffdy", "\ufffd": "NaN", "c": ["Infinity", "-Infinity", "Infinity"]}
    ]
    assert values(b'{"a":"\xff"}') == [{"a": "\ufffd"}]
    assert values(b'{"a":"\\ud83d\\ude00"}') == [{"a": "😀"}]


def test_deep_values() -> None:
    """What is nested deeper than a log can write back becomes its JSON text."""
    deep = b'{"a":' * 300 + b"1" + b"}" * 300
    (value,) = values(deep + b"\n")
    assert msgspec.json.decode(msgspec.json.encode(value)) == value


@given(
    st.recursive(st.none() | st.booleans() | st.floats() | st.text(st.characters()), st.lists, max_leaves=9)
)
def test_storable_is_storable(value: Any) -> None:
    """Whatever JSON a file holds, its storable form can be written and read back."""
    made = storable(value)
    assert msgspec.json.decode(msgspec.json.encode(made)) == made


def test_unsettled_record_is_skipped() -> None:
    """A record that nobody used, merged or skipped is in the report all the same."""
    found, tally = load(b'{"type":"a"}\n{"type":"b"}\n{"type":"c"}\n{"type":"d"}\n')
    tally.use(found[0])
    tally.merge(found[0])
    tally.merge(found[1])
    tally.skip(found[2], "because")
    report = tally.transcript([]).report
    assert (report.read, report.used, report.merged) == (4, 1, {"b": 1})
    assert [(skip.kind, skip.reason, skip.line) for skip in report.skipped] == [
        ("c", "because", 3),
        ("d", "nothing in it to keep", 4),
    ]


def test_document_says_where() -> None:
    """A document that is no JSON is refused with the line; one followed by more is refused too."""
    for data, line in ((b'{\n"a": 1\n', 1), (b'{"a": 1}\n\n[2]', 3), (b"  ", 1)):
        with pytest.raises(ImportFailed) as caught:
            document(Source(Path("a.json"), data, MTIME))
        assert caught.value.where["line"] == line


def test_progress() -> None:
    """Progress is told in bytes and ends with the whole."""
    told: list[tuple[int, int]] = []
    data = (b'{"a":"' + b"x" * 300_000 + b'"}\n') * 10
    source = Source(Path("a.jsonl"), data, MTIME, lambda done, total: told.append((done, total)))
    list(records(source, Tally("test", source)))
    assert told == sorted(told)
    assert told[-1] == (len(data), len(data))
    assert 2 <= len(told) <= 4


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2025-01-15T10:00:00.123Z", 1_736_935_200_123),
        ("2025-01-15T10:00:00.123456789Z", 1_736_935_200_123),
        ("2025-01-15T10:00:00", 1_736_935_200_000),
        ("2025-01-15T05:00:00-05:00", 1_736_935_200_000),
        (1_736_935_200, 1_736_935_200_000),
        (1_736_935_200.123, 1_736_935_200_123),
        (1_736_935_200_123, 1_736_935_200_123),
        (1_736_935_200_123_456, 1_736_935_200_123),
        (1_736_935_200_123_456_789, 1_736_935_200_123),
        ("yesterday", None),
        ("0001-01-01T00:00:00", None),
        (0, None),
        (-5, None),
        (True, None),
        (float("nan"), None),
        (None, None),
    ],
)
def test_times(value: Any, expected: int | None) -> None:
    """Times are UTC milliseconds whatever the source's unit; one without a zone is UTC."""
    assert utc_ms(value) == expected


def test_parse() -> None:
    """JSON in a string is its value, and a string that is no JSON stays."""
    assert parse('{"a":[1]}') == {"a": [1]}
    assert parse("{a:1}") == "{a:1}"
    assert parse("1 2") == "1 2"
    assert parse("") == ""
    assert parse('"\\ud800"') == "\ufffd"


@pytest.mark.parametrize("deep", [900, 960, 990, 5_000])
def test_too_deep_is_damage(deep: int) -> None:
    """A value nested deeper than can be written again is told as damage or kept as text, and costs itself."""
    bad = b'{"a": ' + b"[" * deep + b"]" * deep + b"}"
    found, _ = load(bad + b'\n{"b": 1}\n')
    assert found[-1].value == {"b": 1}
    assert len(found) == 1 or isinstance(found[0].value["a"], list)
    assert isinstance(parse(bad.decode()), str | dict)


def test_places_on_one_line() -> None:
    """The offsets of values on one line are in bytes, whatever stands between them."""
    line = '{"a": "é😀"} \u00a0 {"b": 2}{"c": 3} x'.encode()
    found, tally = load(line)
    assert [record.offset for record in found] == [0, line.index(b'{"b"'), line.index(b'{"c"')]
    assert tally.transcript([]).report.read == 4
