"""Hypothesis strategies for every kind of entry and part, with any text and any JSON that may be stored."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from stratalog.ids import derived_ulid
from stratalog.types import (
    AnyEntry,
    Assistant,
    Audio,
    Compaction,
    Data,
    File,
    Image,
    Note,
    Part,
    Pin,
    Reasoning,
    System,
    Text,
    Title,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    Unknown,
    Usage,
    User,
    WorkingMemory,
)

# Text with what breaks readers more often than chance would have it; no lone surrogates.
_hard = st.sampled_from(
    [
        "",
        "\0",
        "\n",
        "\r\n",
        "\u2028",
        "\x85",
        '{"crc":"00000000","type":"user"}',
        '"',
        "\\ud800",
        "中文",
        "🎉",
    ]
)
words = st.one_of(st.text(max_size=40), _hard, st.lists(_hard, max_size=4).map("".join))
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), words
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=8,
)
metas = st.none() | st.dictionaries(words, values, max_size=3)
data = st.binary(max_size=60)
ids = st.builds(derived_ulid, st.integers(0, 2**48 - 1), st.integers().map(str))
counts = st.integers(0, 2**40)

parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, text=words),
    st.builds(Image, media_type=words, data=data, url=words),
    st.builds(Audio, media_type=words, data=data, url=words),
    st.builds(File, media_type=words, name=words, data=data, url=words),
    st.builds(Reasoning, text=words, signature=words, redacted=words),
    st.builds(Data, kind=words, value=values),
)
contents = st.one_of(words, st.lists(parts, max_size=4).map(tuple))
_every: dict[str, st.SearchStrategy[Any]] = {
    "id": st.just("") | ids,
    "ts": st.just(0) | st.integers(1, 2**48 - 1),
    "turn": words,
    "meta": metas,
}
usages = st.none() | st.builds(
    Usage, input=counts, output=counts, cache_read=counts, cache_write=counts, reasoning=counts
)

known: st.SearchStrategy[AnyEntry] = st.one_of(
    st.builds(User, content=contents, **_every),
    st.builds(System, content=contents, **_every),
    st.builds(Assistant, content=contents, model=words, response=words, usage=usages, **_every),
    st.builds(ToolCall, call_id=words, name=words, args=values, response=words, **_every),
    st.builds(
        ToolResult,
        call_id=words,
        name=words,
        content=contents,
        error=st.booleans(),
        synthetic=st.booleans(),
        **_every,
    ),
    st.builds(
        Compaction,
        summary=words,
        first_kept=words,
        covers=st.tuples(words, words),
        by=words,
        tokens_before=counts,
        tokens_after=counts,
        working_memory=metas,
        **_every,
    ),
    st.builds(
        WorkingMemory, op=st.sampled_from(["set", "delete", "clear"]), key=words, value=values, **_every
    ),
    st.builds(Title, title=words, by=st.sampled_from(["user", "auto", "model", "import"]), **_every),
    st.builds(Pin, pinned=st.booleans(), **_every),
    st.builds(TurnStart, holder=words, **_every),
    st.builds(
        TurnEnd,
        status=st.sampled_from(["answered", "aborted", "interrupted", "timed_out"]),
        detail=words,
        **_every,
    ),
    st.builds(Note, kind=words, text=words, data=values, **_every),
)


@st.composite
def unknown(draw: st.DrawFn) -> Unknown:
    """An entry of a later version, as a store reads it."""
    extra = draw(st.binary(max_size=0) | st.sampled_from([b',"x":1.50', b', "y" : { "z": [ 1 ] }']))
    seq, ts, entry_id = draw(st.integers(0, 99)), draw(counts), draw(ids)
    raw = b'{"type":"hologram","seq":%d,"id":"%b","ts":%d%b}' % (seq, entry_id.encode(), ts, extra)
    return Unknown(kind="hologram", raw=raw, seq=seq, id=entry_id, ts=ts)


entries: st.SearchStrategy[AnyEntry] = known | unknown()
