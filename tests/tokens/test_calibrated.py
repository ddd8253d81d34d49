"""What the provider reported, and an estimate of only what came after; nothing once that was changed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tokens.calibrated import (
    RATIO,
    Anchor,
    Calibrated,
    Piece,
    anchor,
    calibrate,
    ends_anchor,
    entry_piece,
    fingerprint,
    head_piece,
)
from stratalog.tokens.rough import rough_counter
from stratalog.types import Assistant, Compaction, System, ToolCall, ToolResult, Usage, User

COUNTER = rough_counter("gpt-5")
TALK = [
    System(seq=1, content="Be brief."),
    User(seq=2, content="你好，请帮我看一下这个文件。"),
    ToolCall(seq=3, call_id="c1", name="read", args={"path": "a.txt"}),
    ToolResult(seq=4, call_id="c1", content="line\n" * 400),
    Assistant(seq=5, content="It holds four hundred lines."),
    User(seq=6, content="谢谢！"),
]
PIECES = [head_piece("gpt-5", [], COUNTER), *(entry_piece(entry, COUNTER) for entry in TALK)]
pieces = st.lists(st.builds(Piece, st.binary(min_size=1, max_size=3), st.integers(0, 10_000)), max_size=8)


def test_reported_and_the_rest() -> None:
    """A request that begins with what was reported costs that, and the estimate of what came after."""
    known = anchor(PIECES[:5], Usage(input=1_000, output=50))
    assert known is not None
    rough = sum(piece.rough for piece in PIECES[:5])
    assert (known.tokens, known.rough, known.pieces) == (1_000, rough, 5)
    found = calibrate(known, PIECES)
    after = sum(piece.rough for piece in PIECES[5:])
    assert found.basis == "reported"
    assert found.reason == ""
    assert found.after == pytest.approx(after * found.ratio, abs=1)
    assert found.tokens == 1_000 + found.after


def test_the_same_request_costs_what_was_reported() -> None:
    """Nothing is added for a request that is sent again."""
    known = anchor(PIECES, Usage(input=1_234))
    assert calibrate(known, PIECES).tokens == 1_234


@pytest.mark.parametrize("usage", [None, Usage(), Usage(output=10)], ids=["none", "empty", "output"])
def test_nothing_reported(usage: Usage | None) -> None:
    """Without a report there is no anchor, and the count is the rough one."""
    assert anchor(PIECES, usage) is None
    found = calibrate(None, PIECES)
    assert (found.basis, found.tokens, found.ratio) == ("rough", sum(piece.rough for piece in PIECES), 1.0)
    assert found.reason == "nothing was reported yet"


def changed(number: int, entry: User | Compaction | System) -> list[Piece]:
    return [*PIECES[:number], entry_piece(entry, COUNTER), *PIECES[number + 1 :]]


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        ([PIECES[0], entry_piece(Compaction(summary="They spoke."), COUNTER), *PIECES[5:]], "less is sent"),
        ([*changed(1, Compaction(summary="They spoke.")), PIECES[6]], "has changed"),
        (changed(2, User(content="Another question")), "has changed"),
        ([head_piece("gpt-4", [], COUNTER), *PIECES[1:]], "has changed"),
        ([head_piece("gpt-5", [{"name": "read"}], COUNTER), *PIECES[1:]], "has changed"),
        ([PIECES[0], PIECES[2], PIECES[1], *PIECES[3:]], "has changed"),
        (PIECES[:3], "less is sent"),
        ([], "less is sent"),
    ],
    ids=["compaction", "compaction, as long", "edit", "model", "tools", "order", "cut", "empty"],
)
def test_void(now: list[Piece], reason: str) -> None:
    """After a compaction, an edit or another model nothing of the report is used, and the reason is told."""
    found = calibrate(anchor(PIECES[:6], Usage(input=9_999)), now)
    assert found.basis == "rough"
    assert reason in found.reason
    assert found.tokens == sum(piece.rough for piece in now)


def test_s41_another_model_has_no_anchor() -> None:
    """S41: what one model reported says nothing of another."""
    known = anchor(PIECES, Usage(input=9_999))
    switched = [head_piece("claude-opus-5", [], COUNTER), *PIECES[1:]]
    assert calibrate(known, switched).basis == "rough"


def test_a_compaction_among_what_came_after() -> None:
    """A compaction after the anchor ends it before the next request is built."""
    assert not ends_anchor(TALK)
    assert ends_anchor([*TALK, Compaction(summary="They spoke.")])


@pytest.mark.parametrize(
    ("tokens", "rough", "ratio"),
    [
        (10_000, 10_000, 1.0),
        (15_000, 10_000, 1.49),
        (10_000, 15_000, 0.67),
        (1_000_000, 1_000, RATIO[1]),
        (10, 100_000, RATIO[0]),
        (30, 10, 1.08),  # little was seen, so that it decides little
        (5, 0, 1.02),
    ],
)
def test_ratio(tokens: int, rough: int, ratio: float) -> None:
    """What came after is scaled by what was seen, within bounds, and hardly at all by little."""
    known = Anchor(fingerprint(PIECES[:2]), tokens, rough, 2)
    assert calibrate(known, PIECES).ratio == pytest.approx(ratio, abs=0.01)


@given(pieces, pieces, st.integers(1, 10**7))
def test_never_under_what_was_reported(sent: list[Piece], after: list[Piece], tokens: int) -> None:
    """With an anchor that fits, a count is the report or more, and grows with what came after."""
    known = anchor(sent, Usage(input=tokens))
    found = calibrate(known, sent + after)
    if known is None:
        assert sent == []
        assert found.tokens == sum(piece.rough for piece in after)
    else:
        assert found.tokens >= tokens
        assert found.tokens <= tokens + RATIO[1] * sum(piece.rough for piece in after) + len(after) + 1


@given(pieces, pieces)
def test_fingerprint(one: list[Piece], other: list[Piece]) -> None:
    """Two lists have one fingerprint when their pieces are the same in the same order, and only then."""
    same = [piece.digest for piece in one] == [piece.digest for piece in other]
    assert (fingerprint(one) == fingerprint(other)) == same


def test_fingerprint_is_of_the_cut() -> None:
    """Where one piece ends and the next begins is part of it."""
    assert fingerprint([Piece(b"ab", 1), Piece(b"c", 1)]) != fingerprint([Piece(b"a", 1), Piece(b"bc", 1)])


def test_a_piece_is_what_a_model_sees() -> None:
    """Where and when an entry was stored, and what it cost, does not make it another; its words do."""
    said = Assistant(content="Yes.", response="r1")
    stored = msgspec.structs.replace(
        said, seq=9, id="01J", ts=5, turn="t", meta={"a": 1}, usage=Usage(input=3)
    )
    assert entry_piece(said, COUNTER) == entry_piece(stored, COUNTER)
    assert entry_piece(said, COUNTER) != entry_piece(msgspec.structs.replace(said, content="No."), COUNTER)
    assert entry_piece(User(content="x"), COUNTER) != entry_piece(System(content="x"), COUNTER)


def test_counter() -> None:
    """A calibrated counter scales another's counts by the ratio; without an anchor it leaves them."""
    plain = Calibrated(COUNTER)
    scaled = Calibrated(COUNTER, Anchor("", 20_256, 10_000, 3))
    text = "The quick brown fox. " * 100
    assert plain.count_text(text) == COUNTER.count_text(text)
    assert scaled.count_text(text) == pytest.approx(2 * COUNTER.count_text(text), rel=0.01)
    assert scaled.count_text("") == 0
    assert scaled.count_entry(User(content=text)) == pytest.approx(
        2 * COUNTER.count_entry(User(content=text)), rel=0.01
    )
    assert scaled.count_tools([]) == 0
    assert (scaled.level, scaled.is_estimate) == ("calibrated", True)
    assert scaled.name == "calibrated × 2.00 over rough, o200k"
