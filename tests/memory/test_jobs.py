"""memory/jobs.py: the states of a job, who gets it, its file, and what each day cost."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crash.processes import Say, child
from stratalog.errors import (
    Conflict,
    DamagedLog,
    ForeignFile,
    InvalidInput,
    NewerFormat,
    NotFound,
    StoreBusy,
)
from stratalog.memory import jobs as module
from stratalog.memory.governor import MOST_ATTEMPTS, Limits, Spent
from stratalog.memory.jobs import FILE, MIGRATIONS, STATES, Job, Jobs

FIXTURE = Path(__file__).parent.parent / "fixtures" / "memory" / "jobs-version-1.sqlite3"
LEASE = 1_000
EMPTY = dict.fromkeys(STATES, 0)


class Clock:
    """Milliseconds that only a test moves."""

    def __init__(self, now: int = 1_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def jobs(tmp_path: Path, clock: Clock) -> Iterator[Jobs]:
    made = Jobs(tmp_path / FILE, clock=clock)
    yield made
    made.close()


def take(jobs: Jobs, clock: Clock, *kinds: str) -> Job:
    """The job that is due, which there must be."""
    job = jobs.take(kinds or ("k",), now=clock.now, lease_ms=LEASE)
    assert job is not None
    return job


def put_each(jobs: Jobs, clock: Clock, keys: str, **more: Any) -> None:
    """A job for each key, a moment apart, for those of one moment have no order."""
    for key in keys:
        clock.now += 1
        jobs.put("k", key, **more)


def taken(jobs: Jobs, clock: Clock) -> Job | None:
    return jobs.take(("k",), now=clock.now, lease_ms=LEASE)


def _sql(path: Path, *statements: str) -> list[Any]:
    database = sqlite3.connect(path, isolation_level=None)
    try:
        return [database.execute(statement).fetchone() for statement in statements]
    finally:
        database.close()


# --- states ---


def test_a_job_is_put_taken_and_done(jobs: Jobs, clock: Clock) -> None:
    """It keeps what was said of it; each state has its times; done, it is due no more."""
    put = jobs.put("k", "x", args={"n": [1, "二"]}, session="local/a:b:c", user="ana", environment="staging")
    assert (put.state, put.attempts, put.next_at, put.error, put.result) == ("waiting", 0, clock.now, "", {})
    assert (put.args, put.session, put.user, put.environment) == (
        {"n": [1, "二"]}, "local/a:b:c", "ana", "staging",
    )  # fmt: skip
    clock.now += 10
    running = take(jobs, clock)
    assert (running.id, running.state, running.attempts) == (put.id, "running", 1)
    assert (running.updated_at, running.next_at) == (clock.now, clock.now + LEASE)
    assert taken(jobs, clock) is None
    done = jobs.done(running, {"merged": 3})
    assert (done.state, done.result, done.next_at) == ("done", {"merged": 3}, 0)
    assert jobs.get(put.id) == done
    clock.now += 10**12
    assert taken(jobs, clock) is None


def test_of_one_kind_and_key_one_is_not_done(jobs: Jobs, clock: Clock) -> None:
    """Waiting, running, failed or stopped, it is the one that is returned; done, the next is another."""
    first = jobs.put("k", "x", args={"a": 1})
    assert jobs.put("k", "x", args={"a": 2}) == first
    running = take(jobs, clock)
    assert jobs.put("k", "x") == running
    failed = jobs.failed(running, "no", retry_at=None)
    assert jobs.put("k", "x") == failed
    jobs.retry(first.id)
    stopped = jobs.stopped(take(jobs, clock), "no", until=None)
    assert jobs.put("k", "x") == stopped
    jobs.retry(first.id)
    jobs.done(take(jobs, clock))
    ids = {jobs.put(kind, key).id for kind, key in (("k", "x"), ("k", "y"), ("other", "x"))}
    assert len(ids | {first.id}) == 4


def test_a_job_waits_for_its_time(jobs: Jobs, clock: Clock) -> None:
    """It is taken from its moment on; the one due for longest comes first, of any kind that is asked for."""
    late = jobs.put("k", "late", at=clock.now + 5)
    early = jobs.put("k2", "early", at=clock.now + 3)
    jobs.put("unasked", "x")
    assert jobs.take(("k", "k2"), now=clock.now + 2, lease_ms=LEASE) is None
    assert jobs.take((), now=clock.now + 9, lease_ms=LEASE) is None
    clock.now += 9
    assert [take(jobs, clock, "k", "k2").id for _ in range(2)] == [early.id, late.id]


def test_a_failed_job_is_taken_again_when_its_time_has_come(jobs: Jobs, clock: Clock) -> None:
    """With a time it is taken again and the attempts are counted; with none it waits for `retry`."""
    jobs.put("k", "x")
    failed = jobs.failed(take(jobs, clock), "the disk is full", retry_at=clock.now + 30)
    assert (failed.state, failed.error, failed.attempts) == ("failed", "the disk is full", 1)
    assert taken(jobs, clock) is None
    clock.now += 30
    again = take(jobs, clock)
    assert again.attempts == 2
    jobs.failed(again, "no", retry_at=None)
    clock.now += 10**12
    assert taken(jobs, clock) is None
    renewed = jobs.retry(again.id)
    assert (renewed.state, renewed.attempts, renewed.error) == ("waiting", 0, "no")
    assert jobs.done(take(jobs, clock)).error == ""


def test_a_stop_is_no_attempt(jobs: Jobs, clock: Clock) -> None:
    """A stopped job is taken when its time has come, with all its attempts."""
    jobs.put("k", "x")
    for _ in range(MOST_ATTEMPTS + 1):
        stopped = jobs.stopped(take(jobs, clock), "the budget is spent", until=clock.now + 7)
        assert (stopped.state, stopped.attempts, stopped.error) == ("stopped", 0, "the budget is spent")
        assert taken(jobs, clock) is None
        clock.now += 7


def test_a_pass_leaves_its_result_and_waits(jobs: Jobs, clock: Clock) -> None:
    """`again` puts it back with what it came to, for the next pass to see; another may come first."""
    jobs.put("k", "x")
    waiting = jobs.again(take(jobs, clock), {"watermark": "m"}, at=clock.now + 1)
    assert (waiting.state, waiting.attempts) == ("waiting", 0)
    assert taken(jobs, clock) is None
    clock.now += 1
    assert take(jobs, clock).result == {"watermark": "m"}


def test_a_job_whose_process_died_is_taken_again(jobs: Jobs, clock: Clock) -> None:
    """Once its lease is over, and no more often than it may fail; then it has failed, and says so."""
    put = jobs.put("k", "x")
    for attempt in range(1, MOST_ATTEMPTS + 1):
        assert take(jobs, clock).attempts == attempt
        clock.now += LEASE - 1
        assert taken(jobs, clock) is None
        clock.now += 1
    jobs.put("k", "next")
    assert take(jobs, clock).key == "next"
    failed = jobs.get(put.id)
    assert (failed.state, failed.attempts, failed.next_at) == ("failed", MOST_ATTEMPTS, 0)
    assert "process" in failed.error


@pytest.mark.parametrize(
    "end",
    [
        lambda jobs, job: jobs.done(job),
        lambda jobs, job: jobs.again(job, {}, at=1),
        lambda jobs, job: jobs.failed(job, "no", retry_at=None),
        lambda jobs, job: jobs.stopped(job, "no", until=None),
    ],
)
def test_who_has_lost_a_job_does_not_end_it(
    jobs: Jobs, clock: Clock, end: Callable[[Jobs, Job], Job]
) -> None:
    """After its lease another has it, or it was purged; what the first one writes then is refused."""
    jobs.put("k", "x", user="ana")
    old = take(jobs, clock)
    clock.now += LEASE
    new = take(jobs, clock)
    with pytest.raises(Conflict):
        end(jobs, old)
    assert jobs.get(new.id) == new
    end(jobs, new)
    with pytest.raises(Conflict):
        end(jobs, new)
    jobs.purge(user="ana")
    with pytest.raises(Conflict):
        end(jobs, new)


def test_who_has_lost_a_job_has_lost_it_for_good(jobs: Jobs, clock: Clock) -> None:
    """Also when it was retried meanwhile, and its attempts count from the beginning again."""
    jobs.put("k", "x")
    old = take(jobs, clock)
    clock.now += LEASE
    jobs.failed(take(jobs, clock), "no", retry_at=None)
    jobs.retry(old.id)
    new = take(jobs, clock)
    assert new.attempts == old.attempts
    with pytest.raises(Conflict):
        jobs.done(old)
    jobs.done(new)


def test_this_very_job(jobs: Jobs, clock: Clock) -> None:
    """`claim` takes a waiting job by its id, also before its time; one that somebody has it does not."""
    put = jobs.put("k", "x", at=clock.now + 10**6)
    claimed = jobs.claim(put.id, lease_ms=LEASE)
    assert claimed is not None
    assert (claimed.state, claimed.attempts, claimed.next_at) == ("running", 1, clock.now + LEASE)
    assert jobs.claim(put.id, lease_ms=LEASE) is None
    jobs.done(claimed)
    assert jobs.claim(put.id, lease_ms=LEASE) is None


def test_only_what_failed_or_stopped_is_retried(jobs: Jobs, clock: Clock) -> None:
    """A job that waits, runs or is done is a conflict; one that is not there is not found."""
    waiting = jobs.put("k", "x")
    for end in (lambda: None, lambda: take(jobs, clock), lambda: jobs.done(jobs.get(waiting.id))):
        end()
        with pytest.raises(Conflict):
            jobs.retry(waiting.id)
    for id in ("01MCC5RRW8WP5W7Q5WT7QG329S", "", "x", "\udcff", "%"):
        with pytest.raises(NotFound):
            jobs.retry(id)
        with pytest.raises(NotFound):
            jobs.get(id)


def test_all_that_failed_or_stopped_is_retried(jobs: Jobs, clock: Clock) -> None:
    """Every one of them, and no other, is due now."""
    put_each(jobs, clock, "abcd")
    jobs.failed(take(jobs, clock), "no", retry_at=clock.now + 10**6)
    jobs.stopped(take(jobs, clock), "no", until=None)
    jobs.done(take(jobs, clock))
    assert jobs.retry_all() == 2
    assert jobs.retry_all() == 0
    assert jobs.counts() == {**EMPTY, "waiting": 3, "done": 1}
    assert {take(jobs, clock).key for _ in range(3)} == {"a", "b", "d"}


@pytest.mark.parametrize("error", ["x" * 1000, "odd \udcff" + "y" * 1000])
def test_an_error_is_cut(jobs: Jobs, clock: Clock, error: str) -> None:
    """300 characters of it are kept, whatever they are."""
    jobs.put("k", "x")
    kept = jobs.failed(take(jobs, clock), error, retry_at=None).error
    assert len(kept) == 300
    assert kept[:4] == error[:4]


def test_what_cannot_be_kept_is_refused(jobs: Jobs, clock: Clock) -> None:
    """Text that UTF-8 cannot hold and values that JSON cannot are refused, and nothing is written."""
    for kind, key, more in (
        ("\udcff", "x", {}),
        ("k", "\udcff", {}),
        ("k", "x", {"session": "\udcff"}),
        ("k", "x", {"args": {"a": object()}}),
        ("k", "x", {"args": {"a": "\udcff"}}),
    ):
        with pytest.raises(InvalidInput):
            jobs.put(kind, key, **more)
    assert not jobs.path.exists()
    jobs.put("k", "x")
    running = take(jobs, clock)
    with pytest.raises(InvalidInput):
        jobs.done(running, {"a": object()})
    assert jobs.get(running.id) == running


def test_the_newest_of_a_kind_and_key(jobs: Jobs, clock: Clock) -> None:
    """`latest` is the one that is not done, else the one that was done last."""
    assert jobs.latest("k", "x") is None
    ids = []
    for _ in range(3):
        ids.append(jobs.put("k", "x").id)
        clock.now += 5
        jobs.done(take(jobs, clock))
    last = jobs.latest("k", "x")
    assert last is not None
    assert last.id == ids[-1]
    waiting = jobs.put("k", "x")
    assert jobs.latest("k", "x") == waiting
    assert jobs.latest("k", "y") is None


# --- the list ---


def test_the_list_has_what_is_not_done_first(jobs: Jobs, clock: Clock) -> None:
    """Then what is done, of each the newest first; pages of any size have each once."""
    put_each(jobs, clock, "0123456")
    for _ in range(3):
        jobs.done(take(jobs, clock))
    expected = ["6", "5", "4", "3", "2", "1", "0"]
    assert [job.key for job in jobs.list().jobs] == expected
    for size in range(1, 9):
        found, after = [], ""
        for _ in range(8):
            page = jobs.list(limit=size, after=after)
            found += [job.key for job in page.jobs]
            after = page.next
            if not after:
                break
        assert found == expected


def test_the_list_is_filtered(jobs: Jobs, clock: Clock) -> None:
    """By state, by kind, by both; the counts are of all."""
    jobs.put("k", "a")
    jobs.failed(take(jobs, clock), "no", retry_at=None)
    jobs.put("k", "b")
    jobs.put("other", "a")
    assert [job.key for job in jobs.list(state="failed").jobs] == ["a"]
    assert {job.key for job in jobs.list(kind="k").jobs} == {"a", "b"}
    assert jobs.list(state="failed", kind="other").jobs == ()
    assert jobs.counts() == {**EMPTY, "failed": 1, "waiting": 2}


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"after": "x"}, {"after": "2" + "0" * 26}, {"kind": "\udcff"}]
)
def test_a_wrong_question_is_refused(jobs: Jobs, wrong: dict[str, Any]) -> None:
    """A page of nothing, and a place that no list gave."""
    with pytest.raises(InvalidInput):
        jobs.list(**wrong)


# --- spending ---


def test_what_a_day_cost_adds_up(jobs: Jobs, clock: Clock) -> None:
    """Each day by itself; what was charged too much is taken off, never below nothing."""
    assert jobs.spent("2026-09-14") == Spent()
    assert jobs.spend("2026-09-14", 1, 100) == Spent(1, 100)
    assert jobs.spend("2026-09-14", 1, -40) == Spent(2, 60)
    assert jobs.spend("2026-09-15", 0, -40) == Spent()
    assert jobs.spend("2026-09-14", 0, -100) == Spent(2, 0)
    jobs.spend("1970-01-01", 4, 5)
    assert jobs.today() == Spent(4, 5)


def test_a_charge_keeps_to_the_limits(jobs: Jobs) -> None:
    """Allowed, it is written down; refused, the reason is told and nothing is."""
    limits = Limits(calls_per_day=2, tokens_per_day=100)
    assert jobs.charge("d", limits, tokens=60) == ""
    assert "tokens_per_day" in jobs.charge("d", limits, tokens=41)
    assert jobs.charge("d", limits, tokens=40) == ""
    assert "calls_per_day" in jobs.charge("d", limits, tokens=0)
    assert jobs.spent("d") == Spent(2, 100)


def test_processes_together_keep_to_the_limits(tmp_path: Path) -> None:
    """What several processes and threads charge at once is no more than is allowed, and all that is."""
    limits = Limits(calls_per_day=150, tokens_per_day=10**9)

    def work(say: Say) -> None:
        jobs = Jobs(tmp_path / FILE)
        with ThreadPoolExecutor(2) as pool:
            reasons = list(pool.map(lambda _: jobs.charge("d", limits, tokens=1), range(60)))
        say(str(reasons.count("")))

    with child(work) as one, child(work) as two, child(work) as three:
        allowed = [int(each.hear() or 0) for each in (one, two, three)]
        assert [each.wait() for each in (one, two, three)] == [0, 0, 0]
    assert sum(allowed) == 150
    assert Jobs(tmp_path / FILE).spent("d") == Spent(150, 150)


# --- processes ---


def test_two_processes_never_take_the_same(tmp_path: Path) -> None:
    """Of many jobs each is taken by one process alone, and none is left."""
    jobs = Jobs(tmp_path / FILE)
    ids = {jobs.put("k", f"{number}").id for number in range(60)}

    def work(say: Say) -> None:
        mine = Jobs(tmp_path / FILE)
        while job := mine.take(("k",), now=2**60, lease_ms=10**9):
            say(job.id)

    with child(work) as one, child(work) as two, child(work) as three:
        heard = [each.hear_all() for each in (one, two, three)]
        assert [each.wait() for each in (one, two, three)] == [0, 0, 0]
    taken = [id for each in heard for id in each]
    assert len(taken) == 60
    assert set(taken) == ids


def test_a_killed_process_leaves_its_job_to_the_next(tmp_path: Path, clock: Clock) -> None:
    """SIGKILL in the middle of a run: the job is running until its lease is over, then another takes it."""
    jobs = Jobs(tmp_path / FILE, clock=clock)
    put = jobs.put("k", "x")

    def work(say: Say) -> None:
        mine = Jobs(tmp_path / FILE, clock=clock)
        job = mine.take(("k",), now=clock.now, lease_ms=LEASE)
        assert job is not None
        say(job.id)
        signal.pause()

    with child(work) as victim:
        assert victim.hear() == put.id
        victim.signal(signal.SIGKILL)
        assert victim.wait() == -signal.SIGKILL
    assert jobs.get(put.id).state == "running"
    assert taken(jobs, clock) is None
    clock.now += LEASE
    again = take(jobs, clock)
    assert (again.id, again.attempts) == (put.id, 2)
    jobs.done(again)


def test_a_forked_child_opens_its_own(jobs: Jobs) -> None:
    """What the parent has open is not used, nor harmed, by a child."""
    put = jobs.put("k", "x")

    def work(say: Say) -> None:
        say(jobs.get(put.id).id)
        jobs.put("k", "y")
        jobs.close()

    with child(work) as forked:
        assert forked.hear_all() == [put.id]
        assert forked.wait() == 0
    assert jobs.counts()["waiting"] == 2
    jobs.put("k", "z")


# --- leaving ---


def test_what_was_done_long_ago_is_forgotten(jobs: Jobs, clock: Clock) -> None:
    """Only what is done, and only what was done before the moment."""
    put_each(jobs, clock, "abc")
    jobs.done(take(jobs, clock))
    jobs.failed(take(jobs, clock), "no", retry_at=None)
    clock.now += 100
    jobs.done(take(jobs, clock))
    assert jobs.forget_done(clock.now) == 1
    assert [(job.key, job.state) for job in jobs.list().jobs] == [("b", "failed"), ("c", "done")]


@pytest.mark.parametrize(
    ("said", "gone"),
    [
        ({"session": "s1"}, {"a", "b"}),
        ({"user": "ana"}, {"a", "c"}),
        ({"environment": "staging"}, {"c", "d"}),
        ({"session": "s1", "user": "ana"}, {"a"}),
        ({"environment": "staging", "whole": True}, {"c", "d"}),
        ({"whole": True}, {"a", "b", "c", "d"}),
        ({"user": "nobody"}, set()),
    ],
)
def test_a_purge_takes_what_is_said_and_nothing_else(
    jobs: Jobs, clock: Clock, said: dict[str, Any], gone: set[str]
) -> None:
    """Rows for which all that is said holds; a dry run tells the same and takes nothing."""
    jobs.put("k", "a", session="s1", user="ana", environment="production")
    jobs.put("k", "b", session="s1", user="ben", environment="production")
    jobs.put("k", "c", session="s2", user="ana", environment="staging")
    jobs.put("k", "d", session="s2", user="ben", environment="staging")
    jobs.done(take(jobs, clock))
    take(jobs, clock)
    jobs.spend("2026-09-14", 1, 1)
    everything = said == {"whole": True}
    expected = {"jobs": len(gone), "spending": int(everything)}
    assert jobs.purge(**said, dry_run=True) == expected
    assert jobs.purge(**said) == expected
    assert {job.key for job in jobs.list().jobs} == {"a", "b", "c", "d"} - gone
    assert jobs.spent("2026-09-14") == (Spent() if everything else Spent(1, 1))
    assert jobs.purge(**said) == {"jobs": 0, "spending": 0}


def test_a_purge_of_nobody_is_refused(jobs: Jobs) -> None:
    """With nothing said, nothing is purged by mistake."""
    jobs.put("k", "x")
    with pytest.raises(InvalidInput):
        jobs.purge()
    assert jobs.counts()["waiting"] == 1


def test_a_purge_leaves_no_bytes(jobs: Jobs, clock: Clock, tmp_path: Path) -> None:
    """Nothing of what was purged is in any of the files, also of what a row was before."""
    for number in range(50):
        jobs.put("k", f"quince {number}", args={"word": "medlar"}, user="ana")
        jobs.put("k", f"other {number}", user="ben")
    while (job := taken(jobs, clock)) is not None:
        jobs.failed(job, "persimmon" if job.user == "ana" else "no", retry_at=None)
    assert jobs.purge(user="ana")["jobs"] == 50
    held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"other 49" in held
    for word in (b"quince", b"medlar", b"persimmon"):
        assert word not in held


def test_a_purge_under_a_reader_says_that_bytes_stay(jobs: Jobs, tmp_path: Path) -> None:
    """While another reads an older state the rows are gone, the error says so, and the same call ends it."""
    jobs.put("k", "quince", user="ana")
    reader = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM jobs").fetchone()
    jobs._database._wait = 0.05
    jobs.close()
    with pytest.raises(StoreBusy, match="still in the file"):
        jobs.purge(user="ana")
    assert jobs.counts() == EMPTY
    reader.close()
    jobs.purge(user="ana")
    assert b"quince" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


# --- the file ---


def test_reading_makes_nothing(tmp_path: Path) -> None:
    """No question, and nothing that would delete, leaves a file or a directory behind."""
    jobs = Jobs(tmp_path / "tenant" / FILE)
    assert jobs.list().jobs == ()
    assert jobs.counts() == EMPTY
    assert jobs.latest("k", "") is None
    assert jobs.spent("d") == Spent()
    assert jobs.take(("k",), now=1, lease_ms=1) is None
    assert (jobs.retry_all(), jobs.forget_done(1)) == (0, 0)
    assert jobs.purge(whole=True) == {"jobs": 0, "spending": 0}
    with pytest.raises(NotFound):
        jobs.get("01MCC5RRW8WP5W7Q5WT7QG329S")
    assert list(tmp_path.iterdir()) == []


def test_every_file_is_its_owners_alone(tmp_path: Path) -> None:
    """Under umask 022: the files 0600, the directory 0700; closed, there is one."""
    before = os.umask(0o022)
    try:
        jobs = Jobs(tmp_path / "tenant" / FILE)
        jobs.put("k", "x")
        found = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "tenant").iterdir()}
        assert found == dict.fromkeys((FILE, f"{FILE}-shm", f"{FILE}-wal"), 0o600)
        assert stat.S_IMODE((tmp_path / "tenant").stat().st_mode) == 0o700
        jobs.close()
        assert [file.name for file in (tmp_path / "tenant").iterdir()] == [FILE]
        assert jobs.counts()["waiting"] == 1
    finally:
        os.umask(before)


def test_it_is_written_with_care(jobs: Jobs) -> None:
    """Each commit is synced, what is deleted is overwritten, and others are waited for."""
    jobs.put("k", "x")
    database = jobs._database._here().database
    assert database is not None
    for pragma, value in (
        ("synchronous", 2), ("journal_mode", "wal"), ("secure_delete", 1), ("busy_timeout", 10_000),
    ):  # fmt: skip
        assert database.execute(f"PRAGMA {pragma}").fetchone() == (value,)


def test_a_deleted_file_is_not_written_to(jobs: Jobs, tmp_path: Path) -> None:
    """When the file was deleted, the next call uses what is there now."""
    jobs.put("k", "x")
    for file in tmp_path.iterdir():
        file.unlink()
    assert jobs.counts() == EMPTY
    jobs.put("k", "y")
    assert [job.key for job in Jobs(jobs.path).list().jobs] == ["y"]


def test_one_that_waits_too_long_says_so(jobs: Jobs, tmp_path: Path) -> None:
    """While another program writes, a writer waits, and then says that nothing was written."""
    jobs.put("k", "x")
    jobs.close()
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    jobs._database._wait = 0.05
    with pytest.raises(StoreBusy):
        jobs.put("k", "y")
    other.close()
    jobs.put("k", "y")


def test_version_1(tmp_path: Path) -> None:
    """The file that the first version wrote is read, gone on with and purged."""
    shutil.copy(FIXTURE, tmp_path / FILE)
    clock = Clock(1_800_000_005_000)
    jobs = Jobs(tmp_path / FILE, clock=clock)
    assert [(job.kind, job.state, job.next_at) for job in jobs.list().jobs] == [
        ("idle", "waiting", 1_800_000_064_000),
        ("consolidate", "running", 1_800_000_604_000),
        ("profiles", "stopped", 0),
        ("draw", "failed", 1_800_000_032_000),
        ("draw", "done", 0),
    ]
    failed = jobs.list(state="failed").jobs[0]
    assert (failed.args, failed.session, failed.user, failed.environment, failed.attempts, failed.error) == (
        {"turn": "turn-2"}, "local/a:b:c", "ana", "staging", 1, "the model cannot be reached",
    )  # fmt: skip
    assert jobs.list(state="done").jobs[0].result == {"stored": 2}
    assert jobs.spent("2027-01-15") == Spent(3, 4567)
    clock.now = 1_800_000_032_000
    again = take(jobs, clock, "draw")
    assert again.attempts == 2
    jobs.done(again)
    assert jobs.put("profiles", "").state == "stopped"
    assert jobs.purge(whole=True) == {"jobs": 5, "spending": 1}


def test_a_file_that_is_not_ours_is_left_untouched(tmp_path: Path) -> None:
    """A later version, another's database, and what is no database: each its error, no byte changed."""
    shutil.copy(FIXTURE, tmp_path / "newer")
    _sql(tmp_path / "newer", f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    _sql(tmp_path / "foreign", "CREATE TABLE mine (a)")
    (tmp_path / "damaged").write_bytes(b"no database, and longer than a header of one would be" * 20)
    for name, error in (("newer", NewerFormat), ("foreign", ForeignFile), ("damaged", DamagedLog)):
        before = (tmp_path / name).read_bytes()
        jobs = Jobs(tmp_path / name)
        for act in (lambda jobs=jobs: jobs.put("k", "x"), jobs.counts, lambda jobs=jobs: jobs.spent("d")):
            with pytest.raises(error) as caught:
                act()
            assert caught.value.where["path"] == str(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


def test_a_damaged_row_is_told(jobs: Jobs, tmp_path: Path) -> None:
    """A row that says what no job can is damage, not a wrong answer."""
    jobs.put("k", "x")
    jobs.close()
    _sql(tmp_path / FILE, "UPDATE jobs SET state = 'complete'")
    with pytest.raises(DamagedLog):
        jobs.list()


def test_an_older_file_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening brings a file to the present version, once, with what is in it kept."""
    shutil.copy(FIXTURE, tmp_path / FILE)
    monkeypatch.setattr(module, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE more (a);\n"))
    for _ in range(2):
        jobs = Jobs(tmp_path / FILE)
        assert len(jobs.list().jobs) == 5
        jobs.close()
    assert _sql(tmp_path / FILE, "PRAGMA user_version", "SELECT count(*) FROM more") == [(2,), (0,)]


def test_the_page_describes_the_file(jobs: Jobs, tmp_path: Path) -> None:
    """The decision's page names the tables, the application and the version."""
    jobs.put("k", "x")
    page = (Path(__file__).parents[2] / "docs" / "decisions" / "0011-jobs.md").read_text()
    ((application,), (version,)) = _sql(tmp_path / FILE, "PRAGMA application_id", "PRAGMA user_version")
    assert f"`0x{application:X}`" in page
    assert f"version {version} (`user_version`" in page
    assert "`jobs`" in page
    assert "`spending`" in page


# --- against a model ---


class Machine(RuleBasedStateMachine):
    """Jobs in a file against jobs in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.clock = Clock()
        self.jobs = Jobs(Path(self.directory.name) / FILE, clock=self.clock)
        self.known: dict[str, dict[str, Any]] = {}
        self.held: list[Job] = []

    def teardown(self) -> None:
        self.jobs.close()
        self.directory.cleanup()

    def _set(self, id: str, state: str, next_at: int, attempts: int | None = None) -> None:
        self.known[id] |= {"state": state, "next_at": next_at}
        if attempts is not None:
            self.known[id]["attempts"] = attempts

    @rule(key=st.sampled_from("ab"), later=st.integers(0, 50))
    def put(self, key: str, later: int) -> None:
        job = self.jobs.put("k", key, at=self.clock.now + later)
        same = [id for id, each in self.known.items() if each["key"] == key and each["state"] != "done"]
        if same:
            assert job.id == same[0]
        else:
            self.known[job.id] = {"key": key}
            self._set(job.id, "waiting", self.clock.now + later, 0)

    @rule(passes=st.integers(1, 60))
    def wait(self, passes: int) -> None:
        self.clock.now += passes

    @rule(lease=st.integers(1, 40))
    def take(self, lease: int) -> None:
        job = self.jobs.take(("k",), now=self.clock.now, lease_ms=lease)
        while True:
            due = [
                (each["next_at"], id)
                for id, each in self.known.items()
                if 0 < each["next_at"] <= self.clock.now
            ]
            if not due:
                assert job is None
                return
            _, id = min(due)
            if self.known[id]["state"] != "running" or self.known[id]["attempts"] < MOST_ATTEMPTS:
                break
            self._set(id, "failed", 0)
        assert job is not None
        assert job.id == id
        self._set(id, "running", self.clock.now + lease, self.known[id]["attempts"] + 1)
        self.held.append(job)

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(), how=st.sampled_from(["done", "again", "failed", "stopped"]), later=st.integers(0, 50)
    )
    def end(self, data: st.DataObject, how: str, later: int) -> None:
        job = data.draw(st.sampled_from(self.held))
        at = self.clock.now + later if later else None
        known = self.known[job.id]
        mine = (known["state"], known["attempts"], known["next_at"]) == ("running", job.attempts, job.next_at)
        act = {
            "done": lambda: self.jobs.done(job),
            "again": lambda: self.jobs.again(job, {}, at=self.clock.now),
            "failed": lambda: self.jobs.failed(job, "no", retry_at=at),
            "stopped": lambda: self.jobs.stopped(job, "no", until=at),
        }[how]
        if not mine:
            with pytest.raises(Conflict):
                act()
            return
        ended = act()
        match how:
            case "done":
                self._set(job.id, "done", 0)
            case "again":
                self._set(job.id, "waiting", self.clock.now, 0)
            case "failed":
                self._set(job.id, "failed", at or 0)
            case "stopped":
                self._set(job.id, "stopped", at or 0, 0)
        assert ended == self.jobs.get(job.id)

    @rule()
    def retry(self) -> None:
        expected = [id for id, each in self.known.items() if each["state"] in ("failed", "stopped")]
        assert self.jobs.retry_all() == len(expected)
        for id in expected:
            self._set(id, "waiting", self.clock.now, 0)

    @rule()
    def reopen(self) -> None:
        self.jobs.close()

    @invariant()
    def it_is_the_same(self) -> None:
        found = {
            job.id: {
                "key": job.key,
                "state": job.state,
                "next_at": job.next_at,
                "attempts": job.attempts,
            }
            for job in self.jobs.list(limit=1000).jobs
        }
        assert found == self.known


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
