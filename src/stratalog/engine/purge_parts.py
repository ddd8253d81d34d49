"""The stores that a purge destroys, each behind the same two methods."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Protocol

from stratalog import osfiles
from stratalog.engine.core import Stratalog
from stratalog.engine.graphs import checkpoints_of, items_of
from stratalog.engine.holding import quarantine_of
from stratalog.engine.knowing import knowledge_of
from stratalog.engine.meaning import What
from stratalog.engine.purge_plan import BATCH, EVERY, GONE, Plan, marked, pages_of, stem_of, within
from stratalog.engine.remembering import Records
from stratalog.errors import LogError
from stratalog.ids import now_ms
from stratalog.keys import purge_note_path, tenant_path
from stratalog.log.jsonl import JsonlStore
from stratalog.log.sqlite import SqliteStore
from stratalog.memory import policy
from stratalog.memory.audit import FILE as AUDIT
from stratalog.memory.caller import Caller
from stratalog.memory.checkpoints import FILE as THREADS
from stratalog.memory.contract import PRODUCTION, Change, RecordStore, Scope, Status, Where
from stratalog.memory.items import FILE as ITEMS
from stratalog.memory.jobs import Jobs
from stratalog.memory.lanes import NATIVE
from stratalog.memory.service import Purging
from stratalog.points import reach

LOCK: Final = "purge.lock"
_WAIT_S: Final = 10.0
_SAID: Final[tuple[Status, ...]] = ("current", "superseded")


class Part(Protocol):
    """One store, as far as a purge has to do with it. `name` is its own in the receipt."""

    @property
    def name(self) -> str: ...

    def look(self, plan: Plan) -> dict[str, int]:
        """How much there is of what is meant. It changes nothing."""
        ...

    def destroy(self, plan: Plan) -> None:
        """Destroys it, and its bytes. Killed in the middle, the same call does the rest."""
        ...


def parts_of(memory: Stratalog, records: Records, purging: Purging, who: Caller) -> list[Part]:
    """Every store, in the order in which they are destroyed. A store that is new is added here.

    Sessions go first, so that who draws from them finds them gone; what is told of records goes before the
    records, by which it is found.
    """
    lanes = [_Lane(lane, store, who.actor) for lane, store in purging.stores.items()]
    parts: list[Part] = [_Logs(memory), _Jobs(records), _Graphs(memory), _Profiles(memory), *lanes]
    parts += [_Quarantine(memory), _List(memory), _Index(memory), _Vectors(memory)]
    if purging.where.whole == "tenant":
        own = [store for lane, store in purging.stores.items() if lane == NATIVE]
        parts += [_Documents(memory), _Files(memory, [records.jobs, *own])]
    return parts


class _Logs:
    """The sessions: their logs of all generations with archive, blobs and quarantine, and meta and lock."""

    name = "logs"

    def __init__(self, memory: Stratalog) -> None:
        self._memory = memory

    def look(self, plan: Plan) -> dict[str, int]:
        store = self._memory.store
        counts = {"sessions": 0, "entries": 0, "files": 0, "bytes": 0}
        for key in plan.keys:
            try:
                head = store.head(key)
                counts["sessions"] += head is not None
                counts["entries"] += head.seq if head is not None else 0
            except LogError:  # there is a log, and nothing more is known of it
                counts["sessions"] += 1
            if isinstance(store, SqliteStore):
                counts["bytes"] += store.weigh(key)
        for path in self._belongings({*plan.strays, *(stem_of(self._memory, key) for key in plan.keys)}):
            for file in _files(path):
                counts["files"] += 1
                counts["bytes"] += _size(file)
        return counts

    def destroy(self, plan: Plan) -> None:
        store = self._memory.store
        for key in plan.keys:
            self._memory.session(key).delete()
            reach("purging.session")
        if isinstance(store, JsonlStore):
            store.finish_deletions(self._memory.tenant)
        # What writers left half made, and what has lost its log; not what was made anew since.
        gone = {stem_of(self._memory, key) for key in plan.keys if store.head(key) is None}
        for path in self._belongings({*plan.strays, *gone}):
            _remove(path)
        if isinstance(store, SqliteStore):
            store.scrub(self._memory.tenant)

    def _belongings(self, stems: set[str]) -> list[Path]:
        """What is there of sessions. Names of their files go on after a full stop, and have none before."""
        root = tenant_path(self._memory.data, self._memory.tenant)
        return [
            path
            for directory in sorted({(root / each).parent for each in stems})
            for path in within(directory)
            if f"{directory.relative_to(root).as_posix()}/{path.name.partition('.')[0]}" in stems
        ]


class _Jobs:
    name = "jobs"

    def __init__(self, records: Records) -> None:
        self._jobs = records.jobs

    def look(self, plan: Plan) -> dict[str, int]:
        counts = {"jobs": 0, "spending": 0}
        for at, whose in enumerate(asked := _whose(plan)):
            for name, number in self._jobs.purge(**whose, dry_run=True).items():
                counts[name] += number
            # A user's job of a session is one.
            for other in asked[:at] if "session" in whose else ():
                if "user" in other:
                    counts["jobs"] -= self._jobs.purge(**whose | other, dry_run=True)["jobs"]
        return counts

    def destroy(self, plan: Plan) -> None:
        for whose in _whose(plan):
            self._jobs.purge(**whose)


class _Graphs:
    """What graphs keep: threads of a user's alone, or that a session follows, and items below a user's name.
    They are of production, whatever their sessions are."""

    name = "graphs"

    def __init__(self, memory: Stratalog) -> None:
        self._memory = memory

    def look(self, plan: Plan) -> dict[str, int]:
        return self._each(plan, dry_run=True)

    def destroy(self, plan: Plan) -> None:
        self._each(plan, dry_run=False)

    def _each(self, plan: Plan, *, dry_run: bool) -> dict[str, int]:
        here = plan.where.environment == PRODUCTION
        whole = plan.where.whole == "tenant" or (here and bool(plan.where.whole))
        users = [each.id for each in plan.where.scopes if each.kind == "user" and here]
        directory = tenant_path(self._memory.data, self._memory.tenant)
        none, no_items = (not (directory / each).exists() for each in (THREADS, ITEMS))  # and none is made
        with closing(checkpoints_of(self._memory)) as threads, closing(items_of(self._memory)) as items:
            return {
                **threads.purge(users=users, sessions=plan.sessions, whole=whole, dry_run=dry_run or none),
                **items.purge(users=users, whole=whole, dry_run=dry_run or no_items),
            }


class _Profiles:
    """MEMORY.md and USER.md with their kept versions: whole, or the lines of the records that go."""

    name = "profiles"

    def __init__(self, memory: Stratalog) -> None:
        self._memory = memory

    def look(self, plan: Plan) -> dict[str, int]:
        whole, others = pages_of(self._memory, plan)
        found = [page.traces() for page in whole]
        found += [page.traces(plan.drawn) for page in others] if plan.drawn else []
        return {name: sum(getattr(each, name) for each in found) for name in ("pages", "versions", "lines")}

    def destroy(self, plan: Plan) -> None:
        whole, others = pages_of(self._memory, plan)
        for page in whole:
            page.purge()
            _remove_empty(page.path.parent, tenant_path(self._memory.data, self._memory.tenant))
        for page in others if plan.drawn else ():
            page.destroy(plan.drawn)


class _Lane:
    """The records of a lane: those of scopes, and those that were drawn from the sessions."""

    def __init__(self, lane: str, store: RecordStore, actor: str) -> None:
        self.name = "records" if lane == NATIVE else lane
        self._store = store
        self._actor = actor

    def look(self, plan: Plan) -> dict[str, int]:
        counts = self._store.purge(plan.where, dry_run=True)
        for where in self._by_id(plan, plan.drawn):
            for name, number in self._store.purge(where, dry_run=True).items():
                counts[name] = counts.get(name, 0) + number
        gone = set(plan.sessions)
        counts["repaired"] = sum(
            any(source.session in gone for source in record.sources)
            for where in self._by_id(plan, plan.repaired)
            for record in self._store.find(where, limit=BATCH).records
        )
        return counts

    def destroy(self, plan: Plan) -> None:
        self._put_right(plan)
        reach("purging.repaired")
        for where in (plan.where, *self._by_id(plan, plan.drawn)):
            self._store.purge(where)

    def _put_right(self, plan: Plan) -> None:
        """What the records that go had closed holds again; the others lose these sessions as sources."""
        slots: set[tuple[Scope, str]] = set()
        for where in self._by_id(plan, (*plan.drawn, *plan.repaired)):
            slots |= {(each.scope, each.key) for each in self._store.find(where, limit=BATCH).records}
        gone = set(plan.sessions)
        environment = plan.where.environment
        for scope, key in sorted(slots):
            slot = Where(environment=environment, scopes=(scope,), keys=(key,), statuses=_SAID)
            with self._store.writing() as writing:
                change = policy.without_entries(
                    [marked(each, gone) for each in writing.find(slot)],
                    frozenset((GONE,)),
                    at=now_ms(),
                    actor=self._actor,
                    reason="purge",
                )
                writing.write(Change(events=change.events))

    def _by_id(self, plan: Plan, ids: Sequence[str]) -> list[Where]:
        environment = plan.where.environment
        return [
            Where(
                environment=environment,
                scopes=(),
                ids=tuple(ids[start : start + BATCH]),
                statuses=EVERY,
                whole="environment",
            )
            for start in range(0, len(ids), BATCH)
        ]


class _List:
    name = "list"

    def __init__(self, memory: Stratalog) -> None:
        self._memory = memory

    def look(self, plan: Plan) -> dict[str, int]:
        return {"rows": len(self._memory.strata.listed() & set(plan.keys))}

    def destroy(self, plan: Plan) -> None:
        for key in plan.keys:
            if not self._memory.session(key).exists:
                self._memory.strata.forget(key)
        self._memory.strata.scrub_list()


class _Index:
    name = "index"

    def __init__(self, memory: Stratalog) -> None:
        self._memory = memory

    def look(self, plan: Plan) -> dict[str, int]:
        return {"rows": self._memory.strata.indexed(plan.keys)}

    def destroy(self, plan: Plan) -> None:
        self._memory.strata.scrub_index()  # the sessions left it as they were deleted


class _Vectors:
    """The vectors of what was said, and those of records, which are made anew of what is left."""

    name = "vectors"
    _RECORDS: Final[What] = "records"

    def __init__(self, memory: Stratalog) -> None:
        self._vectors = memory.strata.vectors

    def look(self, plan: Plan) -> dict[str, int]:
        counts = {"turns": 0, "records": 0}
        for what, store in self._vectors.existing(deletes=False):
            for kept in store.spaces():
                if what == "turns":
                    counts["turns"] += sum(len(store.ids(kept.space, each)) for each in plan.sessions)
                elif what == self._RECORDS:
                    counts["records"] += kept.rows
        return counts

    def destroy(self, plan: Plan) -> None:
        self._vectors.drop((self._RECORDS,))
        for what, store in self._vectors.existing():
            for session in plan.sessions if what == "turns" else ():
                store.remove_scope(session)
            store.scrub()


class _Quarantine:
    """Texts that were kept out of prompts."""

    name = "quarantine"

    def __init__(self, memory: Stratalog) -> None:
        self._memory = memory

    def look(self, plan: Plan) -> dict[str, int]:
        asked = _whose(plan)
        # A user's text of one of the sessions is one.
        both = [one | other for one in asked if "session" in one for other in asked if "user" in other]
        with quarantine_of(self._memory) as quarantine:
            found = [
                sum(quarantine.purge(**each, dry_run=True)["quarantined"] for each in some)
                for some in (asked, both)
            ]
        return {"quarantined": found[0] - found[1]}

    def destroy(self, plan: Plan) -> None:
        with quarantine_of(self._memory) as quarantine:
            for whose in _whose(plan):
                quarantine.purge(**whose)


class _Documents:
    """The documents of the tenant, which are nobody's in it."""

    name = "documents"

    def __init__(self, memory: Stratalog) -> None:
        self._knowledge = knowledge_of(memory)

    def look(self, plan: Plan) -> dict[str, int]:
        return self._knowledge.counts()

    def destroy(self, plan: Plan) -> None:
        self._knowledge.purge()
        self._knowledge.close()


class _Files:
    """All that is left in the directory of a tenant, but for the audit."""

    name = "files"

    def __init__(self, memory: Stratalog, stores: Sequence[Jobs | RecordStore]) -> None:
        self._memory = memory
        self._stores = stores  # which may be used again when they were closed
        self._directory = tenant_path(memory.data, memory.tenant)

    def look(self, plan: Plan) -> dict[str, int]:
        found = [file for path in self._rest() for file in _files(path)]
        return {"files": len(found), "bytes": sum(map(_size, found))}

    def destroy(self, plan: Plan) -> None:
        # Whoever else has a database open sees that it is gone when he uses it, and leaves it alone.
        self._memory.strata.close()
        for store in self._stores:
            store.close()
        if isinstance(self._memory.store, SqliteStore):
            self._memory.store.let_go(self._memory.tenant)
        with osfiles.locked_dir(self._directory, _WAIT_S):
            for path in self._rest():
                _remove(path)
            osfiles.sync_dir(self._directory)

    def _rest(self) -> list[Path]:
        note = purge_note_path(self._memory.data, self._memory.tenant).name
        return [
            path
            for path in within(self._directory)
            if path.name != AUDIT and not path.name.startswith((note, LOCK))
        ]


def _whose(plan: Plan) -> list[dict[str, Any]]:
    """What is meant, as a store of what is a user's or a session's is asked for it."""
    environment, kind = plan.where.environment, plan.selector.kind
    if kind == "tenant":
        return [{"whole": True}]
    if kind == "environment":
        return [{"environment": environment}]
    users = [{"user": each.id} for each in plan.where.scopes if each.kind == "user"]
    sessions = [{"session": each} for each in plan.sessions]
    return [{**each, "environment": environment} for each in (*users, *sessions)]


# --- files ---


def _files(path: Path) -> list[Path]:
    """The file, or the files of a directory."""
    if path.is_dir() and not path.is_symlink():
        return [file for each in within(path) for file in _files(each)]
    return [path]


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _remove(path: Path) -> None:
    """Removes a file, or a directory with all that is in it. A link is removed, not followed."""
    try:
        if path.is_dir() and not path.is_symlink():
            for each in within(path):
                _remove(each)
            path.rmdir()
        else:
            osfiles.remove(path)
    except OSError as error:
        raise osfiles.failed(error, "purging", path) from error


def _remove_empty(directory: Path, root: Path) -> None:
    """Removes the directory, and those above it below `root`, as far as nothing is in them."""
    while directory != root and directory.is_dir() and not within(directory):
        try:
            directory.rmdir()
        except OSError as error:
            raise osfiles.failed(error, "purging", directory) from error
        directory = directory.parent
