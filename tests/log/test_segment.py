"""Reading one segment: lines forwards and backwards, by number, and what damage leaves of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.ids import new_ulid
from stratalog.log import codec, segment
from stratalog.log.segment import Line
from stratalog.types import AnyEntry, Note, TurnStart, User

CHUNK = 65_536


@contextmanager
def _file(data: bytes) -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.fileno()


def _entry(seq: int, text: str = "x") -> User:
    return User(content=text, seq=seq, id=new_ulid(seq), ts=seq)


def _line(entry: AnyEntry, *, more: bool = False) -> bytes:
    return codec.line_of(codec.encode(entry)[1], more=more)


def _seqs(line: bytes) -> list[int]:
    return [entry.seq for entry in segment.entries_of(Line(0, line))]


# --- lines ---

pieces = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.sampled_from([b"\n", b"\n\n", b"\r\n", b"\0" * 300, b"a" * CHUNK, b"b" * (CHUNK - 1)]),
        st.integers(CHUNK * 4 - 3, CHUNK * 4 + 3).map(lambda size: b"c" * size),
        st.integers(CHUNK - 3, CHUNK * 2).map(lambda size: b"d" * size + b"\n"),
    ),
    max_size=12,
).map(b"".join)


@given(pieces, st.integers(0, 30), st.integers(0, 30))
def test_lines_agree_forwards_and_backwards(data: bytes, skip: int, drop: int) -> None:
    """On any bytes, huge lines and no last line break too: the pieces between `\\n`, at their offsets."""
    start = min(skip, len(data))
    end = max(start, len(data) - drop)
    part = data[start:end]
    want = [Line(line.offset + start, line.data) for line in segment.lines_of(part)]
    with _file(data) as fd:
        assert list(segment.lines(fd, start, end)) == want
        assert list(segment.lines_back(fd, start, end)) == want[::-1]
        assert segment.last_newline(fd, start, end) == start + part.rfind(b"\n") + 1
    assert b"".join(line.data + b"\n" for line in want)[: len(part)] == part
    for line in want:
        assert data[line.offset : line.offset + len(line.data)] == line.data
        assert b"\n" not in line.data


def test_a_line_of_many_megabytes_is_read_backwards_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backwards, a long line is taken in doubling steps: no copying of all for every chunk."""
    reads: list[int] = []
    pread = os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        reads.append(size)
        return pread(fd, size, offset)

    with _file(b"first\n" + b"x" * 20_000_000 + b"\n") as fd:
        monkeypatch.setattr(os, "pread", counted)
        assert [len(line.data) for line in segment.lines_back(fd, 0, 20_000_007)] == [20_000_000, 5]
    assert len(reads) < 20


# --- what a line holds ---

GOOD = _line(_entry(1, 'a {"crc":"00000000", b'))[:-1]
WITH_CRC = _line(Note(kind="n", data=[{"crc": "00000000", "a": 1}] * 3, seq=2, id=new_ulid(2), ts=2))[:-1]
OTHER = _line(_entry(3))[:-1]


@pytest.mark.parametrize(
    ("line", "seqs"),
    [
        (GOOD, [1]),
        (WITH_CRC, [2]),
        (b"\0" * 300 + GOOD, [1]),
        (GOOD + b"\0" * 300, [1]),
        (GOOD[:40] + OTHER, [3]),
        (GOOD[:-10] + WITH_CRC, [2]),
        (GOOD[:40] + b"\0" * 9 + WITH_CRC, [2]),
        (GOOD + OTHER, [1, 3]),
        (GOOD + b" " + OTHER, [1, 3]),
        (WITH_CRC + b"}{}" + OTHER + b"}", [2, 3]),
        (OTHER + WITH_CRC + GOOD, [3, 2, 1]),
        (b"junk" + OTHER + b"junk" + WITH_CRC + b"junk", [3, 2]),
        (WITH_CRC[:-1], []),
        (GOOD[:20] + b"X" + GOOD[21:], []),
        (GOOD[:20] + b"X" + GOOD[21:] + OTHER, [3]),
        (b"", []),
        (b"\0" * 300, []),
        (b'{"type":"user","content":"no checksum"}', []),
    ],
)
def test_damage_costs_only_what_was_damaged(line: bytes, seqs: list[int]) -> None:
    """NULs, half lines, a lost line break: every whole entry is found, each damaged span is told."""
    found = segment.found_in(Line(1000, line))
    assert [f.entry.seq for f in found if f.entry is not None] == seqs
    # The spans are the line, without gap or overlap, and each is an entry or has a reason.
    assert found[0].start == 1000
    assert found[-1].stop == 1000 + len(line)
    assert [f.stop for f in found[:-1]] == [f.start for f in found[1:]]
    for f in found:
        assert (f.entry is None) == bool(f.reason)
        if f.entry is not None:
            assert codec.decode(line[f.start - 1000 : f.stop - 1000]) == f.entry


@given(
    st.lists(
        st.sampled_from([GOOD, WITH_CRC, OTHER, b"\0\0", b"{", b"}", GOOD[:50], b'{"crc":"']), max_size=8
    )
)
def test_any_run_of_lines_without_breaks(run: list[bytes]) -> None:
    """However whole lines and rubbish run together, each whole line is found."""
    want = [_seqs(piece)[0] for piece in run if piece in (GOOD, WITH_CRC, OTHER)]
    assert _seqs(b"".join(run)) == want


@pytest.mark.parametrize(
    "line",
    [
        b'{"crc":"11111111",}' * 20_000,
        b'{"crc":"11111111",' * 20_000 + b"}" * 20_000,
        b'{"crc":"11111111",' * 20_000 + b"}",
        b"}{" * 200_000,
    ],
)
def test_a_line_made_to_be_slow_is_not(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged line with any number of beginnings and ends is given up after a bounded effort."""
    calls = size = 0
    crc32 = segment.zlib.crc32

    def counted(data: bytes, value: int = 0) -> int:
        nonlocal calls, size
        calls += 1
        size += len(data)
        return crc32(data, value)

    monkeypatch.setattr(segment.zlib, "crc32", counted)
    assert segment.entries_of(Line(0, line)) == []
    assert calls < 2 * len(line)
    assert size < 70 * len(line)


# --- the end of the file ---


def test_settled_is_the_end_of_the_last_whole_append() -> None:
    """Cut anywhere, the end that counts is that of the last append whose every line is whole."""
    appends = [
        [_entry(1)],
        [_entry(2), _entry(3), _entry(4, "y" * 300)],
        [_entry(5), _entry(6)],
        [_entry(7)],
    ]
    data = b""
    ends = [0]
    for batch in appends:
        data += b"".join(codec.lines_of_append([codec.encode(entry)[1] for entry in batch]))
        ends.append(len(data))
    for size in range(len(data) + 1):
        with _file(data[:size]) as fd:
            want = max(end for end in ends if end <= size)
            if size + 1 in ends:  # only the last line break is missing
                want = size
            assert segment.settled(fd, 0, size) == want


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 200_000, b'{"crc":"', b"x" * 100, GOOD + b"\0"])
def test_rubbish_at_the_end_is_not_settled(tail: bytes) -> None:
    """A run of NULs or half a line after the last line break is the torn end."""
    data = _line(_entry(1))
    with _file(data + tail) as fd:
        assert segment.settled(fd, 0, len(data) + len(tail)) == len(data)


# --- by number ---

damages = st.lists(
    st.tuples(st.sampled_from(["null", "join", "half", "blank", "flip"]), st.integers(0, 299)), max_size=12
)


@given(damages, st.integers(1, 302), st.sampled_from([10, 900, 5000]), st.booleans())
def test_bisection_agrees_with_a_linear_scan(
    damage: list[tuple[str, int]], seq: int, size: int, beyond: bool
) -> None:
    """`offset_of` finds the line that a scan from the start finds, also among damaged lines."""
    made = [_line(_entry(number, "z" * (number * 7919 % size))) for number in range(1, 301)]
    for what, at in damage:
        if what == "null":
            made[at] = b"\0" * len(made[at])
        elif what == "join":
            made[at] = made[at].rstrip(b"\n")
        elif what == "half":
            made[at] = made[at][: len(made[at]) // 2]
        elif what == "blank":
            made[at] = b"\n" + made[at]
        else:
            made[at] = made[at][:30] + b"?" + made[at][31:]
    head = b"a header\n"
    data = head + b"".join(made)
    want = len(data)
    for line in segment.lines_of(data):
        got = _seqs(line.data) if line.offset >= len(head) else []
        if got and (min(got) if beyond else max(got)) >= seq:
            want = line.offset
            break
    with _file(data) as fd:
        assert segment.offset_of(fd, len(head), len(data), seq, beyond=beyond) == want


def test_bisection_reads_little() -> None:
    """Finding one of 200,000 entries reads a thousandth of the file."""
    data = b"".join(_line(_entry(number, "z" * 20)) for number in range(1, 200_001))
    reads = 0
    with _file(data) as fd, pytest.MonkeyPatch.context() as patch:
        pread = os.pread

        def counted(fd: int, size: int, offset: int) -> bytes:
            nonlocal reads
            chunk = pread(fd, size, offset)
            reads += len(chunk)
            return chunk

        patch.setattr(os, "pread", counted)
        offset = segment.offset_of(fd, 0, len(data), 123_456)
    assert _seqs(data[offset : data.index(b"\n", offset)]) == [123_456]
    assert reads < 20 * 4 * CHUNK


# --- fences ---


def _start(seq: int, fence: int) -> TurnStart:
    return TurnStart(fence=fence, seq=seq, id=new_ulid(seq), ts=seq)


def _fence(data: bytes, otherwise: int = 5) -> int:
    with _file(data) as fd:
        return segment.latest_fence(fd, 0, len(data), otherwise)


def test_the_latest_fence() -> None:
    """The last TurnStart counts, however far back; text and free JSON that only look like one do not."""
    decoys = [
        _line(_entry(3, '"type":"turn_start"')),
        _line(Note(kind="n", data=[{"type": "turn_start", "fence": 99}] * 50, seq=4, id=new_ulid(4), ts=4)),
        _line(_entry(5, "x" * 3_000_000)),
    ]
    assert _fence(b"") == 5
    assert _fence(b"".join(decoys)) == 5
    starts = [_line(_start(1, 7)), _line(_start(2, 8))]
    assert _fence(b"".join(starts + decoys)) == 8
    assert _fence(starts[0] + decoys[2] + starts[1] + decoys[2] + decoys[1]) == 8
    for shift in range(0, 60, 7):  # the mark across the border of what is read at once
        assert _fence(starts[0] + _line(_entry(2, "x" * (1_048_576 - 150 + shift)))) == 7


def test_a_damaged_turn_start_took_a_fence() -> None:
    """A holder whose TurnStart is damaged is not given its fence again, nor does its elder come back."""
    first, second = _line(_start(1, 7)), _line(_start(2, 8))
    damaged = second.replace(b'"seq":2', b'"seq":?')
    assert _fence(first + damaged) == 8
    assert _fence(first + damaged + damaged + _line(_entry(3))) == 9
    assert _fence(first.rstrip(b"\n") + second) == 8
    assert _fence(first.rstrip(b"\n") + _line(_entry(3))) == 7
