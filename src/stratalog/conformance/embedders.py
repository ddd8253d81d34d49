"""The contract of an embedder as cases that run: give each a `Lab` around yours.

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
    def test_my_embedder(case):
        with Lab(MyEmbedder) as lab:
            case(lab)

A case raises `AssertionError` where a promise is broken. `Lab.make` makes another embedder of the same model
each time it is called. One that runs processes of its own is given a `kill`, which ends these as a crash
would. Vectors of one text are the same to `CLOSE`: a model rounds otherwise in another batch.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, get_args

import numpy as np

from stratalog.errors import StratalogError
from stratalog.models.contract import Reach
from stratalog.recall.embed import Embedder, Space, Vectors

CLOSE: Final = 1e-3
PATIENCE: Final = 120.0  # seconds for what should end at all
_TEXTS: Final = (
    "The dog is called Rex.",
    "The train to Bergen leaves at noon.",
    "Ana prefers tea to coffee.",
    "火车中午出发。",
    "Le chat dort sur le canapé.",
)
_ODD: Final = (
    "",
    " \n\t",
    "\0",
    "a\0b",
    "\ud800",
    "x\udfff y",
    "😀",
    "👩‍👩‍👧‍👦 🇳🇴",
    "我叫安娜，喜欢喝茶。",
    "שלום עולם",
    "\u202e\u200b\ufeff",
    "e" + "\u0301" * 5000,
    "\x1b[2J\x07",
    "\U0010ffff",
    "a" * 100_000,
)


class Lab:
    """An embedder under test, closed at the end of the `with` block; `again` makes another."""

    def __init__(
        self, make: Callable[[], Embedder], *, kill: Callable[[Embedder], object] | None = None
    ) -> None:
        self._make = make
        self.kill = kill
        self._made: list[Embedder] = []
        self.embedder = self.again()

    def again(self) -> Embedder:
        self._made.append(self._make())
        return self._made[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._made:
            each.close()


def _rows(vectors: Vectors, space: Space, count: int) -> Vectors:
    """The vectors, if they are so many of the space."""
    assert vectors.dtype == np.float32
    assert vectors.shape == (count, space.dimensions)
    assert np.isfinite(vectors).all()
    assert vectors.any(axis=1).all()
    if space.normalised:
        assert np.allclose(np.linalg.norm(vectors.astype(np.float64), axis=1), 1.0, atol=CLOSE)
    return vectors


def _passages(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    return _rows(embedder.embed_passages(texts), embedder.space, len(texts))


def _query(embedder: Embedder, text: str) -> Vectors:
    made = embedder.embed_query(text)
    assert made.shape == (embedder.space.dimensions,)
    _rows(made[np.newaxis, :], embedder.space, 1)
    return made


def _same(one: Vectors, other: Vectors) -> bool:
    """Whether they are, next to how long they are."""
    longest = max(1.0, float(np.abs(one).max(initial=0.0)))
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=0, atol=CLOSE * longest))


# --- vectors of a space ---


def the_space_is_told(lab: Lab) -> None:
    """It names a model and its dimensions, is the same each time and of each embedder of this model, and so
    is its name; the reach is one that there is."""
    space = lab.embedder.space
    assert space.model
    assert space.dimensions > 0
    assert re.fullmatch("[0-9a-f]{16}", space.name)
    lab.embedder.embed_passages(["anything"])
    for same in (lab.embedder.space, lab.again().space):
        assert (same, same.name) == (space, space.name)
    assert lab.embedder.reach in get_args(Reach)


def a_text_has_a_row(lab: Lab) -> None:
    """As many rows as texts, of the space's dimensions, float32 and finite, and of length one when the space
    says so; no rows for no texts."""
    _passages(lab.embedder, _TEXTS)
    _passages(lab.embedder, [])
    _passages(lab.embedder, ["one"] * 3)


def rows_are_in_the_order_of_the_texts(lab: Lab) -> None:
    """Whatever is embedded at once: a row is its text's own, also among many."""
    texts = [f"{text} Number {number}." for number in range(40) for text in _TEXTS]
    rows = _passages(lab.embedder, texts)
    for at in (0, 1, 15, 16, 63, 64, 130, 199):
        assert _same(rows[at], _passages(lab.embedder, [texts[at]])[0]), texts[at]
    assert not _same(rows[0], rows[1])


def a_text_has_the_same_vector_each_time(lab: Lab) -> None:
    """As a passage and as a query, alone and beside others, and by another embedder of this model."""
    rows = _passages(lab.embedder, _TEXTS)
    query = _query(lab.embedder, _TEXTS[0])
    for embedder in (lab.embedder, lab.again()):
        assert _same(_passages(embedder, _TEXTS[::-1])[::-1], rows)
        assert _same(_query(embedder, _TEXTS[0]), query)


def a_query_is_comparable_with_passages(lab: Lab) -> None:
    """It is one row of the same space, and what says the same words is nearest to it."""
    rows = _passages(lab.embedder, _TEXTS)
    for at, text in enumerate(_TEXTS):
        assert int(np.argmax(rows @ _query(lab.embedder, text))) == at, text


def alike_is_nearer_than_unlike(lab: Lab) -> None:
    """Of two passages the one that says nearly the same scores higher, and so it does for a query."""
    alike, unlike = "A dog runs through the park.", "Interest rates rose by half a percent."
    near, far = _passages(lab.embedder, [alike, unlike])
    (row,) = _passages(lab.embedder, ["The dog is running in the park."])
    assert float(row @ near) > float(row @ far)
    query = _query(lab.embedder, "Where does the dog run?")
    assert float(query @ near) > float(query @ far)


def vectors_are_the_callers(lab: Lab) -> None:
    """Neither the texts nor earlier vectors change by a later call, and who writes into a vector is refused
    or changes his own."""
    texts = list(_TEXTS)
    rows, query = lab.embedder.embed_passages(texts), lab.embedder.embed_query(texts[0])
    kept, asked = rows.copy(), query.copy()
    lab.embedder.embed_passages([f"{text} And more." for text in texts])
    assert texts == list(_TEXTS)
    assert (rows == kept).all()
    for mine in (rows, query):
        with suppress(ValueError):
            mine[:] = 7.0
    assert _same(_query(lab.embedder, texts[0]), asked)
    assert _same(_passages(lab.embedder, texts), kept)


# --- what can be embedded ---


def any_text_has_a_vector(lab: Lab) -> None:
    """Nothing, white space, NUL, half surrogates, emoji, scripts of all kinds, one endless word: each as a
    passage and as a query, and no text disturbs another."""
    (plain,) = _passages(lab.embedder, [_TEXTS[0]])
    rows = _passages(lab.embedder, [_TEXTS[0], *_ODD, _TEXTS[0]])
    assert _same(rows[0], plain)
    assert _same(rows[-1], plain)
    for text in _ODD:
        _query(lab.embedder, text)


def what_follows_a_nul_counts(lab: Lab) -> None:
    """A text does not end at it."""
    one, other = _passages(lab.embedder, ["a\0cats and dogs", "a\0stocks and bonds"])
    assert not _same(one, other)


def a_huge_text_is_embedded(lab: Lab) -> None:
    """A megabyte of words, of one word, of Chinese or of emoji takes no longer than it may."""
    huge = ["some words of it " * 60_000, "x" * 1_000_000, "好" * 350_000, "😀" * 250_000]
    began = time.monotonic()
    _passages(lab.embedder, huge)
    for text in huge:
        _query(lab.embedder, text)
    assert time.monotonic() - began < PATIENCE


def many_texts_are_embedded_at_once(lab: Lab) -> None:
    """Two thousand in one call."""
    texts = [f"note {number}" for number in range(2000)]
    rows = _passages(lab.embedder, texts)
    assert _same(rows[1999], _passages(lab.embedder, texts[1999:])[0])


# --- running ---


def threads_embed_at_once(lab: Lab) -> None:
    """Each gets the vectors of its own texts, passages and queries alike."""
    rows = _passages(lab.embedder, _TEXTS)
    queries = [_query(lab.embedder, text) for text in _TEXTS]
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            for at in range(number, number + 5):
                place = at % len(_TEXTS)
                (row,) = lab.embedder.embed_passages([_TEXTS[place]])
                if not _same(row, rows[place]):
                    wrong.append(("passage", place))
                # No two threads ask the same at first, so that not all of it is what was kept.
                lab.embedder.embed_query(f"{_TEXTS[place]} {number}")
                if not _same(lab.embedder.embed_query(_TEXTS[place]), queries[place]):
                    wrong.append(("query", place))
        except StratalogError as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def closed_it_begins_anew(lab: Lab) -> None:
    """Closing is allowed before anything was asked, and twice; asked again, it answers as before."""
    other = lab.again()
    other.close()
    other.close()
    space, rows = lab.embedder.space, _passages(lab.embedder, _TEXTS)
    query = _query(lab.embedder, "Who is Rex?")
    for embedder in (lab.embedder, other):
        embedder.close()
        embedder.close()
        assert embedder.space == space
        assert _same(_passages(embedder, _TEXTS), rows)
        assert _same(_query(embedder, "Who is Rex?"), query)


def closing_disturbs_nobody(lab: Lab) -> None:
    """Who is embedding while another thread closes gets the vectors, or an error of the tree."""
    rows = _passages(lab.embedder, _TEXTS)
    wrong: list[object] = ["an error that is not of the tree"]
    closed = threading.Event()

    def work() -> None:
        while not closed.is_set():
            with suppress(StratalogError):
                if not _same(lab.embedder.embed_passages(_TEXTS), rows):
                    wrong.append("other vectors")
        wrong.pop(0)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(20):
        thread.join(0.01)
        lab.embedder.close()
    closed.set()
    thread.join()
    assert wrong == []
    assert _same(_passages(lab.embedder, _TEXTS), rows)


def a_forked_child_embeds(lab: Lab) -> None:
    """While its parent does too: each gets the vectors of its own texts."""
    if not hasattr(os, "fork"):
        return
    rows = _passages(lab.embedder, _TEXTS)
    asked = _query(lab.embedder, "Who is Rex?")
    child = os.fork()
    if child == 0:
        _child(lambda: _own_again(lab.embedder, rows, asked))
    status = None
    try:
        assert _own_again(lab.embedder, rows, asked)
        status = _ended(child)
    finally:
        if status is None:
            os.kill(child, 9)
            os.waitpid(child, 0)
    assert status == 0, "the child did not get what it asked for"
    assert _own_again(lab.embedder, rows, asked)


def _own_again(embedder: Embedder, rows: Vectors, asked: Vectors) -> bool:
    """Whether each text has the vector that it had."""
    one_by_one = all(
        _same(embedder.embed_passages([text])[0], row)
        for _ in range(8)
        for text, row in zip(_TEXTS, rows, strict=True)
    )
    return one_by_one and _same(embedder.embed_query("Who is Rex?"), asked)


def _child(act: Callable[[], bool]) -> Any:
    status = 1
    try:
        status = 0 if act() else 1
    finally:
        os._exit(status)


def _ended(child: int) -> int | None:
    """How the child ended; None when it has not within the time that it has."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    return None


def killed_it_begins_anew(lab: Lab) -> None:
    """When what runs the model dies, between calls, the next one answers; one under way answers or is an
    error of the tree, and the one after it answers."""
    if lab.kill is None:
        return
    rows, asked = _passages(lab.embedder, _TEXTS), _query(lab.embedder, "Who is Rex?")
    lab.kill(lab.embedder)
    assert _same(_passages(lab.embedder, _TEXTS), rows)
    assert _same(_query(lab.embedder, "Who is Rex?"), asked)
    many = [f"{text} {number}" for number in range(40) for text in _TEXTS]
    thread = threading.Timer(0.05, lab.kill, [lab.embedder])
    thread.start()
    with suppress(StratalogError):
        _passages(lab.embedder, many)
    thread.join()
    assert _same(_passages(lab.embedder, _TEXTS), rows)


CASES: Final[tuple[Callable[[Lab], None], ...]] = (
    the_space_is_told,
    a_text_has_a_row,
    rows_are_in_the_order_of_the_texts,
    a_text_has_the_same_vector_each_time,
    a_query_is_comparable_with_passages,
    alike_is_nearer_than_unlike,
    vectors_are_the_callers,
    any_text_has_a_vector,
    what_follows_a_nul_counts,
    a_huge_text_is_embedded,
    many_texts_are_embedded_at_once,
    threads_embed_at_once,
    closed_it_begins_anew,
    closing_disturbs_nobody,
    a_forked_child_embeds,
    killed_it_begins_anew,
)
