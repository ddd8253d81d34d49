"""Finding by meaning, where an embedder is configured: vectors beside words.

    <tenant>/vectors/turns/         what was said: a scope is a session's key in writing
    <tenant>/vectors/records/       the records that last: a scope is an environment and a record's scope
    <tenant>/vectors/documents/     chunks of documents: a scope is a collection

A search embeds its question and nothing else, and an append nothing; what a question is compared with is
embedded in the background (`embedding`). An embedder that fails, or that is still filling its space, fails no
search: words answer, and a problem says why. All that it takes, numpy and the packages of models, is loaded
when it is first wanted.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from stratalog.config import RecallSettings
from stratalog.errors import InvalidConfig, StratalogError, words_of
from stratalog.log.contract import OnProblem, Problem
from stratalog.memory.residency import permits
from stratalog.models.contract import Reach

if TYPE_CHECKING:
    from stratalog.recall.embed import Embedder, Space, Vectors
    from stratalog.recall.vectors import Kept, VectorStore

DIRECTORY: Final = "vectors"
What: TypeAlias = Literal["turns", "records", "documents"]
WHATS: Final[tuple[What, ...]] = ("turns", "records", "documents")
LOCAL: Final = "local"
_OPENAI: Final = "openai:"
_QUERY_S: Final = 10.0  # in all for one question; a search must not wait longer for what it can do without
_HOLD_OFF_S: Final = 30.0  # after a failure, in which the embedder is asked nothing
_LATEST: Final = 64  # questions whose vectors are kept


class Embedding:
    """The embedder that the settings name, for all tenants of a data directory. Nothing is loaded before it
    is wanted. Questions and passages have one each, so that no search waits as long as work may."""

    def __init__(self, settings: RecallSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._mutex = threading.Lock()
        self._made: dict[str, Embedder] = {}
        self._latest: OrderedDict[tuple[str, str], Vectors] = OrderedDict()
        self._silent = 0.0  # until when it is asked nothing
        self._why: StratalogError | None = None

    @property
    def wanted(self) -> bool:
        """Whether an embedder is configured."""
        return bool(self._settings.embedder)

    @property
    def reach(self) -> Reach:
        """How far what it is given goes. Raises `InvalidConfig` where it cannot be had."""
        return self.passages().reach

    def passages(self) -> Embedder:
        """The one for what is to be found. Raises `InvalidConfig` where it cannot be had."""
        return self._one("passages", self._settings.dimensions)

    def answering(self, kept: Sequence[Kept]) -> Space | None:
        """The complete space, of those kept, that is this embedder's; None where there is none. Nobody is
        asked."""
        from stratalog.recall.embed_endpoint import version_of

        wanted, own = self.passages(), self._settings
        name = own.embedder.removeprefix(_OPENAI).strip()
        version = version_of("", own.query_prefix, own.passage_prefix)
        for one in reversed(kept):
            if own.embedder == LOCAL:
                same = one.space == wanted.space
            else:
                same = (one.space.model, one.space.version) == (name, version)
                same = same and own.dimensions in (None, one.space.dimensions)
            if same and one.complete:
                return one.space
        return None

    def asked(self, text: str, space: Space) -> Vectors:
        """The vector of a question in this space. Raises what the embedder does; for half a minute after a
        failure the same is raised at once."""
        key = (space.name, text)
        with self._mutex:
            if key in self._latest:
                self._latest.move_to_end(key)
                return self._latest[key]
            if self._why is not None and self._clock() < self._silent:
                raise self._why
        try:
            made = self._one(f"questions {space.dimensions}", space.dimensions).embed_query(text)
        except StratalogError as error:
            with self._mutex:
                self._silent, self._why = self._clock() + _HOLD_OFF_S, error
            raise
        with self._mutex:
            self._why = None
            self._latest[key] = made
            while len(self._latest) > _LATEST:
                self._latest.popitem(last=False)
        return made

    def close(self) -> None:
        """Ends what runs. Asked again, it begins anew."""
        with self._mutex:
            made, self._made = list(self._made.values()), {}
        for each in made:
            each.close()

    def _one(self, name: str, dimensions: int | None) -> Embedder:
        local = self._settings.embedder == LOCAL
        name = LOCAL if local else name  # which has a process for each kind itself
        with self._mutex:
            if name not in self._made:
                self._made[name] = self._local() if local else self._endpoint(name, dimensions)
            return self._made[name]

    def _local(self) -> Embedder:
        from stratalog.recall.embedders import local_embedder

        return local_embedder()

    def _endpoint(self, name: str, dimensions: int | None) -> Embedder:
        from stratalog.models.configured import where_is
        from stratalog.models.embeddings import Embeddings
        from stratalog.models.retry import Policy
        from stratalog.recall.embedders import endpoint_embedder

        own = self._settings
        where = where_is(own.embedder, base_url=own.base_url, api_key_env=own.api_key_env)
        patient = name == "passages"
        asked = Embeddings(
            own.embedder.removeprefix(_OPENAI).strip(),
            api_key=where.api_key,
            base_url=where.base_url,
            policy=Policy() if patient else Policy(attempts=2, total=_QUERY_S / 2),
            timeout=60.0 if patient else _QUERY_S / 2,
            reach=own.reach or None,
        )
        return endpoint_embedder(
            asked,
            dimensions=dimensions,
            query_prefix=own.query_prefix,
            passage_prefix=own.passage_prefix,
        )


class Question:
    """A question as a search by meaning has it: see `recall.ranking.Meaning`. What goes wrong in the store is
    told as a problem, and finds nothing."""

    def __init__(
        self,
        store: VectorStore,
        space: Space,
        vector: Vectors,
        scopes: Collection[str] | None,
        note: Callable[[StratalogError], None],
    ) -> None:
        self._store, self._space, self._vector = store, space, vector
        self._scopes, self._note = scopes, note

    def nearest(self, count: int) -> list[tuple[str, str]]:
        """The scopes and ids of the `count` nearest texts, the nearest first."""
        try:
            found = self._store.search(self._space, self._vector, count, scopes=self._scopes)
        except StratalogError as error:
            self._note(error)
            return []
        return [(each.scope, each.id) for each in found]

    def likeness(self, keys: Sequence[tuple[str, str]]) -> list[float | None]:
        """How near each of these is, a cosine; None where there is no vector."""
        try:
            return self._store.likeness(self._space, self._vector, keys)
        except StratalogError as error:
            self._note(error)
            return [None] * len(keys)


class TenantVectors:
    """The vectors of one tenant, in its directory. Safe for threads; reading makes nothing."""

    def __init__(self, tenant_dir: Path, embedding: Embedding, on_problem: OnProblem) -> None:
        self.directory = tenant_dir / DIRECTORY
        self.embedding = embedding
        self._on_problem = on_problem
        self._mutex = threading.Lock()
        self._stores: dict[What, VectorStore] = {}

    def store(self, what: What) -> VectorStore:
        """One of the stores. Raises `InvalidConfig` where numpy is not installed."""
        from stratalog.recall.embedders import open_vectors

        with self._mutex:
            if what not in self._stores:
                self._stores[what] = open_vectors(self.directory / what)
            return self._stores[what]

    def question(
        self,
        what: What,
        text: str,
        *,
        metadata: Mapping[str, Any] = {},
        scopes: Collection[str] | None = None,
    ) -> Question | None:
        """The question, if there is something to compare it with, and the `metadata` of the session that it
        is asked in allow it to go as far as the embedder reaches; None when words alone must do. It raises
        nothing: what went wrong is told as a problem."""
        if not text.strip() or not (self.directory / what).is_dir() or not self.allows(metadata):
            return None
        try:
            store = self.store(what)
            space = self.embedding.answering(store.spaces())
            if space is None:
                return None
            vector = self.embedding.asked(text, space)
        except StratalogError as error:
            self._note(error)
            return None
        return Question(store, space, vector, scopes, self._note)

    def allows(self, metadata: Mapping[str, Any]) -> bool:
        """Whether there is an embedder that may be asked in a session of which this is said. It raises
        nothing: one that cannot be had is told as a problem."""
        if not self.embedding.wanted:
            return False
        try:
            return permits(metadata, self.embedding.reach)
        except StratalogError as error:
            self._note(error)
            return False

    def existing(self, *, deletes: bool = True) -> Iterator[tuple[What, VectorStore]]:
        """The stores that are there. Those that cannot be opened for want of numpy could not be kept true,
        and are deleted, if it is to be."""
        for what in WHATS:
            if (self.directory / what).is_dir():
                try:
                    store = self.store(what)
                except InvalidConfig:
                    if deletes:
                        shutil.rmtree(self.directory / what)
                else:
                    yield what, store

    def forget(self, session: str) -> None:
        """Removes the vectors of what was said in a session. Raises what `VectorStore` does."""
        if (self.directory / "turns").is_dir():
            for what, store in self.existing():
                if what == "turns":
                    store.remove_scope(session)

    def drop(self, what: Collection[What] = WHATS) -> None:
        """Deletes these vectors, to be made anew in the background."""
        for name, store in self.existing():
            if name in what:
                for kept in store.spaces():
                    store.drop_space(kept.space)

    def close(self) -> None:
        """Lets go of the files. They are opened again when they are used."""
        with self._mutex:
            stores, self._stores = list(self._stores.values()), {}
        for each in stores:
            with suppress(StratalogError):
                each.close()

    def _note(self, error: StratalogError) -> None:
        words = f"words alone are searched: {words_of(error)}"
        self._on_problem(Problem(words, path=str(self.directory)))
