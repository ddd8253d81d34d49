"""interop/langgraph: the store gives the answers of LangGraph's own, and what that leaves open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from stratalog import Stratalog
from stratalog.aio import AsyncStratalog
from stratalog.errors import InvalidInput, WrongDimension
from stratalog.interop.langgraph import StratalogStore

MINUTE = 60_000_000


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Stratalog]:
    with Stratalog(tmp_path) as opened:
        yield opened


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000

    def __call__(self) -> int:
        return self.now


def embed(texts: Sequence[str]) -> list[list[float]]:
    """The count of each of four letters."""
    return [[float(text.count(letter)) for letter in "abcd"] for text in texts]


async def embed_later(texts: Sequence[str]) -> list[list[float]]:
    return embed(texts)


# --- the same answers as InMemoryStore ---

SPACES = [("a",), ("a", "b"), ("ab",), ("a", "%"), ("a", "_"), ("a", "b", "c"), ("x.y", ""), ("*",), ("'--",)]
KEYS = ["k", "K", "%", "", "a\0b"]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False, width=16),
    st.sampled_from(["", "a", "2", "bad", "é\ud800"]),
)
values = st.dictionaries(
    st.sampled_from(["n", "t", "$x", "a.b"]),
    st.one_of(
        scalars, st.lists(scalars, max_size=2), st.dictionaries(st.sampled_from("pq"), scalars, max_size=2)
    ),
    max_size=3,
)
names = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
operators = st.dictionaries(names, scalars, min_size=1, max_size=2)
filters = st.one_of(
    st.none(),
    st.dictionaries(
        st.sampled_from(["n", "t", "a.b", "none"]),
        st.one_of(scalars, operators, st.lists(scalars, max_size=2), st.fixed_dictionaries({"p": scalars})),
        max_size=2,
    ),
)
spaces = st.sampled_from(SPACES)
prefixes = st.one_of(st.just(()), spaces, spaces.map(lambda each: each[:1]))
paths = st.lists(st.sampled_from(["a", "b", "*", "%", "c"]), max_size=2).map(tuple)
pages = {"limit": st.integers(0, 6), "offset": st.integers(0, 4)}
ops = st.one_of(
    st.builds(GetOp, spaces, st.sampled_from(KEYS), st.just(True)),
    st.builds(
        PutOp, spaces, st.sampled_from(KEYS), st.one_of(st.none(), values, values), st.none(), st.none()
    ),
    st.builds(
        SearchOp,
        prefixes,
        filters,
        query=st.sampled_from([None, "ab", "c"]),
        refresh_ttl=st.just(True),
        **pages,
    ),
    st.builds(
        ListNamespacesOp,
        st.lists(st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), paths), max_size=2).map(
            tuple
        ),
        st.one_of(st.none(), st.integers(1, 3)),
        **pages,
    ),
)


def told(result: Any) -> Any:
    """An answer without its times, with scores as float32 has them."""
    if isinstance(result, list):
        return [told(each) for each in result]
    if result is None or isinstance(result, tuple):
        return result
    score = getattr(result, "score", None)
    return (result.namespace, result.key, result.value, None if score is None else round(score, 5))


class Reference(InMemoryStore):
    """InMemoryStore without what is an accident in it: that a value which is no number ends a search with an
    error, that a put leaves the vectors of the value before, that texts of two items that are the same
    cannot be embedded, and that every page of a query begins anew with what has no vector."""

    def batch(self, given_ops: Any) -> list[Any]:
        given_ops = list(given_ops)
        pages = [each for each in given_ops if isinstance(each, SearchOp) and each.query and each.offset]
        if pages and len(given_ops) == 1:
            (op,) = pages
            (found,) = self.batch([op._replace(offset=0, limit=op.offset + op.limit)])
            return [found[op.offset :]]
        results = super().batch([each for each in given_ops if not isinstance(each, PutOp)])
        last = {(each.namespace, each.key): each for each in given_ops if isinstance(each, PutOp)}
        for each in last.values():
            self._vectors[each.namespace].pop(each.key, None)
            super().batch([each])
        return [None if isinstance(each, PutOp) else results.pop(0) for each in given_ops]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(ops, max_size=5), max_size=8), st.booleans())
def test_any_batches_have_the_answers_of_the_reference(batches: list[list[Op]], indexed: bool) -> None:
    """Gets, puts, deletions, searches and lists of namespaces, in any batches, answer as InMemoryStore does,
    in its order. Where that ends with an error, for a value that is no number, ours has what fits."""
    index: Any = {"dims": 4, "embed": embed, "fields": ["t"]} if indexed else None
    with (
        TemporaryDirectory() as directory,
        Stratalog(directory) as memory,
        StratalogStore(memory, index=index) as ours,
    ):
        reference = Reference(index=index)
        for store in (ours, reference):  # so that namespaces are as old in both, and none is empty
            store.batch([PutOp(each, "kept", {"n": 0}, index=False) for each in SPACES])
        for batch in batches:
            got = ours.batch(batch)
            for op, ours_told in zip(batch, got, strict=True):
                if isinstance(op, PutOp):
                    continue
                try:
                    (wanted,) = reference.batch([op])
                except (TypeError, ValueError):
                    continue
                assert told(ours_told) == told(wanted), op
            reference.batch([each for each in batch if isinstance(each, PutOp)])


# --- what it leaves open ---


def test_a_filter_that_does_not_apply_finds_nothing(memory: Stratalog) -> None:
    """A value that is not there, or is no number, is neither greater nor less; an operator that there is not
    is refused."""
    with StratalogStore(memory) as store:
        store.put(("a",), "one", {"score": 5})
        store.put(("a",), "two", {})
        store.put(("a",), "three", {"score": "many"})
        assert [each.key for each in store.search(("a",), filter={"score": {"$gt": 4}})] == ["one"]
        assert [each.key for each in store.search(("a",), filter={"score": {"$ne": 5}})] == ["two", "three"]
        with pytest.raises(ValueError, match=r"\$like"):
            store.search(("a",), filter={"score": {"$like": 1}})
        store.put(("a",), "large", {"score": 10**400})
        assert [each.key for each in store.search(("a",), filter={"score": {"$gt": 9}})] == ["large"]
        assert [each.key for each in store.search(("a",), filter={"score": {"$lt": 10**400}})] == ["one"]


def test_pages_of_a_query_have_each_item_once(memory: Stratalog) -> None:
    """What has a vector and what has none, in one order; after the last page there is none."""
    index: Any = {"dims": 4, "embed": embed, "fields": ["t"]}
    with StratalogStore(memory, index=index) as store:
        for at in range(5):
            store.put(("a",), f"v{at}", {"t": "a" * at + "b"})
            store.put(("a",), f"n{at}", {"n": at})
        pages = [store.search(("a",), query="a", limit=3, offset=at) for at in range(0, 15, 3)]
        wanted = ["v4", "v3", "v2", "v1", "v0", *[f"n{at}" for at in range(5)]]
        assert [each.key for page in pages for each in page] == wanted


def test_an_item_keeps_the_time_of_its_making(memory: Stratalog) -> None:
    """An update moves `updated_at` alone; both are aware, and UTC. A deletion forgets both."""
    clock = Clock()
    with StratalogStore(memory, clock=clock) as store:
        store.put(("a",), "k", {"n": 1})
        clock.now += 7
        store.put(("a",), "k", {"n": 2})
        found = store.get(("a",), "k")
        assert found is not None
        assert (found.updated_at - found.created_at).microseconds == 7
        assert found.created_at.isoformat() == "2023-11-14T22:13:20+00:00"
        store.delete(("a",), "k")
        store.put(("a",), "k", {"n": 3})
        found = store.get(("a",), "k")
        assert found is not None
        assert found.created_at == found.updated_at


def test_a_value_is_json(memory: Stratalog) -> None:
    """What JSON can say comes back as it was, large numbers and lone surrogates too; what it cannot is
    refused, with all of its batch."""
    with StratalogStore(memory) as store:
        value = {"int": 2**80, "text": "\ud800\0é", "list": [1, 1.5, None, True], "deep": {"a": [{}]}}
        store.put(("a",), "k", value)
        found = store.get(("a",), "k")
        assert found is not None
        assert found.value == value
        with pytest.raises(InvalidInput):
            store.batch([PutOp(("a",), "other", {"n": 1}), PutOp(("a",), "bad", {"n": object()})])
        assert store.get(("a",), "other") is None
    with StratalogStore(memory, index={"dims": 4, "embed": embed}) as store:  # it embeds what is kept
        with pytest.raises(InvalidInput):
            store.put(("a",), "bad", {"n": object()})
        store.put(("a",), "keys", {"n": {1: "a", "b": ("c",)}})
        found = store.get(("a",), "keys")
        assert found is not None
        assert found.value == {"n": {"1": "a", "b": ["c"]}}


def test_what_is_asked_wrongly_is_refused(memory: Stratalog) -> None:
    """A time that has no end in numbers, and the namespaces that `BaseStore` refuses."""
    with StratalogStore(memory) as store:
        for endless in (float("inf"), float("nan"), 1e300):
            with pytest.raises(InvalidInput):
                store.put(("a",), "k", {}, ttl=endless)
        for namespace in ((), ("langgraph",), ("a.b",), ("",)):
            with pytest.raises(InvalidNamespaceError):
                store.put(namespace, "k", {})


def test_items_end(memory: Stratalog) -> None:
    """An item ends its time to live after it was last read or written; who reads it without refreshing does
    not prolong it. It is there until it is swept, unless such items are left out."""
    clock = Clock()
    with StratalogStore(memory, ttl={"default_ttl": 10}, clock=clock) as store:
        store.put(("a",), "k", {"n": 1})
        store.put(("a",), "for ever", {"n": 1}, ttl=None)
        clock.now += 9 * MINUTE
        assert store.get(("a",), "k") is not None  # prolongs it
        clock.now += 9 * MINUTE
        assert store.sweep_ttl() == 0
        assert len(store.search(("a",), refresh_ttl=False)) == 2
        clock.now += 2 * MINUTE
        with StratalogStore(memory, ttl={"omit_expired": True}, clock=clock) as strict:
            assert strict.get(("a",), "k") is None
            assert [each.key for each in strict.search(("a",))] == ["for ever"]
        assert store.get(("a",), "k", refresh_ttl=False) is not None
        assert store.sweep_ttl() == 1
        assert [each.key for each in store.search(())] == ["for ever"]


def test_writing_sweeps_from_time_to_time(memory: Stratalog) -> None:
    """With an interval, a write that comes after it deletes what has ended."""
    clock = Clock()
    with StratalogStore(memory, ttl={"sweep_interval_minutes": 5}, clock=clock) as store:
        store.put(("a",), "k", {}, ttl=1)
        clock.now += 2 * MINUTE
        store.put(("a",), "other", {})
        assert store.get(("a",), "k", refresh_ttl=False) is not None
        clock.now += 4 * MINUTE
        store.put(("a",), "other", {})
        assert store.get(("a",), "k") is None


def test_what_is_embedded_is_what_the_fields_say(memory: Stratalog) -> None:
    """`fields` names what is embedded, elements of an array each by itself; `index` of a put overrides it,
    and a put without one takes the vectors of before away."""
    index: Any = {"dims": 4, "embed": embed, "fields": ["title", "parts[*].text"]}
    with StratalogStore(memory, index=index) as store:
        store.put(("a",), "title", {"title": "aaa", "other": "bbb"})
        store.put(("a",), "parts", {"parts": [{"text": "cc"}, {"text": "bb"}]})
        store.put(("a",), "whole", {"x": "dddd"}, index=["$"])
        store.put(("a",), "none", {"title": "aaa"}, index=False)

        def best(query: str) -> list[tuple[str, float | None]]:
            return [(each.key, each.score) for each in store.search(("a",), query=query, limit=1)]

        assert best("a") == [("title", 1.0)]
        assert best("b") == [("parts", 1.0)]
        assert best("d") == [("whole", 1.0)]
        assert [each.score for each in store.search(("a",), query="a")][-1] is None
        store.put(("a",), "title", {"title": "aaa"}, index=False)
        assert best("a")[0][0] != "title"


def test_a_vector_of_another_length_is_refused(memory: Stratalog) -> None:
    """Nothing of the batch is stored."""
    index: Any = {"dims": 3, "embed": embed}
    with StratalogStore(memory, index=index) as store:
        with pytest.raises(WrongDimension):
            store.put(("a",), "k", {"t": "a"})
        assert store.get(("a",), "k") is None


def test_vectors_of_another_index_are_not_compared(memory: Stratalog) -> None:
    """Where the index has changed its length a query is refused until the items were put under it, even where
    the lengths of several make up for one another."""
    for dims in (2, 6):
        index: Any = {"dims": dims, "embed": lambda texts, dims=dims: [[1.0] * dims for _ in texts]}
        with StratalogStore(memory, index=index) as store:
            store.put(("a",), f"of {dims}", {"t": "a"})
    with StratalogStore(memory, index={"dims": 4, "embed": embed}) as store:
        with pytest.raises(WrongDimension):
            store.search(("a",), query="a")
        for each in store.search(("a",)):
            store.put(each.namespace, each.key, each.value)
        assert [each.key for each in store.search(("a",), query="a")] == ["of 2", "of 6"]


def test_the_same_under_asyncio(tmp_path: Path) -> None:
    """The methods whose names begin with `a` do the same, with a coroutine that embeds."""

    async def body() -> None:
        index: Any = {"dims": 4, "embed": embed_later, "fields": ["t"]}
        async with AsyncStratalog(tmp_path) as memory, StratalogStore(memory, index=index) as store:
            await asyncio.gather(*[store.aput(("a", str(at)), "k", {"t": "abcd"[at]}) for at in range(4)])
            (found,) = await store.asearch(("a",), query="b", limit=1)
            assert (found.namespace, found.score) == (("a", "1"), 1.0)
            assert len(await store.alist_namespaces(prefix=("a",))) == 4
            await store.adelete(("a", "1"), "k")
            assert await store.aget(("a", "1"), "k") is None
            assert await store.abatch([GetOp(("a", "2"), "k"), PutOp(("a", "2"), "k", None)]) != [None, None]
            assert await store.aget(("a", "2"), "k") is None

    asyncio.run(body())
