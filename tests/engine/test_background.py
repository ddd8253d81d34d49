"""engine/background.py: what is due is done once, its row says how it ended, and one process does it."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from crash.processes import Say, child
from stratalog.engine import background as module
from stratalog.engine.background import LOCK, Background, Job, Jobs, Runner, Work, due_again, jobs_of
from stratalog.engine.core import Stratalog
from stratalog.engine.remembering import Draft, Layer, Records, Scope
from stratalog.errors import Conflict, InvalidConfig, ModelUnavailable, SpendLimit, StorageFailed
from stratalog.keys import tenant_path
from stratalog.log.contract import Problem
from stratalog.memory.governor import MOST_ATTEMPTS, next_day
from stratalog.memory.jobs import FILE, KEPT_MS

PATIENCE = 30.0
START = 1_800_000_000_000
EVERY = 300.0
Do = Callable[[Job], Any]


class Place:
    """A data directory, a clock that only a test moves, and what was noted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = START
        self.noted: list[Problem] = []

    def clock(self) -> int:
        return self.now

    def jobs(self, tenant: str = "local") -> Jobs:
        return Jobs(tenant_path(self.root, tenant) / FILE, clock=self.clock)

    def runner(
        self, *works: Work, of: Callable[[str], Sequence[Work]] | None = None, tenants: Sequence[str] = ()
    ) -> Runner:
        return Runner(
            self.root,
            of or (lambda tenant: works),
            self.jobs,
            lambda: tenants or ("local",),
            note=self.noted.append,
            clock=self.clock,
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "data")


def work(do: Do, every: float = 0.0, name: str = "k") -> Work:
    return Work(name=name, run=do, every=every)


def nothing(job: Job) -> None:
    """Work that always succeeds and has nothing to tell."""


def told(jobs: Sequence[Job]) -> list[tuple[str, str, str]]:
    return [(job.kind, job.key, job.state) for job in jobs]


# --- what is due ---


def test_what_is_put_is_done_once(place: Place) -> None:
    """Each job is run with its arguments, in the order in which they are due; its result is in its row."""
    ran = []

    def do(job: Job) -> dict[str, Any]:
        ran.append(job.args["n"])
        return {"doubled": job.args["n"] * 2}

    for number in (1, 2, 3):
        place.now += 1
        place.jobs().put("k", f"{number}", args={"n": number})
    place.jobs().put("later", "x")
    place.jobs().put("k", "tomorrow", args={"n": 9}, at=place.now + 10**8)
    with place.runner(work(do)) as runner:
        done = runner.run_due()
        assert runner.run_due() == []
    assert ran == [1, 2, 3]
    assert [(job.state, job.result) for job in done] == [("done", {"doubled": 2 * n}) for n in ran]
    assert place.jobs().counts()["waiting"] == 2
    assert place.noted == []


def test_what_is_done_every_so_often_is_done_so_long_after_it_ended(place: Place) -> None:
    """At once at first, then so long after its last end, and a time that was missed once alone, also by
    another process."""
    every = work(nothing, EVERY)
    with place.runner(every) as runner:
        assert told(runner.run_due()) == [("k", "", "done")]
        place.now += int(EVERY * 1000) - 1
        assert runner.run_due() == []
        place.now += 1
        assert len(runner.run_due()) == 1
    place.now += int(EVERY * 1000) * 50
    with place.runner(every) as runner:
        assert len(runner.run_due()) == 1
        assert runner.run_due() == []


def test_a_clock_that_was_put_back_does_not_stop_it(place: Place) -> None:
    """What ended in a time that is yet to come is done again all the same."""
    with place.runner(work(nothing, EVERY)) as runner:
        runner.run_due()
        place.now -= 10**10
        assert len(runner.run_due()) == 1


def test_what_is_on_its_way_is_not_due_again(place: Place) -> None:
    """Waiting, running, or failed with a time to come: whatever the clock says."""
    jobs = place.jobs()
    job = jobs.put("k", "")
    later = place.now + 10**9
    assert not due_again(job, EVERY, later)
    running = jobs.take(("k",), now=place.now, lease_ms=10)
    assert running is not None
    assert not due_again(running, EVERY, later)
    assert not due_again(jobs.failed(running, "no", retry_at=later + 1), EVERY, later)


# --- how it ends ---


def test_the_budget_stops_a_job_until_the_next_day(place: Place) -> None:
    """The reason is in its row; the next day it goes on by itself, with all its attempts."""
    spent = [True]

    def do(job: Job) -> None:
        if spent[0]:
            raise SpendLimit("the tenant's budget for the day is spent: 3 calls are made", tenant="local")

    place.jobs().put("k", "x")
    with place.runner(work(do)) as runner:
        (stopped,) = runner.run_due()
        assert (stopped.state, stopped.attempts) == ("stopped", 0)
        assert "3 calls are made" in stopped.error
        assert stopped.next_at == next_day(place.now)
        assert runner.run_due() == []
        place.now, spent[0] = next_day(place.now), False
        assert told(runner.run_due()) == [("k", "x", "done")]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModelUnavailable("the model cannot be reached"), "the model cannot be reached"),
        (OSError(28, "No space left on device"), "No space left"),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
)
def test_a_failed_job_is_tried_again_with_growing_pauses(
    place: Place, error: BaseException, words: str
) -> None:
    """Whatever was raised: failed and never done, with its words, five times; then for good until a person
    retries it."""

    def do(job: Job) -> None:
        raise error

    place.jobs().put("k", "x")
    pauses = []
    with place.runner(work(do)) as runner:
        for attempt in range(1, MOST_ATTEMPTS + 1):
            (failed,) = runner.run_due()
            assert (failed.state, failed.attempts) == ("failed", attempt)
            assert words in failed.error
            pauses.append((failed.next_at - place.now) // 1000 if failed.next_at else None)
            place.now = failed.next_at or place.now
        place.now += 10**11
        assert runner.run_due() == []
        place.jobs().retry(failed.id)
        assert told(runner.run_due()) == [("k", "x", "failed")]
    assert pauses == [30, 60, 120, 240, None]


def test_what_is_done_every_so_often_is_never_given_up(place: Place) -> None:
    """After its last attempt it is tried anew when its time has come again, in the same row."""
    broken = [True]

    def do(job: Job) -> None:
        if broken[0]:
            raise StorageFailed("the disk is gone")

    with place.runner(work(do, EVERY)) as runner:
        for _ in range(MOST_ATTEMPTS):
            (failed,) = runner.run_due()
            place.now = failed.next_at or place.now
        assert failed.next_at == 0
        place.now += int(EVERY * 1000) - 1
        assert runner.run_due() == []
        place.now, broken[0] = place.now + 1, False
        (done,) = runner.run_due()
    assert (done.id, done.state, done.error) == (failed.id, "done", "")


@pytest.mark.parametrize("result", [{"a": object()}, {"a": "\udcff"}, 7])
def test_a_result_that_cannot_be_kept_is_a_failure(place: Place, result: Any) -> None:
    """It is not shown as done."""
    place.jobs().put("k", "x")
    with place.runner(work(lambda job: result)) as runner:
        assert told(runner.run_due()) == [("k", "x", "failed")]


def test_passes_follow_one_another_while_they_get_somewhere(place: Place) -> None:
    """Each sees what the one before came to; the row is done when one says that nothing is left."""
    seen = []

    def do(job: Job) -> dict[str, Any]:
        seen.append(job.result.get("watermark", ""))
        at = len(seen)
        return {"more": at < 4, "watermark": f"{at}"}

    place.jobs().put("k", "x")
    with place.runner(work(do)) as runner:
        ran = runner.run_due()
    assert [job.state for job in ran] == ["waiting"] * 3 + ["done"]
    assert len({job.id for job in ran}) == 1
    assert seen == ["", "1", "2", "3"]


@pytest.mark.parametrize(
    ("watermarks", "passes"), [(["a", "b", "b"], 3), (["", "x"], 1), ([None], 1), (["a", "a"], 2)]
)
def test_a_pass_that_gets_nowhere_is_stopped(place: Place, watermarks: list[str | None], passes: int) -> None:
    """More to do, and the watermark where it was: it says so and is not run again by itself (M36)."""
    left = iter(watermarks)

    def do(job: Job) -> dict[str, Any]:
        mark = next(left)
        return {"more": True} if mark is None else {"more": True, "watermark": mark}

    place.jobs().put("k", "x")
    with place.runner(work(do)) as runner:
        ran = runner.run_due()
        place.now += 10**11
        assert runner.run_due() == []
    assert len(ran) == passes
    assert (ran[-1].state, ran[-1].next_at) == ("stopped", 0)
    assert "does not converge" in ran[-1].error


def test_passes_without_an_end_are_braked(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watermark that moves for ever is let go on later, with the reason in its row, from where it was."""
    monkeypatch.setattr(module, "MOST_PASSES", 5)
    place.jobs().put("k", "x")
    count = iter(range(1, 100))
    with place.runner(work(lambda job: {"more": True, "watermark": f"{next(count)}"})) as runner:
        ran = runner.run_due()
        assert len(ran) == 5
        assert (ran[-1].state, ran[-1].result["watermark"]) == ("stopped", "5")
        assert "after 5 passes" in ran[-1].error
        assert runner.run_due() == []
        place.now += 3_600_000
        assert len(runner.run_due()) == 5


def test_jobs_that_put_jobs_do_not_keep_it_for_ever(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run does a bounded number of a tenant's jobs, and the others come next time."""
    monkeypatch.setattr(module, "MOST_JOBS", 10)

    def do(job: Job) -> None:
        jobs = place.jobs()
        jobs.put("k", f"{job.key}+")
        jobs.close()

    place.jobs().put("k", "x")
    with place.runner(work(do), tenants=("local", "other")) as runner:
        assert len(runner.run_due()) == 10
        assert len(runner.run_due()) == 10


def test_a_job_that_was_purged_while_it_ran(place: Place) -> None:
    """Its end is written nowhere, and the others are done."""

    def do(job: Job) -> None:
        if job.user:
            place.jobs().purge(user=job.user)

    place.jobs().put("k", "x", user="ana")
    place.jobs().put("k", "y")
    with place.runner(work(do)) as runner:
        runner.run_due()
    assert told(place.jobs().list().jobs) == [("k", "y", "done")]
    assert place.noted == []


def test_what_was_done_a_week_ago_is_forgotten(place: Place) -> None:
    """What failed stays."""

    def do(job: Job) -> None:
        if job.key == "bad":
            raise StorageFailed("no")

    place.jobs().put("k", "good")
    place.jobs().put("k", "bad")
    with place.runner(work(do)) as runner:
        runner.run_due()
        place.now += KEPT_MS + 1
        runner.run_due()
    assert [job.key for job in place.jobs().list().jobs] == ["bad"]


# --- tenants ---


def test_one_tenant_that_fails_keeps_no_other_from_its_work(place: Place) -> None:
    """A damaged file, and works that cannot be made: noted with the tenant's name; the rest is done."""
    path = tenant_path(place.root, "damaged") / FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database at all, but long enough to be taken for one" * 20)

    def works(tenant: str) -> list[Work]:
        if tenant == "defect":
            raise ZeroDivisionError("in making works")
        return [work(nothing, EVERY)]

    with place.runner(of=works, tenants=("damaged", "defect", "good")) as runner:
        assert told(runner.run_due()) == [("k", "", "done")]
    assert place.jobs("good").counts()["done"] == 1
    first, second = place.noted
    assert "'damaged'" in first.reason
    assert first.path == str(path)
    assert "'defect'" in second.reason
    assert "in making works" in second.reason


def test_real_records_are_consolidated(data: Path) -> None:
    """A small real work: what is said twice is merged, and the row says how much."""
    with Stratalog(data) as memory, Records(memory) as records:
        me = records.caller(user="ana")
        for text in ("Ana lives in Lisbon", "ana lives in lisbon."):
            draft = Draft(layer=Layer.SHORT, scope=Scope("user", "ana"), key="home", text=text)
            records.service.remember(me, draft)

        def consolidate(job: Job) -> dict[str, Any]:
            done = records.consolidate(older_than=0)
            return {"promoted": done.promoted, "more": done.more, "watermark": done.next}

        works = [Work(name="consolidate", run=consolidate, every=300.0)]
        with Runner(
            data, lambda tenant: works, lambda tenant: jobs_of(memory), lambda: ["local"], note=memory.note
        ) as runner:
            (done,) = runner.run_due()
        assert (done.state, done.result) == ("done", {"promoted": 1, "more": False, "watermark": ""})
        assert [each.layer for each in records.service.list(me).records] == [Layer.MID]
        assert memory.problems == []


def test_work_may_run_an_event_loop(place: Place) -> None:
    """Also when it is run within one."""

    async def answer() -> dict[str, Any]:
        return {"n": 1}

    async def run() -> list[Job]:
        with place.runner(work(lambda job: asyncio.run(answer()))) as runner:
            return runner.run_due()

    place.jobs().put("k", "x")
    assert [job.result for job in asyncio.run(run())] == [{"n": 1}]


# --- one runner ---


def test_a_directory_has_one_runner(place: Place) -> None:
    """A second one is a conflict with a hint, in this process and in another, until the first is closed."""

    def attempt(say: Say) -> None:
        try:
            place.runner().close()
            say("had it")
        except Conflict as error:
            say(error.hint)

    with place.runner(work(nothing, EVERY)) as runner:
        with pytest.raises(Conflict) as caught:
            place.runner()
        assert caught.value.where["path"] == str(place.root / LOCK)
        runner.run_due()
    with child(attempt) as other:
        assert other.hear() == "had it"
    # Forked while it is held, a child has the file open too.
    with place.runner(), child(attempt) as other:
        assert other.hear() == caught.value.hint
    with place.runner() as runner, child(lambda say: (say("forked"), threading.Event().wait())) as other:
        assert other.hear() == "forked"
        runner.close()
        place.runner().close()
    assert (place.root / LOCK).stat().st_mode & 0o777 == 0o600


def test_a_killed_process_leaves_its_lock_and_its_job(place: Place) -> None:
    """SIGKILL in the middle of a job: the lock is free at once, and the job is done after its lease."""
    place.jobs().put("k", "x")

    def run(say: Say) -> None:
        def hang(job: Job) -> None:
            say("running")
            threading.Event().wait()

        place.runner(work(hang)).run_due()

    with child(run) as victim:
        assert victim.hear() == "running"
        with pytest.raises(Conflict):
            place.runner()
        victim.signal(signal.SIGKILL)
        assert victim.wait() == -signal.SIGKILL
    with place.runner(work(nothing)) as runner:
        assert runner.run_due() == []
        assert place.jobs().counts()["running"] == 1
        place.now += module.LEASE_MS
        (done,) = runner.run_due()
    assert (done.state, done.attempts) == ("done", 2)


def test_a_closed_runner_does_nothing(place: Place) -> None:
    """Nor does one that a child has from its parent."""
    runner = place.runner(work(nothing, EVERY))

    def forked(say: Say) -> None:
        try:
            runner.run_due()
        except Conflict:
            say("refused")
        runner.close()

    with child(forked) as other:
        assert other.hear() == "refused"
        assert other.wait() == 0
    with pytest.raises(Conflict):
        place.runner()
    assert len(runner.run_due()) == 1
    runner.close()
    runner.close()
    with pytest.raises(Conflict):
        runner.run_due()


def test_a_runner_that_is_stopped_ends_after_its_job(place: Place) -> None:
    """The rest stays due, of this tenant and of others."""
    for key in "abc":
        place.jobs().put("k", key)
    with place.runner(of=lambda tenant: [work(lambda job: runner.stop())], tenants=("local", "b")) as runner:
        assert len(runner.run_due()) == 1
    assert place.jobs().counts()["waiting"] == 2
    assert not tenant_path(place.root, "b").exists()


# --- in the background ---


class Heard:
    """What work says happened, waited for."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.runs = 0

    def ran(self, job: Job | None = None) -> None:
        with self.changed:
            self.runs += 1
            self.changed.notify_all()

    def wait(self, runs: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.runs >= runs, PATIENCE), "the work was not run"


def test_the_background_runs_at_once_and_again_when_it_is_waked(place: Place) -> None:
    """Without waiting for its tick, however long that is; what is put meanwhile is done."""
    pytest.importorskip("apscheduler")
    heard = Heard()
    place.jobs().put("k", "x")
    with Background(place.runner(work(heard.ran)), tick=86_400.0) as background:
        for number in range(1, 6):
            heard.wait(number)
            place.jobs().put("k", f"{number}")
            background.wake()
        heard.wait(6)
    assert place.jobs().counts()["done"] == 6


def test_the_background_runs_again_and_again(place: Place) -> None:
    """Every tick, and so what fails in between costs nothing but itself; it is noted."""
    pytest.importorskip("apscheduler")
    heard = Heard()

    def works(tenant: str) -> list[Work]:
        heard.ran()
        raise ZeroDivisionError("each time")

    with Background(place.runner(of=works), tick=0.01):
        heard.wait(4)
    assert {problem.reason for problem in place.noted} == {
        "no background work for tenant 'local': ZeroDivisionError: each time"
    }


def test_what_no_tenant_is_to_blame_for_is_noted_too(place: Place) -> None:
    """When the tenants cannot be listed, it is told, and tried again."""
    pytest.importorskip("apscheduler")
    heard = Heard()

    def tenants() -> list[str]:
        heard.ran()
        raise StorageFailed("the directory cannot be read")

    runner = Runner(place.root, lambda tenant: [], place.jobs, tenants, note=place.noted.append)
    with Background(runner, tick=0.01):
        heard.wait(2)
    assert "the directory cannot be read" in place.noted[0].reason


def test_closing_waits_for_the_running_job_alone(place: Place) -> None:
    """The job that is running ends and is written; those after it stay due; the lock is free."""
    pytest.importorskip("apscheduler")
    running, go_on = threading.Event(), threading.Event()

    def do(job: Job) -> dict[str, Any]:
        running.set()
        assert go_on.wait(PATIENCE)
        return {"ended": True}

    place.jobs().put("k", "x", at=place.now - 1)
    place.jobs().put("k", "y")
    runner = place.runner(work(do))
    background = Background(runner)
    assert running.wait(PATIENCE)
    closing = threading.Thread(target=background.close)
    closing.start()
    assert runner._ending.wait(PATIENCE)
    with pytest.raises(Conflict):
        place.runner()
    go_on.set()
    closing.join(PATIENCE)
    assert not closing.is_alive()
    assert sorted(told(place.jobs().list().jobs)) == [("k", "x", "done"), ("k", "y", "waiting")]
    background.close()
    background.wake()
    place.runner().close()


def test_a_long_run_is_not_complained_of(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """While a run takes longer than a tick nothing is logged, and runs do not overlap."""
    pytest.importorskip("apscheduler")
    heard = Heard()
    inside = threading.Lock()

    def do(job: Job) -> dict[str, Any]:
        assert inside.acquire(blocking=False)
        threading.Event().wait(0.05)
        inside.release()
        heard.ran()
        return {"more": True, "watermark": f"{heard.runs}"} if heard.runs < 4 else {}

    place.jobs().put("k", "x")
    with caplog.at_level("WARNING"), Background(place.runner(work(do)), tick=0.01):
        heard.wait(4)
    assert caplog.records == []
    assert place.jobs().counts()["done"] == 1


def test_without_apscheduler_it_says_what_to_install(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra, and the directory's runner is free."""
    monkeypatch.setitem(sys.modules, "apscheduler.schedulers.background", None)
    with pytest.raises(InvalidConfig, match=r"stratalog\[background\]"):
        Background(place.runner(work(nothing, EVERY)))
    place.runner().close()
