"""Work that is done later, as rows with a state, and what each day has cost: one SQLite file for a tenant.

    waiting -> running -> done
                       -> failed      again when its time has come, or when somebody retries it
                       -> stopped     so too; by the budget, or because it gets nowhere
                       -> waiting     a pass is over and there is more

A job that is not done is never lost from sight: it stands in the list with its state and its last error until
it is done or purged. `next_at` is when it will be taken, whatever its state; 0 where that will not happen by
itself. Of a running one it is the end of its lease: if it has not ended by then its process died, and it is
taken again. Who ends a job must still be the one who has it.

No row holds what was said: errors are cut to 300 characters, and `args` and `result` are the caller's to keep
free of it. `engine.background` runs the jobs; `governor` decides when they are tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from stratalog.errors import Conflict, InvalidInput, NotFound
from stratalog.ids import ULID, new_ulid, now_ms
from stratalog.memory.database import Database
from stratalog.memory.governor import Limits, Spent, day_of, may_retry, verdict

FILE: Final = "jobs.sqlite3"
KEPT_MS: Final = 7 * 86_400_000
_APPLICATION: Final = 0x5374_6C4A  # "StlJ"
_ERROR_LENGTH: Final = 300
_MOST: Final = 2**62
_DIED: Final = "the process that ran it ended before it did, each time"

State: TypeAlias = Literal["waiting", "running", "done", "failed", "stopped"]
STATES: Final[tuple[State, ...]] = get_args(State)

MIGRATIONS: Final = (
    """
CREATE TABLE jobs (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, session TEXT NOT NULL, user TEXT NOT NULL,
    environment TEXT NOT NULL, args TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, next_at INTEGER NOT NULL,
    error TEXT NOT NULL, result TEXT NOT NULL) WITHOUT ROWID;
CREATE UNIQUE INDEX jobs_unfinished ON jobs (kind, key) WHERE state <> 'done';
CREATE INDEX jobs_done ON jobs (kind, key, updated_at) WHERE state = 'done';
CREATE INDEX jobs_due ON jobs (next_at, id) WHERE next_at > 0;
CREATE INDEX jobs_in_order ON jobs ((state = 'done'), id DESC);
CREATE TABLE spending (
    day TEXT PRIMARY KEY, calls INTEGER NOT NULL, tokens INTEGER NOT NULL) WITHOUT ROWID;
""",
)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of work: of which `kind`, and about what, its `key`. `session` (its key in writing), `user` and
    `environment` say whose it is, for a purge. `attempts` are those since it last got anywhere. Times are
    milliseconds UTC. `result` is what it came to, or what its last pass did."""

    id: str
    kind: str
    key: str
    session: str
    user: str
    environment: str
    args: dict[str, Any]
    state: State
    attempts: int
    created_at: int
    updated_at: int
    next_at: int
    error: str
    result: dict[str, Any]


class JobPage(msgspec.Struct, frozen=True):
    """Some jobs of a list, and the `after` for those that follow (empty: there are none)."""

    jobs: tuple[Job, ...]
    next: str = ""


class Jobs:
    """The jobs in the file `path`, of one tenant. Safe for threads, processes and forks.

    The file is made, 0600, when something is first written; reading makes nothing. `clock` gives milliseconds
    UTC. Every method raises what `database.Database` does, and `InvalidInput` for text that UTF-8 cannot hold
    and values that JSON cannot.
    """

    def __init__(self, path: Path | str, *, clock: Callable[[], int] = now_ms) -> None:
        self.path = Path(path)
        self._clock = clock
        self._database = Database(self.path, "the list of jobs", _APPLICATION, MIGRATIONS)

    # --- working ---

    def put(
        self,
        kind: str,
        key: str,
        *,
        args: Mapping[str, Any] | None = None,
        session: str = "",
        user: str = "",
        environment: str = "",
        at: int | None = None,
    ) -> Job:
        """A new job that waits until `at`, by default now. One of the same kind and key that is not done is
        returned as it is instead, running or failed too."""
        now = self._clock()
        job = Job(
            id=new_ulid(now),
            kind=_storable(kind),
            key=_storable(key),
            session=_storable(session),
            user=_storable(user),
            environment=_storable(environment),
            args=dict(args or {}),
            state="waiting",
            attempts=0,
            created_at=now,
            updated_at=now,
            next_at=_moment(now if at is None else at),
            error="",
            result={},
        )
        values = _values(job)
        with self._database.writing() as database:
            known = _unfinished(database, kind, key)
            if known is None:
                database.execute(f"INSERT INTO jobs VALUES ({', '.join('?' * len(values))})", values)
        return known or job

    def take(self, kinds: Iterable[str], *, now: int, lease_ms: int) -> Job | None:
        """The job of these kinds that has been due for longest, now running and the caller's until its lease
        is over; None when none is due. No other process gets the same.

        One whose process died is taken again, but not more often than it may fail; then it has failed."""
        wanted = tuple(kinds)
        if not self.path.exists():
            return None
        with self._database.writing() as database:
            while True:
                job = _due(database, wanted, now)
                if job is None:
                    return None
                if job.state != "running" or may_retry(job.attempts):
                    break
                _update(database, replace(job, state="failed", updated_at=now, next_at=0, error=_DIED))
            return _take(database, job, now, lease_ms)

    def claim(self, id: str, *, lease_ms: int) -> Job | None:
        """This very job, due or not, as `take` gives it; None when it does not wait. Raises `NotFound`."""
        with self._database.writing() as database:
            job = _by_id(database, id)
            return _take(database, job, self._clock(), lease_ms) if job.state == "waiting" else None

    def done(self, job: Job, result: Mapping[str, Any] | None = None) -> Job:
        """The job is done. Raises `Conflict` when it is not the caller's any more: its lease was over and
        another took it, or it was purged; nothing was written. The next three do too."""
        return self._ended(job, state="done", next_at=0, error="", result=dict(result or {}))

    def again(self, job: Job, result: Mapping[str, Any], *, at: int) -> Job:
        """A pass of the job is over, and it waits for its next one until `at`."""
        return self._ended(
            job, state="waiting", attempts=0, next_at=_moment(at), error="", result=dict(result)
        )

    def failed(self, job: Job, error: str, *, retry_at: int | None) -> Job:
        """This attempt failed; the next is due at `retry_at`, or with None when somebody retries it."""
        return self._ended(job, state="failed", next_at=_moment(retry_at), error=_told(error))

    def stopped(self, job: Job, reason: str, *, until: int | None) -> Job:
        """It may not go on before `until`, or with None before somebody retries it; no failed attempt."""
        return self._ended(job, state="stopped", attempts=0, next_at=_moment(until), error=_told(reason))

    def retry(self, id: str) -> Job:
        """The failed or stopped job waits again, due now. Raises `NotFound`, and `Conflict` for a job in
        another state."""
        with self._database.writing() as database:
            job = _by_id(database, id)
            if job.state not in ("failed", "stopped"):
                raise Conflict(
                    f"this job is {job.state}", id=id, hint="only a failed or stopped one is retried"
                )
            job = self._renewed(job)
            _update(database, job)
        return job

    def retry_all(self) -> int:
        """Lets every failed or stopped job wait again, due now; how many."""
        if not self.path.exists():
            return 0
        with self._database.writing() as database:
            found = _jobs(database, "state IN ('failed', 'stopped')")
            for job in found:
                _update(database, self._renewed(job))
        return len(found)

    # --- looking ---

    def get(self, id: str) -> Job:
        """Raises `NotFound`."""
        with self._database.reading() as database:
            return _by_id(database, id)

    def latest(self, kind: str, key: str) -> Job | None:
        """The job of this kind and key that is not done, else the one that was done last."""
        with self._database.reading() as database:
            if database is None:
                return None
            condition = "kind = ? AND key = ? AND state = 'done' ORDER BY updated_at DESC, id DESC LIMIT 1"
            return _unfinished(database, kind, key) or _first(_jobs(database, condition, kind, key))

    def list(
        self, *, state: State | None = None, kind: str | None = None, limit: int = 100, after: str = ""
    ) -> JobPage:
        """The jobs that are not done, then those that are; of each the newest first. `after` is the `next` of
        the page before. Raises `InvalidInput` for a limit under 1 and an `after` that is none."""
        if limit < 1:
            raise InvalidInput("a limit must be at least 1", limit=limit)
        conditions: list[str] = ["1"]
        values: list[Any] = []
        for name, value in (("state", state), ("kind", kind)):
            if value is not None:
                conditions.append(f"{name} = ?")
                values.append(_storable(value))
        if after:
            conditions.append("((state = 'done') > ? OR (state = 'done') = ? AND id < ?)")
            values += _open_cursor(after)
        most = min(limit, _MOST)
        order = " ORDER BY (state = 'done'), id DESC LIMIT ?"
        with self._database.reading() as database:
            if database is None:
                return JobPage(())
            found = _jobs(database, " AND ".join(conditions) + order, *values, most + 1)
        return JobPage(found[:most], _cursor(found[most - 1]) if len(found) > most else "")

    def counts(self) -> dict[State, int]:
        """How many jobs are in each state."""
        counts = dict.fromkeys(STATES, 0)
        with self._database.reading() as database:
            if database is not None:
                counts |= dict(database.execute("SELECT state, count(*) FROM jobs GROUP BY state"))
        return counts

    # --- spending ---

    def spent(self, day: str) -> Spent:
        """What the day (`governor.day_of`) has cost."""
        with self._database.reading() as database:
            return _spent(database, day) if database is not None else Spent()

    def today(self) -> Spent:
        """What the present day, of UTC, has cost so far."""
        return self.spent(day_of(self._clock()))

    def spend(self, day: str, calls: int, tokens: int) -> Spent:
        """Adds to what the day has cost, or takes off what is below 0; what it has cost now."""
        with self._database.writing() as database:
            _spend(database, day, calls, tokens)
            return _spent(database, day)

    def charge(self, day: str, limits: Limits, *, tokens: int) -> str:
        """Adds one call of so many tokens, if the limits allow it after what every process has spent; else
        the reason why not, in words."""
        with self._database.writing() as database:
            reason = verdict(_spent(database, day), limits, wanted_tokens=tokens)
            if not reason:
                _spend(database, day, 1, tokens)
        return reason

    # --- leaving ---

    def forget_done(self, before: int) -> int:
        """Deletes the jobs that were done before this moment; how many."""
        if not self.path.exists():
            return 0
        with self._database.writing() as database:
            return database.execute(
                "DELETE FROM jobs WHERE state = 'done' AND updated_at < ?", (before,)
            ).rowcount

    def purge(
        self,
        *,
        session: str = "",
        user: str = "",
        environment: str = "",
        whole: bool = False,
        dry_run: bool = False,
    ) -> dict[str, int]:
        """Deletes the jobs for which all of what is said holds, running ones too, and leaves nothing of them
        in the file; `whole` those of everybody, of every environment if none is named, and then what was
        spent. The rows of each kind; with `dry_run` only that.

        Raises `InvalidInput` when nothing is said, and `StoreBusy` when another reads the file so long that
        the bytes stay: then the same call tries again."""
        named = {"session": session, "user": user, "environment": environment}
        said = {name: _storable(value) for name, value in named.items() if value}
        if not said and not whole:
            raise InvalidInput("a purge names whose jobs it is about", hint="a session, a user, or the whole")
        condition = " AND ".join(["1", *(f"{name} = ?" for name in said)])
        counts = {"jobs": 0, "spending": 0}
        tables = {"jobs": condition} if said else {"jobs": condition, "spending": "1"}
        if not self.path.exists():
            return counts
        with self._database.writing() as database:
            for table, where in tables.items():
                values = tuple(said.values())
                (counts[table],) = database.execute(
                    f"SELECT count(*) FROM {table} WHERE {where}", values
                ).fetchone()
                if not dry_run:
                    database.execute(f"DELETE FROM {table} WHERE {where}", values)
        if not dry_run:
            self._database.rewrite()
        return counts

    def close(self) -> None:
        """Closes the file. It may be used again."""
        self._database.close()

    # --- how ---

    def _ended(self, job: Job, **now: Any) -> Job:
        ended = replace(job, updated_at=self._clock(), **now)
        with self._database.writing() as database:
            mine = "id = ? AND state = 'running' AND attempts = ? AND next_at = ?"
            if not _jobs(database, mine, job.id, job.attempts, job.next_at):
                raise Conflict(
                    "this job is not the caller's any more; nothing was written",
                    id=job.id,
                    kind=job.kind,
                    hint="its lease was over and another took it, or it was purged",
                )
            _update(database, ended)
        return ended

    def _renewed(self, job: Job) -> Job:
        now = self._clock()
        return replace(job, state="waiting", attempts=0, updated_at=now, next_at=_moment(now))


# --- rows ---


def _jobs(database: Connection, condition: str, *values: Any) -> tuple[Job, ...]:
    rows = database.execute(f"SELECT * FROM jobs WHERE {condition}", values).fetchall()
    return tuple([_job(row) for row in rows])


def _job(row: tuple[Any, ...]) -> Job:
    held = dict(zip(Job.__struct_fields__, row, strict=True))
    for name in ("args", "result"):
        held[name] = msgspec.json.decode(held[name])
    return msgspec.convert(held, Job)


def _values(job: Job) -> tuple[Any, ...]:
    held = msgspec.structs.asdict(job)
    return tuple([_json(value) if name in ("args", "result") else value for name, value in held.items()])


def _update(database: Connection, job: Job) -> None:
    names = ("state", "attempts", "updated_at", "next_at", "error", "result")
    held = dict(zip(Job.__struct_fields__, _values(job), strict=True))
    changes = ", ".join(f"{name} = ?" for name in names)
    database.execute(f"UPDATE jobs SET {changes} WHERE id = ?", (*(held[name] for name in names), job.id))


def _take(database: Connection, job: Job, now: int, lease_ms: int) -> Job:
    """Makes the job its taker's until the lease is over."""
    attempts, until = job.attempts + 1, _moment(now + lease_ms)
    taken = replace(job, state="running", attempts=attempts, updated_at=now, next_at=until)
    _update(database, taken)
    return taken


def _due(database: Connection, kinds: tuple[str, ...], now: int) -> Job | None:
    wanted = ", ".join("?" * len(kinds))
    condition = f"next_at > 0 AND next_at <= ? AND kind IN ({wanted}) ORDER BY next_at, id LIMIT 1"
    return _first(_jobs(database, condition, now, *kinds))


def _unfinished(database: Connection, kind: str, key: str) -> Job | None:
    return _first(_jobs(database, "kind = ? AND key = ? AND state <> 'done'", kind, key))


def _by_id(database: Connection | None, id: str) -> Job:
    # What is no id may be text that SQLite cannot be asked for.
    found = _jobs(database, "id = ?", id) if database is not None and ULID.match(id) else ()
    if not found:
        raise NotFound("there is no such job", id=ascii(id)[1:-1], hint="`stratalog jobs` lists them")
    return found[0]


def _first(found: tuple[Job, ...]) -> Job | None:
    return found[0] if found else None


def _spent(database: Connection, day: str) -> Spent:
    row = database.execute("SELECT calls, tokens FROM spending WHERE day = ?", (day,)).fetchone()
    return Spent(*row) if row else Spent()


def _spend(database: Connection, day: str, calls: int, tokens: int) -> None:
    database.execute(
        "INSERT INTO spending VALUES (?1, max(0, ?2), max(0, ?3)) ON CONFLICT (day) DO UPDATE SET"
        " calls = max(0, calls + ?2), tokens = max(0, tokens + ?3)",
        (day, calls, tokens),
    )


# --- values ---


def _moment(at: int | None) -> int:
    """What stands for it in a row: 0 for never."""
    return 0 if at is None else max(1, min(at, _MOST))


def _told(error: str) -> str:
    return error.encode("utf-8", "replace").decode()[:_ERROR_LENGTH]


def _json(value: Mapping[str, Any]) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"what a job takes and gives is JSON: {error}") from error


def _storable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput("what a job says is text that UTF-8 can hold", got=ascii(text)) from error
    return text


def _cursor(last: Job) -> str:
    return f"{int(last.state == 'done')}{last.id}"


def _open_cursor(after: str) -> tuple[int, int, str]:
    if after[:1] not in ("0", "1") or not ULID.match(after[1:]):
        raise InvalidInput("this place was not given by a list of jobs", hint="begin without one")
    return int(after[0]), int(after[0]), after[1:]
