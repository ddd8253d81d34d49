"""Work in the background: what is due is done once, one job after another, each of them a row.

A `Work` says how a kind of job is done. `Runner` does what is due when it is told to; of all processes that
have a data directory open one has its runner, by a kernel lock that ends with the process. `Background` tells
a runner to every so often, in a thread.

How a job ends is written in its row: done with its result; stopped until the next day when the budget is
spent; failed with a pause that grows, and after the last attempt for good; failed, too, for what nobody
foresaw. A result with `"more": true` means that a pass is over and there is more to do: the next one begins
at once, with that result in its job, unless the result's `"watermark"` has not moved. What is done every so
often is due so long after it last ended, however it ended, so that time that was missed is made up for once
and nothing is given up for ever.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from stratalog import osfiles
from stratalog.engine.core import Stratalog
from stratalog.errors import Conflict, InvalidConfig, SpendLimit, words_of
from stratalog.ids import now_ms
from stratalog.keys import tenant_path
from stratalog.log.contract import Problem
from stratalog.memory.governor import LONGEST_PAUSE_S, backoff, may_retry, next_day, stalled
from stratalog.memory.jobs import FILE, KEPT_MS, STATES, Job, JobPage, Jobs, State

__all__ = ["STATES", "Background", "Job", "JobPage", "Jobs", "Runner", "State", "Work", "jobs_of"]

LOCK: Final = "runner.lock"
LEASE_MS: Final = 600_000
MOST_PASSES: Final = 100
MOST_JOBS: Final = 1_000
R = TypeVar("R")

Result: TypeAlias = Mapping[str, Any] | None


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs of the kind `name` are done for one tenant: `run` does one, and returns what it came to. With
    `every` there is always such a job with the key "", due so many seconds after it last ended; with 0 only
    what is put."""

    name: str
    run: Callable[[Job], Result]
    every: float = 0.0


def jobs_of(memory: Stratalog) -> Jobs:
    """The jobs of the tenant. Close them."""
    return Jobs(tenant_path(memory.data, memory.tenant) / FILE)


# --- deciding ---


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a job's run ends: in which state, when it is due again (None: never by itself), what is told."""

    state: State
    at: int | None = None
    error: str = ""
    result: dict[str, Any] = {}


def ending_of(job: Job, outcome: dict[str, Any] | BaseException, *, now: int, passes: int) -> Ending:
    """The ending for what a run of this job came to, or raised; `passes` are those in a row, this one too."""
    match outcome:
        case SpendLimit():
            return Ending(state="stopped", at=next_day(now), error=words_of(outcome))
        case BaseException():
            pause = int(backoff(job.attempts) * 1000)
            retry_at = now + pause if may_retry(job.attempts) else None
            return Ending(state="failed", at=retry_at, error=words_of(outcome))
    more = outcome.get("more") is True
    if stalled(_watermark(job.result), _watermark(outcome), more):
        reason = "it does not converge: it says that there is more to do, and comes no further"
        return Ending(state="stopped", error=reason, result=outcome)
    if more and passes >= MOST_PASSES:
        reason = f"there is still more to do after {passes} passes; it goes on later"
        later = now + int(LONGEST_PAUSE_S * 1000)
        return Ending(state="stopped", at=later, error=reason, result=outcome)
    return Ending(state="waiting", at=now, result=outcome) if more else Ending(state="done", result=outcome)


def due_again(last: Job | None, every: float, now: int) -> bool:
    """Whether what is done every so many seconds is to be done, when its last job is this one. A job that is
    on its way, or will be taken by itself, is left alone."""
    if last is None:
        return True
    # A clock that was put back must not keep it from being done until that time has come again.
    return last.next_at == 0 and abs(now - last.updated_at) >= every * 1000


def _watermark(result: Mapping[str, Any]) -> str:
    return str(result.get("watermark", ""))


# --- doing ---


class Runner:
    """Does the jobs of every tenant of the data directory `root`: `works_of` says how for a tenant, `jobs_of`
    where they are, `tenants` for whom. `note` is told what went wrong outside of a job, `clock` gives
    milliseconds UTC. The jobs of a tenant are closed after its turn.

    Only one process may have a runner for a directory. Raises `Conflict` when another has, and
    `StorageFailed`. Close it, or use it in a `with` block.
    """

    def __init__(
        self,
        root: Path,
        works_of: Callable[[str], Sequence[Work]],
        jobs_of: Callable[[str], Jobs],
        tenants: Callable[[], Iterable[str]],
        *,
        note: Callable[[Problem], object],
        clock: Callable[[], int] = now_ms,
        lease_ms: int = LEASE_MS,
    ) -> None:
        self.root = root
        self._works_of = works_of
        self._jobs_of = jobs_of
        self._tenants = tenants
        self._note = note
        self._clock = clock
        self._lease_ms = lease_ms
        self._ending = threading.Event()
        self._turn = threading.Lock()
        self._pid = os.getpid()
        self._fd = _locked(root / LOCK)

    def run_due(self) -> list[Job]:
        """Does everything that is due, for every tenant; the jobs as they ended, of one with several passes
        each. What keeps one tenant's jobs from being looked at is noted, and costs the others nothing. Raises
        what `tenants` raises, and `Conflict` once it is closed."""
        with self._turn:
            if self._fd < 0 or os.getpid() != self._pid:
                raise Conflict("this runner is closed, or another process's", path=str(self.root / LOCK))
            ran: list[Job] = []
            for tenant in dict.fromkeys(self._tenants()):
                if self._ending.is_set():
                    break
                ended = outcome(partial(self._run_tenant, tenant, ran), left=self.stop)
                if isinstance(ended, BaseException):
                    place = str(tenant_path(self.root, tenant) / FILE)
                    self.note(f"no background work for tenant {tenant!r}: {words_of(ended)}", place)
            return ran

    def note(self, reason: str, path: str = "") -> None:
        """Tells what went wrong outside of a job."""
        self._note(Problem(reason, path=path or str(self.root)))

    def stop(self) -> None:
        """Lets `run_due` end after the job that is running; what is left stays due. Another does nothing."""
        self._ending.set()

    def close(self) -> None:
        """Waits for the job that is running and gives the directory's runner up. The second time does
        nothing."""
        self.stop()
        with self._turn:
            fd, self._fd = self._fd, -1
            if fd < 0:
                return
            if os.getpid() == self._pid:
                osfiles.unlock(fd)
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run_tenant(self, tenant: str, ran: list[Job]) -> None:
        works = {work.name: work for work in self._works_of(tenant)}
        jobs = self._jobs_of(tenant)
        try:
            begin = self._clock() - len(works)
            for place, work in enumerate(works.values()):
                self._plan(jobs, work, begin + place)
            passes: Counter[str] = Counter()
            while not self._ending.is_set() and passes.total() < MOST_JOBS:
                job = jobs.take(works, now=self._clock(), lease_ms=self._lease_ms)
                if job is None:
                    break
                passes[job.id] += 1
                run, done = works[job.kind].run, passes[job.id]
                ran.append(perform(jobs, job, run, clock=self._clock, passes=done, left=self.stop))
            if passes:
                jobs.forget_done(self._clock() - KEPT_MS)
        finally:
            jobs.close()

    def _plan(self, jobs: Jobs, work: Work, at: int) -> None:
        """Makes the row of what is done every so often, when it is due. What is due for longest is done
        first: `at` has it that new ones are done in the order of the works."""
        if work.every <= 0:
            return
        last = jobs.latest(work.name, "")
        if not due_again(last, work.every, self._clock()):
            return
        if last is None or last.state == "done":
            jobs.put(work.name, "", at=at)
        else:
            jobs.retry(last.id)


def perform(
    jobs: Jobs,
    job: Job,
    run: Callable[[Job], Result],
    *,
    clock: Callable[[], int] = now_ms,
    passes: int = 1,
    left: Callable[[], object] = lambda: None,
) -> Job:
    """Does a job that was taken, in a thread of its own, and writes how it ended; the job as it is then.
    `passes` are those in a row, this one too; `left` is called when the waiting for it is interrupted, whose
    end is then waited for all the same."""
    ended = outcome(partial(_result, run, job), left=left)
    return _end(jobs, job, ending_of(job, ended, now=clock(), passes=passes))


def _end(jobs: Jobs, job: Job, ending: Ending) -> Job:
    """Writes how the job ended; a job that was purged meanwhile has nothing to be written in."""
    try:
        match ending.state:
            case "done":
                return jobs.done(job, ending.result)
            case "waiting":
                return jobs.again(job, ending.result, at=ending.at or 0)
            case "stopped":
                came_to = replace(job, result=ending.result or job.result)
                return jobs.stopped(came_to, ending.error, until=ending.at)
        return jobs.failed(job, ending.error, retry_at=ending.at)
    except Conflict:
        return job


def _result(run: Callable[[Job], Result], job: Job) -> dict[str, Any]:
    """What the job came to. Raises whatever it raises, and `TypeError` for what cannot be kept in its row."""
    result = dict(run(job) or {})
    msgspec.json.encode(result)
    return result


def outcome(run: Callable[[], R], *, left: Callable[[], object] = lambda: None) -> R | BaseException:
    """What the call returns, or whatever it raises, in a thread of its own: so that it may run an event loop,
    and costs nobody else anything. `left` is called when the waiting for it is interrupted; then its end is
    waited for all the same."""
    with ThreadPoolExecutor(1, thread_name_prefix="stratalog-work") as pool:
        future: Future[R] = pool.submit(run)
        ended = False
        try:
            error = future.exception()
            ended = True
        finally:
            if not ended:
                left()
    return future.result() if error is None else error


def _locked(path: Path) -> int:
    """The open lock file, locked."""
    try:
        fd = osfiles.locked_file(path)
    except OSError as error:
        raise osfiles.failed(error, "taking the lock of background work", path) from error
    if fd < 0:
        raise Conflict(
            "another process does the background work of this data directory",
            path=str(path),
            hint="one is enough: leave it to that one, or end it first; its lock ends with it",
        )
    return fd


class Background:
    """Tells `runner` to do what is due, in threads of its own: at once, then `tick` seconds after each run
    has ended, so that none overlap. What `run_due` raises is noted. The runner is its own from now on.
    Close it, or use it in a `with` block: that closes the runner. Raises `InvalidConfig` when APScheduler is
    not installed; that closes it too."""

    def __init__(self, runner: Runner, *, tick: float = 30.0) -> None:
        try:
            from apscheduler.executors.pool import ThreadPoolExecutor as Threads
            from apscheduler.schedulers.background import BackgroundScheduler
        except ImportError as error:
            runner.close()
            raise InvalidConfig(
                "work in the background needs APScheduler", hint="pip install 'stratalog[background]'"
            ) from error
        self._runner = runner
        self._tick = timedelta(seconds=tick)
        self._mutex = threading.Lock()
        self._running = self._wanted = self._closing = False
        self._scheduler = BackgroundScheduler(executors={"default": Threads(1)}, timezone=UTC)
        self._job = self._scheduler.add_job(
            self._run,
            "interval",
            seconds=tick,
            next_run_time=datetime.now(UTC),
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
        )
        self._scheduler.start()

    def wake(self) -> None:
        """Lets what is due be done soon, and not only when it is time again."""
        with self._mutex:
            self._wanted = True
            if not (self._running or self._closing):
                self._job.modify(next_run_time=datetime.now(UTC))

    def close(self) -> None:
        """Waits for the job that is running, and closes the runner. The second time does nothing."""
        # APScheduler waits for its threads under a lock that it also takes when it is asked for anything.
        with self._mutex:
            first, self._closing = not self._closing, True
        self._runner.stop()
        if first:
            self._scheduler.shutdown(wait=True)
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        wanted = True
        while wanted and self._begin():
            try:
                ended = outcome(self._runner.run_due, left=self._runner.stop)
                if isinstance(ended, BaseException):
                    self._runner.note(f"no background work: {words_of(ended)}")
            finally:
                wanted = self._rest()

    def _begin(self) -> bool:
        """Whether to run now. While it runs the clock stands still, for APScheduler complains of a run that
        it must leave out."""
        with self._mutex:
            if self._closing:
                return False
            self._running, self._wanted = True, False
            self._job.pause()
            return True

    def _rest(self) -> bool:
        """Starts the clock; whether somebody wants another run at once."""
        with self._mutex:
            self._running = False
            if not self._closing:
                self._job.modify(next_run_time=datetime.now(UTC) + self._tick)
            return self._wanted
