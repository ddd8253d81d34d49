"""The order of candidates: what each part is, and what it must not depend on."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.recall import ranking
from stratalog.recall.ranking import (
    Brief,
    Row,
    alone,
    around,
    asked_of,
    counted,
    ends,
    firsts,
    idf_of,
    meanings,
    named,
    nearness,
    ranked,
    reranked,
    score_of,
    spread,
    telling,
    with_lent,
    words_share,
)

NOON = 1_683_547_200_000  # 8 May 2023, 12:00 UTC
DAY = 86_400_000
WORDS = ["fig", "plum", "pear", "上海"]
MEAN = 5.0


def row(number: int, words: str, **more: object) -> Row:
    """A document of the talk 1, said by nobody in particular."""
    made = Row(number, 1, number, "user", 1, "", False, len(words.split()), False, NOON, f" {words} ")
    return made._replace(**more)  # type: ignore[arg-type]


def counts_of(one: Row, asked: ranking.Asked, mean_size: float) -> dict[str, float]:
    """How often each asked word stands in a row."""
    return counted([one], asked, mean_size).get(one.id, {})


def order_of(
    pool: Iterable[int],
    rows: dict[int, Row],
    asked: ranking.Asked,
    likeness: dict[int, float] | None = None,
) -> dict[int, dict[str, float]]:
    """The named parts of the pool's rows, best first."""
    found = ranked(pool, rows, counted(rows.values(), asked, MEAN), asked, likeness)
    return {at: named(parts) for at, parts in found.items()}


def table(*made: Row) -> dict[int, Row]:
    return {one.id: one for one in made}


@st.composite
def tables(draw: st.DrawFn) -> dict[int, Row]:
    """Rows of three talks with gaps between them, as an index may hold them."""
    made = []
    for talk in range(3):
        for place in draw(st.sets(st.integers(0, 9))):
            words = draw(st.lists(st.sampled_from([*WORDS, "other", "上"]), min_size=1, max_size=8))
            made.append(
                row(
                    talk * 10 + place,
                    " ".join(words),
                    talk=talk,
                    session=draw(st.integers(1, 2)),
                    role=draw(st.sampled_from(["user", "assistant", "tool_result"])),
                    speaker=draw(st.sampled_from(["", "ana", "bob costa"])),
                    asks=draw(st.booleans()),
                    size=draw(st.integers(0, 2000)),
                    injected=draw(st.booleans()),
                    ts=NOON + DAY * place,
                )
            )
    return table(*made)


questions = st.builds(
    asked_of,
    st.dictionaries(st.sampled_from([*WORDS, "上", "may"]), st.floats(0.01, 9), max_size=5),
    st.sets(st.sampled_from(["ana", "costa"])),
    st.lists(st.tuples(st.just(NOON), st.integers(NOON, NOON + 9 * DAY)), max_size=2),
)
cosines = st.dictionaries(st.integers(0, 29), st.floats(-1, 1))


@settings(deadline=None)  # the first to ask for a day loads the stemmer
@given(rows=tables(), asked=questions, likeness=cosines)
def test_parts_add_up_and_the_order_is_theirs(
    rows: dict[int, Row], asked: ranking.Asked, likeness: dict[int, float]
) -> None:
    """Scores are the sums of the parts, from high to low, of equal ones the earlier first; no lexical
    part is nothing; and nothing depends on the order in which the pool was found."""
    found = order_of(list(rows), rows, asked, likeness)
    assert list(found) == list(order_of(list(rows)[::-1], rows, asked, likeness))
    keys = [(-sum(parts.values()), at) for at, parts in found.items()]
    assert keys == sorted(keys)
    assert found.keys() == rows.keys()
    for parts in found.values():
        assert all(parts.values())
        assert 0 <= parts.get("words", 0) <= 1 + ranking.K1
        assert 0 <= parts.get("session", 0) <= ranking.SESSION + 1e-9
        assert 0 <= parts.get("length", 0) <= ranking.LENGTH


@settings(deadline=None)  # the first to ask for a day loads the stemmer
@given(rows=tables(), asked=questions)
def test_other_talks_change_nothing(rows: dict[int, Row], asked: ranking.Asked) -> None:
    """What a document is worth by words comes from its own talk, though numbers of others lie beside it."""
    together = order_of(rows, rows, asked)
    for talk in range(3):
        own = {at: one for at, one in rows.items() if one.talk == talk}
        apart = order_of(own, own, asked)
        assert apart == {at: together[at] for at in apart}


@settings(deadline=None)  # the first to ask for a day loads the stemmer
@given(rows=tables())
def test_neighbours_are_near_and_of_one_talk(rows: dict[int, Row]) -> None:
    """Two on each side at most, of the same talk."""
    for one in rows.values():
        near = around(one, rows)
        assert all(rows[at].talk == one.talk and 1 <= abs(at - one.id) <= 2 for at, _ in near)
        assert all(weight == ranking.REACH[abs(at - one.id) - 1] for at, weight in near)


def test_a_word_counts_by_how_near_it_stands() -> None:
    """Fully in the document, half beside it, a quarter two away, and not further."""
    rows = table(row(1, "fig"), row(2, "a"), row(3, "b"), row(4, "c"))
    asked = asked_of({"fig": 2.0})
    near = nearness(counted(rows.values(), asked, 1.0), rows)
    own = near[1]["fig"]
    assert near == {1: {"fig": own}, 2: {"fig": pytest.approx(own / 2)}, 3: {"fig": pytest.approx(own / 4)}}


def test_neighbours_lend_in_choosing_too() -> None:
    """A quarter of what their words count, and nothing from further away."""
    covers = {1: 4.0, 2: 2.0, 4: 8.0, 7: 3.0}
    assert with_lent(2, covers) == pytest.approx(2 + 0.25 * (0.5 * 4 + 0.25 * 8))
    assert with_lent(7, covers) == 3.0


def test_all_words_once_are_one() -> None:
    """A document of mean length with every word once, or with the day in its date, has the whole share."""
    asked = asked_of({"fig": 2.0, "plum": 1.0, "may": 1.0})
    counts = counts_of(row(1, "fig plum x y"), asked, 5.0)
    assert words_share(counts, NOON, asked) == pytest.approx(1.0)
    assert words_share(counts, 0, asked) == pytest.approx(0.75)


def test_words_are_whole_but_for_one_character() -> None:
    """A word is no part of another; a character of a script without spaces begins its terms."""
    asked = asked_of({"fig": 1.0, "上": 1.0})
    assert counts_of(row(1, "figs 海上"), asked, 2.0).keys() == set()
    assert counts_of(row(1, "fig 上海"), asked, 2.0).keys() == {"fig", "上"}


def test_long_listings_are_bounded() -> None:
    """A listing has a word once however often, and no less than a document of ten mean lengths; a tool's
    counts no more than a neighbour's."""
    asked = asked_of({"fig": 1.0})
    needle = counts_of(row(1, "fig", size=100_000), asked, MEAN)["fig"]
    assert needle == counts_of(row(1, "fig", size=51), asked, MEAN)["fig"] > 0.15
    assert counts_of(row(1, "fig " * 5000, size=100_000), asked, MEAN) == {"fig": 1.0}
    assert counts_of(row(1, "fig fig", role="tool_call"), asked, MEAN) == {"fig": ranking.LENT}


def test_parts_of_an_answer() -> None:
    """What follows a question that has the words is worth more, the question itself less; a name and a time
    in the question, and length, each have their part."""
    rows = table(
        row(1, "where is the fig", asks=True),
        row(2, "in the garden", speaker="ana costa", role="assistant"),
        row(3, "log", role="tool_result", size=5000),
    )
    asked = asked_of({"fig": 2.0}, ["ana"], [(NOON - DAY, NOON - DAY // 2)])
    found = order_of(rows, rows, asked)
    assert found[1]["asks"] == ranking.ASKS
    assert found[2]["answer"] == ranking.ANSWER
    assert found[2]["speaker"] == ranking.SPEAKER
    assert "time" not in found[2]
    assert "length" not in found[3]
    later = asked_of({"fig": 2.0}, [], [(NOON - DAY, NOON)])  # told within as long as it took
    assert order_of(rows, rows, later)[2]["time"] == ranking.TIME


def test_injected_words_are_lent() -> None:
    """What recall had put there counts half."""
    asked = asked_of({"fig": 1.0})
    said, put = (counts_of(row(1, "fig", injected=injected), asked, MEAN) for injected in (False, True))
    assert put["fig"] == said["fig"] / 2
    put_there, told = (Brief(1, 1, "user", injected, "", 1, "e1", 0) for injected in (True, False))
    assert alone(put_there, 1.0, asked, MEAN) < alone(told, 1.0, asked, MEAN)


def test_meaning_is_of_the_window_and_standardised() -> None:
    """Neighbours' likeness counts as their words do; those without a vector have no part, and where all are
    alike nobody has."""
    rows = table(*(row(number, "x") for number in range(1, 5)))
    found = meanings([1, 2, 4], rows, {1: 0.8, 2: 0.2})
    windows = [(0.8 + 0.5 * 0.2) / 1.5, (0.2 + 0.5 * 0.8) / 1.5]
    assert windows[0] > windows[1]
    assert found == {1: pytest.approx(1.0), 2: pytest.approx(-1.0)}
    assert meanings([1, 2], rows, {1: 0.5, 2: 0.5}) == {}
    assert meanings([], rows, {}) == {}


def test_rare_words_weigh_more() -> None:
    """Above nothing always, also of a word that all documents have, or that is counted too often."""
    weights = [idf_of(1000, having) for having in (0, 1, 10, 999, 1000, 2000)]
    assert weights == sorted(weights, reverse=True)
    assert weights[-1] > 0


def test_an_empty_question_is_no_fault() -> None:
    """Without words the other parts decide."""
    rows = table(row(1, "fig"), row(2, "fig", size=50))
    assert list(order_of(rows, rows, asked_of({}))) == [2, 1]
    assert order_of([], {}, asked_of({})) == {}


def test_reranked_parts_add_up_to_the_scores() -> None:
    """The model's scores are the scores, in their order; of equal ones the earlier comes first."""
    order = reranked([{"words": 0.5}, {"words": 0.4, "asks": -0.1}, {"words": 0.1}], [0.2, 0.9, 0.2])
    assert [at for at, _ in order] == [1, 0, 2]
    assert [score_of(parts) for _, parts in order] == [pytest.approx(s) for s in (0.9, 0.2, 0.2)]


def test_what_tells_of_a_long_question() -> None:
    """A short one is asked for whole. Of a long one 64 words that any document has: sixteen at each end,
    however common, and between them the rarest, which count half; in their order."""
    short = ["nobody has this", *(f"w{number}" for number in range(63))]
    assert telling(short, {}) == dict.fromkeys(short, 1.0)
    words = [f"w{number}" for number in range(200)]
    having = {word: 1000 - number for number, word in enumerate(words) if number != 199}
    chosen = telling(words, having)
    assert list(chosen) == [f"w{number}" for number in (*range(16), *range(151, 199))]
    assert [chosen[word] for word in chosen] == [1.0] * 16 + [0.5] * 32 + [1.0] * 16
    assert telling(words, {}) == {}


def test_the_ends_of_words() -> None:
    """All when they are few enough, else the first and the last of them."""
    assert ends(["a", "b", "c"], 3) == ["a", "b", "c"]
    assert ends(["a", "b", "c", "d", "e"], 3) == ["a", "b", "e"]
    assert ends(["a", "b", "c", "d", "e"], 4) == ["a", "b", "d", "e"]


def test_no_document_is_to_have_all_of_a_long_question() -> None:
    """The share of the words that one has is of so many as one is expected to have, the rarest."""
    idf = {f"w{number}": float(number) for number in range(1, 5)}
    assert asked_of(idf).total == 10.0
    assert asked_of(idf, expected=2).total == 7.0


def test_of_copies_the_oldest_where_the_first_comes() -> None:
    """Passages of one entry are not copies of one another."""
    order = [("a", 0, 7), ("b", 0, 5), ("a", 0, 3), ("a", 90, 8), ("b", 0, 6)]
    briefs = [Brief(id, 1, "user", False, "", 1, entry, start) for entry, start, id in order]
    assert [each.id for each in firsts(briefs)] == [3, 5, 8]


@given(
    st.lists(st.tuples(st.integers(), st.sampled_from("abcdefgh"), st.integers(1, 3))),
    st.integers(0, 8),
    st.integers(1, 4),
)
def test_spread(entries: list[tuple[int, str, int]], limit: int, most: int) -> None:
    """No session has more than it may, no entry comes twice, and nothing is left out that could come."""
    told = [((at, entry, session), entry, session) for at, (_, entry, session) in enumerate(entries)]
    found = spread(told, limit, most)
    assert [at for at, _, _ in found] == sorted(at for at, _, _ in found)
    sessions = [session for _, _, session in found]
    assert all(sessions.count(session) <= most for session in sessions)
    assert len({entry for _, entry, _ in found}) == len(found) <= limit
    if len(found) < limit:
        had = {entry for _, entry, _ in found}
        assert all(entry in had or sessions.count(session) == most for _, entry, session in entries)
