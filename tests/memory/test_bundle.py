"""memory/bundle.py: records as lines that another program can read."""

from __future__ import annotations

import msgspec
import pytest

from stratalog.errors import InvalidInput, NewerFormat
from stratalog.ids import new_ulid
from stratalog.memory.bundle import MAX_LINE, End, Gone, Head, Kept, encoded, lines_of
from stratalog.memory.contract import Layer, Record, Scope, Source, Tombstone, When

RECORD = Record(
    id=new_ulid(),
    layer=Layer.MID,
    scope=Scope("user", "ana"),
    key="home",
    payload={"city": "里斯本", "n": [1, 2.5, None, True]},
    text="里斯本",
    sources=(Source("local/a:b:c", new_ulid(), 3, 9),),
    valid_from=When(5, "month", "Europe/Lisbon"),
    evidence=3,
)
STONE = Tombstone(environment="production", scope=Scope("tenant"), key="", at=7, content="x")
HEAD = Head(tenant="acme", environment="production", at=9)
WHOLE = [HEAD, Gone(tombstone=STONE), Kept(record=RECORD), End(records=1, tombstones=1)]


def test_lines_come_back_as_they_were() -> None:
    """What is encoded is decoded equal; empty lines are nothing."""
    data = [encoded(line) for line in WHOLE]
    assert all(each.endswith(b"\n") and each.count(b"\n") == 1 for each in data)
    assert list(lines_of([*data[:2], b"\n", *data[2:], b"  \n"])) == WHOLE


def test_the_form_is_the_documented_one() -> None:
    """The members of the first line and of a record are those of the documentation."""
    assert msgspec.json.decode(encoded(HEAD)) == {
        "kind": "bundle",
        "format": "stratalog.records",
        "version": 1,
        "tenant": "acme",
        "environment": "production",
        "at": 9,
    }
    record = msgspec.json.decode(encoded(Kept(record=RECORD)))
    assert record["kind"] == "record"
    assert record["record"]["sources"] == [
        {"session": "local/a:b:c", "entry": RECORD.sources[0].entry, "start": 3, "stop": 9}
    ]
    assert record["record"]["valid_from"] == {"at": 5, "precision": "month", "zone": "Europe/Lisbon"}
    assert msgspec.json.decode(encoded(WHOLE[3])) == {"kind": "end", "records": 1, "tombstones": 1}


@pytest.mark.parametrize(
    ("data", "number"),
    [
        ([b"{"], 1),
        ([b'{"kind": "x"}'], 1),
        ([b"[" * 100_000], 1),
        ([b'{"kind": "bundle", "format": "other", "tenant": "a", "environment": "b"}'], 1),
        ([encoded(WHOLE[2])], 1),
        ([encoded(HEAD), encoded(HEAD)], 2),
        ([encoded(HEAD), encoded(WHOLE[3]), encoded(WHOLE[2])], 3),
        ([encoded(HEAD), b'{"kind": "record", "record": {"id": 7}}'], 2),
        ([encoded(HEAD), b" " * MAX_LINE + b"{}"], 2),
        ([encoded(HEAD), b"\xff"], 2),
        (["text"], 1),
    ],
)
def test_what_is_no_bundle(data: list[bytes], number: int) -> None:
    """A damaged line, or one out of place, is `InvalidInput` with its number."""
    with pytest.raises(InvalidInput) as raised:
        list(lines_of(data))
    assert raised.value.where["line"] == number


def test_a_later_version_is_left_alone() -> None:
    """A bundle of a later version is `NewerFormat`."""
    with pytest.raises(NewerFormat):
        list(lines_of([b'{"kind":"bundle","version":2,"tenant":"a","environment":"b"}']))


def test_what_is_not_known_is_passed_over() -> None:
    """A member that a later version adds does not hinder."""
    line = encoded(HEAD).replace(b'"at":9', b'"at":9,"more":[1]')
    assert list(lines_of([line])) == [HEAD]
