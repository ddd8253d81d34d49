"""Bringing what is derived up to date with the logs: the list of sessions, their meta files, the index.

Nothing here is on the path of an append but one look whether the session is noted as changed. Before a list
or a search is answered, what changed is read from each log after the point that the stratum has reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from stratalog import osfiles
from stratalog.keys import SessionKey, session_paths
from stratalog.log.contract import LogStore
from stratalog.recall.lexical import LexicalIndex
from stratalog.sessions.catalog import Catalog
from stratalog.sessions.dirty import DirtyJournal
from stratalog.sessions.meta import SessionMeta, advance, decode_meta, encode_meta

INDEX_FILE = "index.sqlite3"
Progress = Callable[[int, int], None]


class Rebuilt(NamedTuple):
    """What a rebuild made: sessions listed, entries indexed."""

    sessions: int
    indexed: int


class Strata:
    """What is derived from one tenant's logs."""

    def __init__(self, root: Path, tenant: str, tenant_dir: Path, store: LogStore, title_length: int) -> None:
        self._root = root
        self._tenant = tenant
        self._dir = tenant_dir
        self._store = store
        self._title_length = title_length
        self._index: LexicalIndex | None = None
        self.journal = DirtyJournal(tenant_dir)
        self.catalog = Catalog(tenant_dir)

    def refresh(self) -> None:
        """Brings the list of sessions up to date."""
        if not self._dir.is_dir():
            return
        taken = self.journal.take()
        keys = taken.keys
        if self.catalog.fact("boot") != (osfiles.boot_id() or "-"):
            # The notes of what changed may not have survived the machine's restart: look at every log once.
            keys = keys | set(self._store.sessions(self._tenant)) | self.catalog.keys()
        self._enter(keys)
        self.catalog.note("boot", osfiles.boot_id() or "-")
        taken.done()

    def index(self, progress: Progress | None = None) -> LexicalIndex:
        """The full-text index, up to date; `progress` gets sessions done and sessions in all."""
        missing = not (self._dir / INDEX_FILE).exists()
        index = self._open_index()
        if missing:
            self.catalog.all_stale()
        self.refresh()
        stale = self.catalog.stale()
        for number, key in enumerate(stale):
            self._index_session(index, key)
            if progress is not None:
                progress(number + 1, len(stale))
        return index

    def forget(self, key: SessionKey) -> None:
        """Removes a deleted session from everything derived."""
        self.catalog.remove([key])
        self._open_index().remove(key)

    def rebuild(self, progress: Progress | None = None) -> Rebuilt:
        """Deletes all that is derived and makes it anew from the logs."""
        self.close()
        self.catalog.drop()
        for suffix in ("", "-wal", "-shm"):
            osfiles.remove(self._dir / f"{INDEX_FILE}{suffix}")
        keys = list(self._store.sessions(self._tenant))
        for key in keys:
            meta = self._folded(key, SessionMeta(key=str(key)))
            self.save_meta(meta, key)
            self.catalog.put([meta])
        index = self.index(progress)
        return Rebuilt(len(keys), sum(index.sessions().values()))

    def save_meta(self, meta: SessionMeta, key: SessionKey) -> None:
        """Writes `meta.json`. Not synced: it can be made anew."""
        path = session_paths(self._root, key).meta
        try:
            osfiles.make_dir(path.parent)
            osfiles.replace_file(path, encode_meta(meta), durable=False, point="meta")
        except OSError as error:
            raise osfiles.failed(error, "writing a session's meta", path) from error

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
        if self._index is not None:
            self._index.close()
            self._index = None

    def _enter(self, keys: Iterable[SessionKey]) -> None:
        gone: list[SessionKey] = []
        metas: list[SessionMeta] = []
        for key in keys:
            head = self._store.head(key)
            known = self.catalog.get(key)
            if known is not None and (head is None or head.seq < known.seq):
                gone.append(key)  # deleted, and perhaps made again since
                known = None
            if head is not None:
                metas.append(self._folded(key, known or self.load_meta(key)))
        for key in gone:
            self.forget(key)
        self.catalog.put(metas)

    def _folded(self, key: SessionKey, meta: SessionMeta) -> SessionMeta:
        for entry in self._store.read(key, after=meta.seq, blobs=False, generations="all"):
            meta = advance(meta, entry, self._title_length)
        return meta

    def _open_index(self) -> LexicalIndex:
        if self._index is None:
            osfiles.make_dir(self._dir)
            self._index = LexicalIndex(self._dir / INDEX_FILE)
        return self._index

    def _index_session(self, index: LexicalIndex, key: SessionKey) -> None:
        head = self._store.head(key)
        if head is None:
            self.forget(key)
            return
        _, seq = index.watermark(key)
        if seq > head.seq:
            index.remove(key)
            seq = 0
        entries = self._store.read(key, after=seq, before=head.seq + 1, generations="all")
        index.add(key, entries, upto_seq=head.seq, generation=head.generation)
        self.catalog.indexed(key, head.seq)
