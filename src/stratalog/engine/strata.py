"""Bringing what is derived up to date with the logs: the list of sessions, their meta files, the index.

Nothing here is on the path of an append but one look whether the session is noted as changed. Before a list
or a search is answered, what changed is read from each log after the point that the stratum has reached. A
log that cannot be read stands in nobody's way: it is told as a problem, stays noted, and keeps its old place.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from stratalog import osfiles
from stratalog.config import Settings
from stratalog.engine.meaning import Embedding, TenantVectors
from stratalog.engine.reading import folded, heard, since
from stratalog.errors import Conflict, DamagedLog, InvalidConfig, LogError, StorageFailed
from stratalog.keys import SessionKey, parse_key, session_paths, sessions_dir
from stratalog.log.contract import LogStore, OnProblem, Problem
from stratalog.recall.lexical import LexicalIndex
from stratalog.sessions.catalog import Catalog, Page, remove_database
from stratalog.sessions.dirty import DirtyJournal
from stratalog.sessions.meta import SessionMeta, advance, decode_meta, encode_meta
from stratalog.types import AnyEntry

INDEX_FILE = "index.sqlite3"
Progress = Callable[[int, int], None]


class Rebuilt(NamedTuple):
    """What a rebuild made: sessions listed, entries that the index has seen."""

    sessions: int
    indexed: int


class Strata:
    """What is derived from one tenant's logs."""

    def __init__(
        self,
        root: Path,
        tenant: str,
        tenant_dir: Path,
        store: LogStore,
        settings_of: Callable[[str], Settings],
        on_problem: OnProblem,
        embedding: Embedding,
    ) -> None:
        self._root = root
        self._tenant = tenant
        self._dir = tenant_dir
        self._store = store
        self._settings_of = settings_of
        self._on_problem = on_problem
        self._mutex = threading.Lock()
        self._index: LexicalIndex | None = None
        self._index_of: tuple[int, int, int] = (0, 0, 0)
        self._searching = 0
        self._left: list[LexicalIndex] = []
        self.journal = DirtyJournal(tenant_dir)
        self.catalog = Catalog(tenant_dir)
        self.vectors = TenantVectors(tenant_dir, embedding, on_problem)

    @property
    def exists(self) -> bool:
        """Whether anything was ever written for the tenant; if not, reading must not make anything."""
        return self._dir.is_dir()

    def page(self, **how: Any) -> Page:
        """A page of the list of sessions, up to date; see `Catalog.page`."""
        if not self.exists:
            return Page(())
        self.refresh()
        return self.catalog.page(**how)

    def told(self, keys: Iterable[SessionKey]) -> dict[SessionKey, SessionMeta]:
        """Those of the sessions that are in the list, up to date."""
        if not self.exists:
            return {}
        self.refresh()
        metas = {key: self.catalog.get(key) for key in keys}
        return {key: meta for key, meta in metas.items() if meta is not None}

    def counted(self, user: str | None = None) -> dict[tuple[str, str], int]:
        """How many sessions each agent has in each channel, up to date; see `Catalog.counted`."""
        if not self.exists:
            return {}
        self.refresh()
        return self.catalog.counted(user)

    def refresh(self) -> None:
        """Brings the list of sessions up to date."""
        if not self.exists:
            return
        taken = self.journal.take()
        keys = taken.keys
        # Another kind of store has other logs: what is listed is then of the past too.
        booted = f"{osfiles.boot_id() or '-'} {type(self._store).__name__}"
        anew = self.catalog.fact("boot") != booted
        if anew:
            # The notes of what changed may not have survived the machine's restart: look at every log once.
            keys = keys | set(self._store.sessions(self._tenant)) | self.catalog.keys()
        self._enter(keys)
        if anew:
            self.catalog.note("boot", booted)
        taken.done()

    @contextmanager
    def index(self, progress: Progress | None = None) -> Iterator[LexicalIndex]:
        """The full-text index, up to date; `progress` gets sessions done and sessions in all."""
        with self._mutex:
            index = self._open_index()
            self._searching += 1
        try:
            self.refresh()
            stale = self.catalog.stale()
            for number, (key, mark) in enumerate(stale):
                try:
                    self._index_session(index, key)
                    self.catalog.indexed(key, mark)
                except LogError as error:
                    self._trouble(key, error)
                if progress is not None:
                    progress(number + 1, len(stale))
            yield index
        finally:
            with self._mutex:
                self._searching -= 1

    def forget(self, key: SessionKey) -> None:
        """Removes a deleted session from everything derived."""
        if not self.exists:
            return
        self._remove_meta(key)
        self.catalog.remove([key])
        self.vectors.forget(str(key))
        if (self._dir / INDEX_FILE).exists():
            with self._mutex:
                self._open_index().remove(key)

    def scopes(
        self,
        agent: str | None,
        channel: str | None,
        session: SessionKey | None,
        sessions: Sequence[SessionKey] | None,
    ) -> list[str] | None:
        """The sessions that these filters leave, in writing; None for all."""
        if session is not None:
            return [str(session)] if sessions is None or session in sessions else []
        if agent is None and channel is None and sessions is None:
            return None
        keys = self.catalog.keys() if sessions is None else sessions
        return [
            str(key)
            for key in keys
            if (agent is None or key.agent == agent) and (channel is None or key.channel == channel)
        ]

    def meta_now(self, key: SessionKey) -> SessionMeta:
        """What the session's log comes to now, with nothing written; of one that has no log, what was known
        of it last."""
        saved = self.load_meta(key)
        meta = self._advanced(key, saved) or self._folded(key)
        if meta.seq or saved.seq:
            return meta if meta.seq else saved
        return (self.catalog.get(key) if self.catalog.path.exists() else None) or meta

    def listed(self) -> set[SessionKey]:
        """The sessions in the list, as it is."""
        return self.catalog.keys() if self.catalog.path.exists() else set()

    def indexed(self, keys: Iterable[SessionKey]) -> int:
        """How many documents the index, as it is, has of these sessions."""
        if not (self._dir / INDEX_FILE).exists():
            return 0
        with self._mutex:
            index = self._open_index()
            return sum(index.rows_of(key) for key in keys)

    def scrub_list(self) -> None:
        """Leaves nothing in the list's files of the sessions that are gone. Raises `LogBusy`."""
        self.refresh()  # which takes their keys out of the journal
        if self.catalog.path.exists():
            self.catalog.scrub()

    def scrub_index(self) -> None:
        """Leaves nothing in the index of the sessions that are gone. Rewrites it. Raises `LogBusy`."""
        if (self._dir / INDEX_FILE).exists():
            with self._mutex:
                self._open_index().scrub()

    def look_again(self, key: SessionKey) -> None:
        """Derives everything of this session anew, for its log was repaired."""
        self.forget(key)
        self.journal.mark(key)

    def rebuild(self, progress: Progress | None = None) -> Rebuilt:
        """Deletes all that is derived and makes it anew from the logs. Raises `NewerFormat`."""
        if not self.exists:
            return Rebuilt(0, 0)
        with self._mutex:
            self._empty_index()
        self.vectors.drop()
        self.catalog.clear()
        count = 0
        for key in list(self._store.sessions(self._tenant)):
            try:
                meta = self._folded(key)
                if meta.seq:
                    self.save_meta(meta)
                    self.catalog.put([meta])
                    self._settle(key, meta)
                    count += 1
            except (LogError, InvalidConfig) as error:
                self._trouble(key, error)
        with self.index(progress) as index:
            return Rebuilt(count, sum(index.sessions().values()))

    def check(self) -> list[Problem]:
        """What keeps the list or the index from being brought up to date."""
        if not self.exists:
            return []
        try:
            self.refresh()
            self.catalog.keys()
            with self.index() as index:
                index.sessions()
        except LogError as error:
            return [Problem(str(error), path=str(error.where.get("path", "")))]
        return []

    def save_meta(self, meta: SessionMeta) -> None:
        """Writes `meta.json`, unless the session is gone. Not synced: it can be made anew, and so what the
        system refuses is told as a problem and stops nobody."""
        key = parse_key(meta.key)
        path = session_paths(self._root, key).meta
        try:
            osfiles.make_dir(path.parent)
            osfiles.replace_file(path, encode_meta(meta), durable=False, point="meta")
            if self._store.head(key) is None:
                self._remove_meta(key)
        except OSError as error:
            self._trouble(key, osfiles.failed(error, "writing a session's meta", path))
        except LogError as error:
            self._trouble(key, error)

    def load_meta(self, key: SessionKey) -> SessionMeta:
        """The meta in the session's file, or one to begin from. It may be behind the log."""
        try:
            data = session_paths(self._root, key).meta.read_bytes()
        except OSError:
            data = b""
        return decode_meta(data, str(key)) or SessionMeta(key=str(key))

    def close(self) -> None:
        self.journal.close()
        self.catalog.close()
        self.vectors.close()
        with self._mutex:
            self._close_index()

    def rest(self) -> None:
        """Closes the files until the next use, but not under one who searches."""
        self.journal.close()
        self.catalog.close()
        with self._mutex:
            if not self._searching:
                self._close_index()
                self.vectors.close()

    def _enter(self, keys: Iterable[SessionKey]) -> None:
        for key in keys:
            try:
                self._enter_one(key)
            except (LogError, InvalidConfig) as error:
                self._trouble(key, error)
                self.journal.mark(key)

    def _enter_one(self, key: SessionKey) -> None:
        known = self.catalog.get(key)
        if not self._is_there(key):
            if known is not None:
                self.forget(key)
            return
        meta = self._advanced(key, known) if known is not None else None
        if meta is None:
            if known is not None:
                self.forget(key)  # deleted, and made again since
            else:
                self._doubt_index(key)
            meta = self._advanced(key, self.load_meta(key)) or self._folded(key)
        if meta.seq:
            self.catalog.put([meta])
            self._settle(key, meta)

    def _settle(self, key: SessionKey, entered: SessionMeta) -> None:
        """Was the session deleted while it was entered, then what was entered is taken back."""
        if since(self._store, key, entered.seq, entered.last, self._on_problem) is None:
            self.forget(key)
            self.journal.mark(key)

    def _is_there(self, key: SessionKey) -> bool:
        """Whether the session has a log, after whatever is under way with it."""
        if self._store.head(key) is not None:
            return True
        # A log that is being made has no file yet on which one could wait; its directory is locked meanwhile.
        directory = sessions_dir(self._root, key.tenant, key.agent)
        if not directory.is_dir():
            return False
        try:
            with osfiles.locked_dir(directory, 10.0):
                pass
        except OSError as error:
            raise osfiles.failed(error, "looking for a session", directory) from error
        return self._store.head(key) is not None

    def _advanced(self, key: SessionKey, meta: SessionMeta) -> SessionMeta | None:
        """The meta with what came after it; None when the log is not the one that it was folded from."""
        new = since(self._store, key, meta.seq, meta.last, self._on_problem)
        return self._over(key, meta, new) if new is not None else None

    def _folded(self, key: SessionKey) -> SessionMeta:
        """The meta of the whole log."""
        return self._over(key, SessionMeta(key=str(key)), folded(self._store, key, 0, self._on_problem))

    def _over(self, key: SessionKey, meta: SessionMeta, entries: Iterable[AnyEntry]) -> SessionMeta:
        length = self._settings_of(key.agent).title_length
        for entry in entries:
            meta = advance(meta, entry, length)
        return meta

    def _doubt_index(self, key: SessionKey) -> None:
        """A session that the list does not know must not be known to the index, which may be older."""
        if (self._dir / INDEX_FILE).exists():
            with self._mutex:
                index = self._open_index()
                if index.watermark(key) != (0, 0):
                    index.remove(key)

    def _open_index(self) -> LexicalIndex:
        """The index that is at the path now, open in this process. The mutex is held."""
        path = self._dir / INDEX_FILE
        if self._index is not None and self._index_of != _identity(path):
            # Opened before a fork, or deleted since: closing it would harm the one that is there now.
            self._left.append(self._index)
            self._index = None
        if self._index is None:
            try:
                osfiles.make_dir(self._dir)
                with osfiles.locked_dir(self._dir, 10.0):  # one makes it, the others find it made
                    index = LexicalIndex(path)
                    self._index, self._index_of = index, _identity(path)
            except OSError as error:
                raise osfiles.failed(error, "opening the search index", path) from error
            # A new index, or one that lost its last writes in a power cut.
            self.catalog.only_indexed(index.sessions())
        return self._index

    def _empty_index(self) -> None:
        """Empties the index under those who have it open; a damaged one is deleted. The mutex is held."""
        path = self._dir / INDEX_FILE
        if not path.exists():
            return
        try:
            self._open_index()
            self._close_index()
            # Opening an index of an older form empties it.
            with closing(sqlite3.connect(path, timeout=10.0)) as database:
                database.execute("PRAGMA user_version = 0")
            self._open_index()
        except DamagedLog:
            self._close_index()
            remove_database(path)
        except sqlite3.Error as error:
            raise StorageFailed(f"the search index cannot be emptied: {error}", path=str(path)) from error

    def _close_index(self) -> None:
        index, self._index = self._index, None
        if index is None:
            return
        if self._index_of == _identity(self._dir / INDEX_FILE):
            index.close()
        else:
            self._left.append(index)

    def _index_session(self, index: LexicalIndex, key: SessionKey) -> None:
        while True:
            head = self._store.head(key)
            if head is None:
                index.remove(key)
                return
            _, seq = index.watermark(key)
            if seq > head.seq:
                index.remove(key)
                seq = 0
            reading = self._store.read(key, after=seq, before=head.seq + 1, generations="all")
            try:
                index.add(
                    key,
                    heard(reading, self._on_problem),
                    upto_seq=head.seq,
                    generation=head.generation,
                )
                return
            except Conflict:
                continue  # deleted meanwhile, and perhaps made again

    def _remove_meta(self, key: SessionKey) -> None:
        path = session_paths(self._root, key).meta
        if self._store.head(key) is None:
            try:
                osfiles.remove(path)
            except OSError as error:
                raise osfiles.failed(error, "removing a session's meta", path) from error

    def _trouble(self, key: SessionKey, error: LogError | InvalidConfig) -> None:
        self._on_problem(Problem(str(error), path=str(error.where.get("path", "")), key=str(key)))


def _identity(path: Path) -> tuple[int, int, int]:
    """Which file is at the path, for which process."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_dev, found.st_ino, os.getpid())
