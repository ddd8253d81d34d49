"""A store of LangGraph: items under namespaces, durable when a call returns, in the data directory.

Every operation comes by `batch`: what is asked is read as it was before the batch, then the last put of each
item is written, all in one transaction. Vectors are made before that one begins.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import ge, gt, le, lt
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
)

from stratalog.engine.graphs import Item as Kept
from stratalog.engine.graphs import Namespace, Put, items_of
from stratalog.errors import InvalidConfig, InvalidInput
from stratalog.interop.waiting import Memory, engine_of

try:
    from stratalog.interop.langgraph import nearness
except ModuleNotFoundError:  # numpy, which only an index needs
    nearness = None  # type: ignore[assignment]  # a module has no other type

_MINUTE: Final = 60_000_000  # microseconds
_LONGEST: Final = 10**9  # minutes
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SIZES: Final = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}

Vectors = dict[str, list[float]]


def _now() -> int:
    return time.time_ns() // 1000


class _Index:
    """What is embedded of an item, and how near it is to a query."""

    def __init__(self, config: IndexConfig) -> None:
        if nearness is None:
            raise InvalidConfig(
                "an index of a store needs numpy", hint="pip install 'stratalog[langgraph,vectors]'"
            )
        self.dimensions = config["dims"]
        self.embeddings = ensure_embeddings(config.get("embed"))
        self.fields = list(config.get("fields") or ["$"])

    def texts(self, put: PutOp, kept: bytes | None) -> dict[str, str]:
        """The texts of an item, as it is kept, that are to be embedded, by names that tell where they
        stand."""
        if kept is None or put.index is False:
            return {}
        value = json.loads(kept)
        found: dict[str, str] = {}
        for field in self.fields if put.index is None else put.index:
            texts = get_text_at_path(value, field if field == "$" else tokenize_path(field))
            names = [field] if len(texts) == 1 else [f"{field}.{at}" for at in range(len(texts))]
            found.update(zip(names, texts, strict=True))
        return found


class _Batch(NamedTuple):
    """The operations of a batch; of its puts the values as they are kept, and what is to be embedded."""

    ops: list[Op]
    puts: dict[tuple[Namespace, str], PutOp]
    values: dict[tuple[Namespace, str], bytes | None]
    texts: dict[tuple[Namespace, str], dict[str, str]]

    def passages(self) -> list[str]:
        return list(dict.fromkeys(text for named in self.texts.values() for text in named.values()))

    def queries(self) -> list[str]:
        asked = [op.query for op in self.ops if isinstance(op, SearchOp) and op.query]
        return list(dict.fromkeys(asked))


class StratalogStore(BaseStore):
    """Items in the tenant's directory of a `Stratalog`, which must stay open as long.

        with Stratalog("data") as memory, StratalogStore(memory) as store:
            graph = builder.compile(store=store)

    `index` and `ttl` are LangGraph's own configurations. A value is JSON, and comes back as JSON does: a
    tuple as a list, a key that is a number as text. Items that have ended are swept when something is written
    and the interval has passed, or by `sweep_ttl`.

    Calls raise as those of `StratalogSaver`; `InvalidInput` for a value that is no JSON, `WrongDimension` for
    a vector that is not as long as the index says, and `ValueError` for an operator that there is not.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: Memory,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        clock: Callable[[], int] = _now,
    ) -> None:
        self.ttl_config = ttl
        self.index_config = index
        self._index = _Index(index) if index else None
        self._clock = clock
        self._items = items_of(engine_of(memory))
        self._swept = 0

    def close(self) -> None:
        """Closes the file. The store may be used again."""
        self._items.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        batch = self._batch(ops)
        passages: Vectors = {}
        queries: Vectors = {}
        if self._index is not None:
            embeddings = self._index.embeddings
            if texts := batch.passages():
                passages = dict(zip(texts, embeddings.embed_documents(texts), strict=True))
            queries = {query: embeddings.embed_query(query) for query in batch.queries()}
        return self._carry_out(batch, passages, queries)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        batch = self._batch(ops)
        passages: Vectors = {}
        queries: Vectors = {}
        if self._index is not None:
            embeddings = self._index.embeddings
            if texts := batch.passages():
                passages = dict(zip(texts, await embeddings.aembed_documents(texts), strict=True))
            for query in batch.queries():
                queries[query] = await embeddings.aembed_query(query)
        return await asyncio.to_thread(self._carry_out, batch, passages, queries)

    def sweep_ttl(self) -> int:
        """Deletes the items that have ended; how many."""
        self._swept = self._clock()
        return self._items.sweep(self._swept)

    # --- how ---

    def _batch(self, ops: Iterable[Op]) -> _Batch:
        ops = list(ops)
        puts: dict[tuple[Namespace, str], PutOp] = {}
        for op in ops:
            if isinstance(op, PutOp):
                puts[op.namespace, op.key] = op
            elif not isinstance(op, (GetOp, SearchOp, ListNamespacesOp)):
                raise ValueError(f"Unknown operation type: {type(op)}")
        values = {key: None if put.value is None else _json(put.value) for key, put in puts.items()}
        texts: dict[tuple[Namespace, str], dict[str, str]] = {}
        if self._index is not None:
            texts = {key: self._index.texts(put, values[key]) for key, put in puts.items()}
        return _Batch(ops, puts, values, texts)

    def _carry_out(self, batch: _Batch, passages: Vectors, queries: Vectors) -> list[Result]:
        now = self._clock()
        puts = [
            self._put(put, batch.values[key], batch.texts.get(key, {}), passages)
            for key, put in batch.puts.items()
        ]
        results = [self._answered(op, queries, now) for op in batch.ops]
        if puts:
            self._items.write(puts, now)
            every = (self.ttl_config or {}).get("sweep_interval_minutes")
            if every is not None and now - self._swept >= every * _MINUTE:
                self.sweep_ttl()
        return results

    def _put(self, put: PutOp, value: bytes | None, texts: Mapping[str, str], vectors: Vectors) -> Put:
        rows: list[tuple[str, bytes]] = []
        if self._index is not None:
            dimensions = self._index.dimensions
            rows = [(name, nearness.row_of(vectors[text], dimensions)) for name, text in texts.items()]
        return Put(
            namespace=tuple(put.namespace),
            key=put.key,
            value=value,
            ttl=_lifetime(put.ttl),
            vectors=tuple(rows),
        )

    def _answered(self, op: Op, queries: Vectors, now: int) -> Result:
        living = now if (self.ttl_config or {}).get("omit_expired") else 0
        match op:
            case GetOp():
                found = self._items.get(tuple(op.namespace), op.key, living)
                if found is None:
                    return None
                if op.refresh_ttl:
                    self._items.touch([found], now)
                return _item(found)
            case SearchOp():
                scored = self._searched(op, queries, living)
                if op.refresh_ttl:
                    self._items.touch([each for each, _ in scored], now)
                return [_search_item(each, score) for each, score in scored]
            case ListNamespacesOp():
                return _listed(self._items.namespaces((), living), op)
            case _:
                return None

    def _searched(self, op: SearchOp, queries: Vectors, living: int) -> list[tuple[Kept, float | None]]:
        prefix = tuple(op.namespace_prefix)
        if not op.filter and (self._index is None or not op.query):
            page = self._items.below(prefix, living, offset=op.offset, limit=op.limit)
            return [(item, None) for item in page]
        found = [
            item
            for item in self._items.below(prefix, living)
            if not op.filter or _fits(json.loads(item.value), op.filter)
        ]
        if self._index is None or not op.query:
            return [(item, None) for item in found[op.offset : op.offset + op.limit]]
        vectors = self._items.vectors([item.row for item in found])
        places = [(item, row) for item in found for row in vectors.get(item.row, ())]
        scores = nearness.cosines(queries[op.query], [row for _, row in places], self._index.dimensions)
        best: dict[Kept, float] = {}
        for (item, _), score in zip(places, scores, strict=True):
            best[item] = max(score, best.get(item, score))
        ranked = sorted(best, key=lambda item: -best[item])
        ranked += [item for item in found if item not in best]
        return [(item, best.get(item)) for item in ranked[op.offset : op.offset + op.limit]]


# --- values ---


def _json(value: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(dict(value), separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"what a store keeps is JSON: {error}") from error


def _lifetime(minutes: float | None) -> int | None:
    """In microseconds. Raises `InvalidInput` for what is no number of minutes."""
    if minutes is None:
        return None
    if not abs(minutes) < _LONGEST:
        raise InvalidInput("a time to live is a number of minutes", given=minutes, hint="None is without end")
    return round(minutes * _MINUTE)


def _moment(at: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at)


def _item(kept: Kept) -> Item:
    return Item(
        value=json.loads(kept.value),
        key=kept.key,
        namespace=kept.namespace,
        created_at=_moment(kept.created_at),
        updated_at=_moment(kept.updated_at),
    )


def _search_item(kept: Kept, score: float | None) -> SearchItem:
    return SearchItem(
        namespace=kept.namespace,
        key=kept.key,
        value=json.loads(kept.value),
        created_at=_moment(kept.created_at),
        updated_at=_moment(kept.updated_at),
        score=score,
    )


# --- namespaces ---


def _listed(namespaces: Sequence[Namespace], op: ListNamespacesOp) -> list[Namespace]:
    """The namespaces that the operation means, of all that there are, in order."""
    found = [each for each in namespaces if all(_matches(each, one) for one in op.match_conditions or ())]
    if op.max_depth is not None:
        found = sorted({each[: op.max_depth] for each in found})
    return found[op.offset : op.offset + op.limit]


def _matches(namespace: Namespace, condition: MatchCondition) -> bool:
    """Whether the namespace begins, or ends, as the condition says. A segment `*` of it is any."""
    path = condition.path
    if len(namespace) < len(path):
        return False
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    part = (
        namespace[: len(path)]
        if condition.match_type == "prefix"
        else namespace[len(namespace) - len(path) :]
    )
    return all(wanted in ("*", segment) for wanted, segment in zip(path, part, strict=True))


# --- filters ---


def _fits(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_equals(value.get(key), each) for key, each in wanted.items())


def _equals(value: Any, wanted: Any) -> bool:
    """Whether a value is what a filter wants: as Python compares, a dict only in the keys that are named, and
    where a key begins with `$` by that operator."""
    if isinstance(wanted, dict):
        if any(key.startswith("$") for key in wanted):
            return all(_compares(value, key, each) for key, each in wanted.items())
        return isinstance(value, dict) and _fits(value, wanted)
    if isinstance(wanted, (list, tuple)):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(_equals(one, each) for one, each in zip(value, wanted, strict=True))
        )
    return bool(value == wanted)


def _compares(value: Any, operator: str, wanted: Any) -> bool:
    """Whether the operator holds. Those of size are of numbers, and of text that is one: what is none, or is
    not there, is neither greater nor less."""
    match operator:
        case "$eq":
            return bool(value == wanted)
        case "$ne":
            return bool(value != wanted)
        case "$gt" | "$gte" | "$lt" | "$lte":
            try:
                return bool(_SIZES[operator](_number(value), _number(wanted)))
            except (TypeError, ValueError):
                return False
        case _:
            raise ValueError(f"Unsupported operator: {operator}")


def _number(value: Any) -> float:
    """Raises `TypeError` or `ValueError` for what is none."""
    try:
        return float(value)
    except OverflowError:  # an integer beyond what a float can be
        return math.inf if value > 0 else -math.inf
