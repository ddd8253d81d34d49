"""One entry, one line: what is stored is what is read, and a line that was touched is no line."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.strategies import contents, entries, values, words
from stratalog.errors import DamagedLog, InvalidEntry
from stratalog.ids import new_ulid
from stratalog.log import codec
from stratalog.types import (
    AnyEntry,
    Blob,
    Compaction,
    Data,
    Entry,
    File,
    Image,
    Note,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Unknown,
    User,
    WorkingMemory,
)


def _stored(entry: AnyEntry, seq: int = 7) -> tuple[AnyEntry, bytes]:
    stored, body = codec.encode(codec.stamp(entry, seq, 1_700_000_000_000, 5))
    return stored, codec.line_of(body)[:-1]


# --- round trips ---


@given(entries)
def test_an_entry_is_read_as_it_was_stored(entry: AnyEntry) -> None:
    """Any entry of any type: the line is one line, is JSON, and decodes to what `encode` returned."""
    stored, line = _stored(entry)
    assert b"\n" not in line
    assert msgspec.json.decode(line)["seq"] == 7
    assert codec.decode(line) == stored
    for name in entry.__struct_fields__:
        if name not in ("seq", "id", "ts", "fence", "raw"):
            assert getattr(stored, name) == getattr(entry, name), name


@given(st.lists(entries, min_size=1, max_size=4))
def test_the_lines_of_an_append(batch: list[AnyEntry]) -> None:
    """Every line but the last says that more follows, and that mark is no part of the entry."""
    pairs = [codec.encode(codec.stamp(entry, seq, 1, 1)) for seq, entry in enumerate(batch, 1)]
    lines = [line[:-1] for line in codec.lines_of_append([body for _, body in pairs])]
    assert [codec.decode(line) for line in lines] == [stored for stored, _ in pairs]
    assert [codec.goes_on(line) for line in lines] == [True] * (len(batch) - 1) + [False]


@given(entries, st.data())
def test_any_changed_byte_is_noticed(entry: AnyEntry, data: st.DataObject) -> None:
    """One byte changed anywhere in a line, to anything: it is no entry any more."""
    stored, body = codec.encode(codec.stamp(entry, 1, 1))
    line = codec.line_of(body, more=data.draw(st.booleans()))[:-1]
    at = data.draw(st.integers(0, len(line) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda value: value != line[at]))
    with pytest.raises(codec.BadLine):
        codec.decode(line[:at] + bytes([other]) + line[at + 1 :])
    assert codec.decode(line) == stored


@given(entries, st.integers(1, 200))
def test_a_cut_line_is_noticed(entry: AnyEntry, cut: int) -> None:
    """A line that lacks its end is no entry."""
    _, line = _stored(entry)
    with pytest.raises(codec.BadLine):
        codec.decode(line[: max(0, len(line) - cut)])


@given(entries, st.integers(0, 60))
def test_payloads_out_of_line_come_back(entry: AnyEntry, threshold: int) -> None:
    """At any threshold: the short form and its payloads make the entry again, and its line decodes."""
    stored, _ = _stored(entry)
    if isinstance(stored, Unknown):
        return
    short, payloads = codec.externalise(stored, threshold)
    assert codec.decode(codec.line_of(codec.encode(short)[1])[:-1]) == short
    assert {blob.sha256 for blob in codec.blobs_of(short)} == set(payloads)
    for blob in codec.blobs_of(short):
        assert codec.check_blob(blob, payloads[blob.sha256], "") == payloads[blob.sha256]
        assert blob.size > threshold

    assert codec.resolve(short, lambda blob: payloads[blob.sha256]) == stored


BIG = "长" * 1000


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        (User(content=BIG), "content"),
        (ToolCall(call_id="c", name="n", args={"a": BIG}), "args"),
        (ToolResult(call_id="c", content=BIG), "content"),
        (Compaction(summary=BIG), "summary"),
        (Compaction(summary="s", working_memory={"a": BIG}), "working_memory"),
        (WorkingMemory(op="set", key="k", value=BIG), "value"),
        (Note(kind="n", text=BIG), "text"),
        (Note(kind="n", data=[BIG]), "data"),
    ],
)
def test_each_large_field_goes_out_of_line(entry: AnyEntry, field: str) -> None:
    """The reference names the field, counts bytes and characters; text keeps its beginning in the line."""
    short, payloads = codec.externalise(_stored(entry)[0], 500)
    (blob,) = codec.blobs_of(short)
    assert blob.field == field
    assert len(payloads[blob.sha256]) == blob.size
    assert len(codec.encode(short)[1]) < 1000 or blob.chars == 1000


@pytest.mark.parametrize(
    "part",
    [
        Text(text=BIG),
        Image(data=BIG.encode()),
        Image(url="data:image/png;base64," + "A" * 3000),
        File(name="a", data=BIG.encode()),
        Reasoning(text=BIG, signature="s"),
        Data(kind="k", value={"a": BIG}),
    ],
)
def test_each_large_part_goes_out_of_line(part: Any) -> None:
    """Of many parts only the large ones are references, also an image given as a data URL."""
    entry, _ = _stored(User(content=(Text(text="small"), part, part)))
    short, payloads = codec.externalise(entry, 500)
    assert len(payloads) == 1
    assert len(codec.blobs_of(short)) == 2
    assert codec.resolve(short, lambda blob: payloads[blob.sha256]) == entry


# --- what is refused, and what is changed ---


@given(st.text(alphabet=st.characters(codec=None), max_size=30), st.text(max_size=5))
def test_lone_surrogates_become_replacement_characters(text: str, key: str) -> None:
    """Wherever it stands a lone surrogate is stored as U+FFFD, and counted; nothing else is changed."""
    lone = sum(1 for char in text if "\ud800" <= char <= "\udfff")
    clean = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    stored, line = _stored(User(content=text))
    assert isinstance(stored, User)
    assert stored.content == clean
    assert stored.meta == ({"replaced_surrogates": lone} if lone else None)
    assert codec.decode(line) == stored
    stored, line = _stored(ToolCall(call_id="c", name=text, args={key: [text, {"a": text}]}))
    assert isinstance(stored, ToolCall)
    assert (stored.name, stored.args) == (clean, {key: [clean, {"a": clean}]})
    assert codec.decode(line) == stored


def test_surrogates_that_would_lose_a_value_are_refused() -> None:
    """Two keys of one dictionary that would become the same are refused, not merged."""
    with pytest.raises(InvalidEntry):
        _stored(Note(kind="n", data=dict.fromkeys(["\ud800", "\ud801"])))


@pytest.mark.parametrize(
    "entry",
    [
        "text",
        None,
        {"type": "user"},
        Entry(),
        User(content="a", meta="m"),
        User(content="\ud800", meta="m"),
        User(content=["\ud800"]),
        User(content=b"a"),
        User(content="a", turn=5),
        User(content="a", ts=True),
        User(content="a", ts=-1),
        User(content="a", ts=2**48),
        User(content="a", id="x" * 26),
        User(content="a", id=7),
        Note(kind="n", data=10**5000),
        Note(kind="n", data=msgspec.Raw(b"1\n")),
        Note(kind="n", data={"a": float("nan")}),
        Note(kind="n", data=[float("-inf")]),
        ToolCall(call_id=None, name="n"),
        Unknown(kind="x", raw=b""),
        Unknown(kind="x", raw=b"[1]"),
        Unknown(kind="x", raw=b' {"type":"x","seq":1}'),
        Unknown(kind="x", raw=b'{"type":"x","seq":1,"a":"\xff"}'),
        Unknown(kind="x", raw=b'{"type":"x",\n"seq":1}'),
        Unknown(kind="x", raw=b'{"more":1,"type":"x","seq":1}'),
        Unknown(kind="x", raw=b'{"type":"user","seq":1,"content":"a"}'),
        Unknown(kind="y", raw=b'{"type":"x","seq":1}'),
        Unknown(kind="x", raw=b'{"type":"x","seq":1}', turn=5),
        Unknown(kind="x", raw='{"type":"x","seq":1}'),
        User(content="a", blob=Blob(sha256="0" * 64, size=1, field="content")),
        User(content=(Text(text="a", blob=Blob(sha256="../../x", size=1)),)),
    ],
    ids=lambda entry: type(entry).__name__,
)
def test_what_cannot_be_stored_is_refused(entry: Any) -> None:
    """What is no entry, has a field of the wrong type, or would not come back: always `InvalidEntry`."""
    with pytest.raises(InvalidEntry):
        _stored(entry)


@given(values)
def test_free_json_comes_back(value: Any) -> None:
    """Any JSON, with its numbers of any size: the same value of the same types."""
    stored, line = _stored(ToolCall(call_id="c", name="n", args=value, meta={"m": value}))
    found = codec.decode(line)
    assert isinstance(found, ToolCall)
    assert repr(found.args) == repr(value) or found.args == value
    assert found == stored


def test_tuples_become_lists() -> None:
    """A tuple in free JSON is stored as the list that it will be read as, and so returned."""
    stored, line = _stored(Note(kind="n", data={"a": (1, (2,))}))
    assert isinstance(stored, Note)
    assert stored.data == {"a": [1, [2]]}
    assert codec.decode(line) == stored


# --- entries of a later version ---

RAW = b'{"type":"hologram","seq":7,"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","ts":5,"x":1.50,"y":{ "z":[ 1 ]}}'


def test_an_unknown_entry_keeps_its_bytes() -> None:
    """Read from a log and stored as it is, it is the same line, byte for byte."""
    line = codec.line_of(RAW)[:-1]
    entry = codec.decode(line)
    assert entry == Unknown(kind="hologram", raw=RAW, seq=7, id="01ARZ3NDEKTSV4RRFFQ69G5FAV", ts=5)
    assert _stored(entry)[1] == line


def test_stamping_an_unknown_entry_changes_nothing_else() -> None:
    """A new seq or turn goes into the raw form; the other members keep their bytes."""
    entry = codec.decode(codec.line_of(RAW)[:-1])
    stored, line = _stored(msgspec.structs.replace(entry, turn="t"), seq=8)
    assert isinstance(stored, Unknown)
    assert stored.raw == RAW.replace(b'"seq":7', b'"seq":8')[:-1] + b',"turn":"t"}'
    assert codec.decode(line) == stored


def test_what_an_unknown_entry_lacks_is_filled_in() -> None:
    """Without an id and a time in its raw form, it is stamped as any other."""
    stored, line = _stored(Unknown(raw=b'{"type":"x","seq":1}'))
    assert codec.decode(line) == stored
    assert isinstance(stored, Unknown)
    assert (stored.kind, stored.seq, stored.ts) == ("x", 7, 1_700_000_000_000)
    assert len(stored.id) == 26


# --- references that nobody made ---


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "/dev/zero", "0" * 63, "G" * 64, "0" * 64 + "\n"])
def test_a_payload_is_named_by_a_hash_alone(name: str) -> None:
    """A reference that is no SHA-256 names no file."""
    with pytest.raises(DamagedLog):
        codec.blob_name(Blob(sha256=name, size=1))


def test_a_reference_for_no_field_is_damage() -> None:
    """A line whose reference stands for a field that the entry does not have is reported, not a crash."""
    entry = User(content="a", id=new_ulid(), ts=1, seq=1, blob=Blob(sha256="0" * 64, size=1, field="nothing"))
    with pytest.raises(DamagedLog):
        codec.resolve(entry, lambda blob: b"x")


# --- the header ---


def test_a_header_comes_back_and_any_change_is_noticed() -> None:
    """The header line decodes to itself, and no byte of it can change unnoticed."""
    header = codec.Header(
        format=1, key="t/a:b:c 中", segment=3, generation=2, base=9, fence=2**52, created=5, first=4
    )
    line = codec.header_line(header)[:-1]
    assert codec.decode_header(line) == header
    assert codec.format_of(line) == 1
    for at in range(len(line)):
        with pytest.raises(codec.BadLine):
            codec.decode_header(line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :])
    with pytest.raises(codec.BadLine):
        codec.decode(line)


@given(contents, words)
def test_text_of_a_message_is_its_text_parts(content: Any, model: str) -> None:
    """The words of a stored message are those of the one given."""
    stored, _ = _stored(User(content=content))
    assert isinstance(stored, User)
    assert stored.text == User(content=content).text
