"""sessions/manager.py: serial within a session, first come first served, and memory that stays flat."""

from __future__ import annotations

import gc
import os
import threading
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.children import child
from stratalog.errors import SessionBusy
from stratalog.keys import SessionKey, session_key
from stratalog.sessions.locks import Hold, take
from stratalog.sessions.manager import Live, SessionManager, Tenure
from stratalog.sessions.meta import SessionMeta

KEY = session_key("a", "cli", "me")
PATIENCE = 20.0


class Clock:
    """A clock that goes only when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def manager(tmp_path: Path, clock: Clock) -> SessionManager:
    return SessionManager(lock_path=lambda key: tmp_path / f"{key.file_name}.lock", clock=clock)


def live_of(manager: SessionManager, key: SessionKey = KEY, ttl: float = 60.0) -> Live:
    return manager.touch(key, lambda: SessionMeta(key=str(key)), ttl)


def held(manager: SessionManager, live: Live, turn: str = "t", deadline: float = 60.0) -> Tenure:
    tenure = Tenure(turn, deadline)
    manager.take(live, tenure, PATIENCE)
    return tenure


def until(condition: object) -> None:
    assert callable(condition)
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.001)


def test_threads_get_the_session_in_the_order_in_which_they_came(manager: SessionManager) -> None:
    """Those who wait are served first come, first served."""
    live = live_of(manager)
    first = held(manager, live)
    order: list[int] = []

    def run(number: int) -> None:
        tenure = held(manager, live, f"t{number}")
        order.append(number)
        manager.release(live, tenure)

    threads = []
    for number in range(12):
        thread = threading.Thread(target=run, args=(number,))
        thread.start()
        threads.append(thread)
        until(lambda number=number: len(live.waiting) == number + 1)
    manager.release(live, first)
    for thread in threads:
        thread.join(PATIENCE)
    assert order == list(range(12))
    assert (live.status, live.tenure, len(live.waiting)) == ("idle", None, 0)


def test_who_will_not_wait_is_told_who_holds_it(manager: SessionManager) -> None:
    """A take that may not wait, or not any longer, says which turn holds the session and leaves no trace."""
    live = live_of(manager)
    tenure = held(manager, live, "the turn")
    for wait in (0, -1, 0.01):
        with pytest.raises(SessionBusy) as caught:
            manager.take(live, Tenure("x", 60), wait)
        assert caught.value.where["holder"] == "the turn"
    assert not live.waiting
    manager.release(live, tenure)


def test_nobody_jumps_the_queue(manager: SessionManager) -> None:
    """One who would not wait does not get a session for which another waits, even when it is free."""
    live = live_of(manager)
    live.waiting.append(Tenure("earlier", 60))
    with pytest.raises(SessionBusy):
        manager.take(live, Tenure("later", 60), 0)


def test_a_holder_past_its_deadline_loses_the_session_to_the_next(manager: SessionManager) -> None:
    """A hung holder is told that it timed out, the session is marked, and its own end changes nothing."""
    live = live_of(manager)
    hung = held(manager, live, "hung", 0.01)
    assert (live.status, hung.lost) == ("processing", "")
    following = held(manager, live, "next")
    assert (hung.lost, following.after_overdue) == ("timed_out", "hung")
    assert following.hold is not None
    assert following.hold.in_place
    manager.release(live, hung)
    assert live.tenure is following
    assert following.hold.in_place
    manager.release(live, following, "error")
    assert live.status == "error"


def test_a_holder_that_another_process_left_behind_does_not_pass_on_its_old_lock(
    manager: SessionManager, tmp_path: Path
) -> None:
    """When another process took the overdue session, a thread that waits here waits for that process."""
    live = live_of(manager)
    hung = held(manager, live, "hung", 0.01)
    time.sleep(0.02)
    theirs = take(tmp_path / f"{KEY.file_name}.lock", "theirs", 60.0)
    assert isinstance(theirs, Hold)
    assert theirs.took_over
    with pytest.raises(SessionBusy) as caught:
        manager.take(live, Tenure("mine", 60), 0)
    assert caught.value.where["holder"] == "theirs"
    assert (hung.lost, live.status) == ("timed_out", "error")
    theirs.release()
    manager.release(live, held(manager, live))


def test_other_processes_are_waited_for(manager: SessionManager, tmp_path: Path) -> None:
    """While another process holds the session nobody here gets it; after kill -9 of that one, the next does
    within a second."""
    script = """
    from stratalog.sessions.locks import take
    hold = take(Path(sys.argv[1]), "theirs", 3600)
    say("held")
    hear()
    """
    live = live_of(manager)
    with child(script, tmp_path / f"{KEY.file_name}.lock") as other:
        assert other.hear() == "held"
        with pytest.raises(SessionBusy):
            manager.take(live, Tenure("x", 60), 0)
        other.kill()
        tenure = Tenure("x", 60)
        manager.take(live, tenure, 1.0)
        assert not tenure.took_over
        manager.release(live, tenure)


def test_a_tenure_that_never_began_can_be_released(manager: SessionManager) -> None:
    """Releasing what was not taken, or twice, changes nothing for the holder."""
    live = live_of(manager)
    tenure = held(manager, live)
    manager.release(live, Tenure("other", 60))
    assert live.tenure is tenure
    manager.release(live, tenure)
    manager.release(live, tenure)
    assert live.status == "idle"


def test_idle_sessions_leave_memory_and_others_do_not(manager: SessionManager, clock: Clock) -> None:
    """What was not used for its time to live is let go; what was, or is held or waited for, stays."""
    keys = [session_key("a", "cli", f"c{number}") for number in range(5)]
    lives = [live_of(manager, key) for key in keys]
    tenure = held(manager, lives[0])
    lives[1].waiting.append(Tenure("waits", 60))
    clock.now += 59
    live_of(manager, keys[2])
    clock.now += 2
    assert manager.sweep() == 2
    assert [manager.find(key) is not None for key in keys] == [True, True, True, False, False]
    manager.release(lives[0], tenure)
    lives[1].waiting.clear()
    clock.now += 61
    assert manager.sweep() == 3
    assert len(manager) == 0


def test_an_abandoned_turn_does_not_stay_for_ever(manager: SessionManager, clock: Clock) -> None:
    """A turn whose holder is gone without a word, past its deadline and idle, is let go with its lock."""
    live = live_of(manager)
    tenure = held(manager, live, "gone", 0.01)
    time.sleep(0.02)
    hold = tenure.hold
    assert hold is not None
    clock.now += 61
    assert manager.sweep() == 1
    assert tenure.lost == "timed_out"
    assert not hold.path.exists()


def test_a_session_that_is_let_go_is_offered_for_saving(tmp_path: Path, clock: Clock) -> None:
    """Who made the manager hears of each session that leaves memory, once."""
    gone: list[SessionKey] = []
    manager = SessionManager(lock_path=None, clock=clock, on_evict=lambda live: gone.append(live.key))
    live_of(manager)
    clock.now += 61
    live_of(manager, session_key("a", "cli", "other"))
    assert gone == [KEY]
    manager.close()
    manager.close()
    assert len(gone) == 2


@pytest.mark.long
def test_ten_thousand_sessions_touched_once_leave_memory_flat(manager: SessionManager, clock: Clock) -> None:
    """After their time to live, sessions that were touched once take no memory, no files and no locks."""

    def touch(batch: int) -> None:
        for number in range(10_000):
            live = live_of(manager, session_key("a", "cli", f"{batch}-{number}"))
            if number % 10 == 0:
                manager.release(live, held(manager, live))
        clock.now += 3600
        live_of(manager)

    gc.collect()  # what other tests left must not close its files meanwhile

    files = len(os.listdir("/proc/self/fd"))
    tracemalloc.start()
    touch(0)
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    touch(1)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(manager) == 1
    assert after - before < 100_000
    assert len(os.listdir("/proc/self/fd")) == files
    assert sum(isinstance(each, Live) for each in gc.get_objects()) < 100


def keys(count: int) -> list[SessionKey]:
    return [session_key("a", "cli", f"c{number}") for number in range(count)]


def test_the_oldest_idle_sessions_leave_memory_where_there_are_too_many(clock: Clock) -> None:
    """Of more than three those go that were not used for longest, but none that is held, waited for, or of
    which a restart may be confirmed; what goes is offered for saving, once."""
    gone: list[SessionKey] = []
    manager = SessionManager(lock_path=None, clock=clock, on_evict=lambda live: gone.append(live.key), most=3)
    every = keys(8)
    lives = [live_of(manager, key) for key in every[:3]]
    tenure = held(manager, lives[0])
    lives[1].waiting.append(Tenure("waits", 60))
    assert not manager.confirm_restart(lives[2], 30.0)
    for key in every[3:5]:
        live_of(manager, key)
    assert gone == [every[3]]  # the one that is used now is the fourth that cannot go
    clock.now += 30.1
    live_of(manager, every[5])
    assert gone == [every[3], every[2], every[4]]
    manager.release(lives[0], tenure)
    lives[1].waiting.clear()
    live_of(manager, every[0])
    live_of(manager, every[6])
    assert gone == [every[3], every[2], every[4], every[1]]
    assert [manager.find(key) is not None for key in every] == [True, *[False] * 4, True, True, False]


def test_the_oldest_idle_sessions_leave_memory_where_they_weigh_too_much(clock: Clock) -> None:
    """What is used last is weighed then, and others go until all are light enough; alone it stays."""
    weights = dict.fromkeys(keys(4), 30)
    manager = SessionManager(lock_path=None, clock=clock, heaviest=100, weigh=lambda live: weights[live.key])
    first, second, third, fourth = weights
    for key in (first, second, third):
        live_of(manager, key)
    assert manager.weight == 90
    weights[first] = 50
    live_of(manager, first)
    assert (manager.weight, manager.find(second)) == (80, None)
    weights[fourth] = 101
    live_of(manager, fourth)
    assert (manager.weight, len(manager)) == (101, 1)
    manager.close()
    assert manager.weight == 0


def test_one_who_still_has_a_session_that_was_let_go_takes_the_one_that_is_there(clock: Clock) -> None:
    """There is one live state of a session: who got it before it was let go waits for its present holder."""
    manager = SessionManager(lock_path=None, clock=clock, most=1)
    first, second = keys(2)
    before = live_of(manager, first)
    live_of(manager, second)
    now = live_of(manager, first)
    assert now is not before
    tenure = held(manager, now, "theirs")
    with pytest.raises(SessionBusy) as caught:
        manager.take(before, Tenure("x", 60), 0)
    assert caught.value.where["holder"] == "theirs"
    manager.release(now, tenure)
    mine = held(manager, before)
    assert (now.tenure, before.tenure) == (mine, None)
    manager.release(before, mine)
    assert (now.tenure, now.status) == (None, "idle")


@given(
    st.lists(st.tuples(st.sampled_from(["touch", "take", "release"]), st.integers(0, 7), st.integers(0, 40)))
)
def test_the_bounds_are_kept_whatever_is_done(steps: list[tuple[str, int, int]]) -> None:
    """After any calls no session that is held has left memory, the weight is the sum of what is there, and
    where a bound is passed nothing that is idle is left but what was used last."""
    weights = dict.fromkeys(keys(8), 0)
    manager = SessionManager(lock_path=None, most=3, heaviest=60, weigh=lambda live: weights[live.key])
    holding: dict[SessionKey, Tenure] = {}
    for what, number, weight in steps:
        key = list(weights)[number]
        if what == "release" and key in holding:
            manager.release(live_of(manager, key), holding.pop(key))
        weights[key] = weight
        live = live_of(manager, key)
        if what == "take" and key not in holding:
            holding[key] = held(manager, live)
        there = [found for each in weights if (found := manager.find(each)) is not None]
        assert all(manager.find(each) is not None for each in holding)
        assert manager.weight == sum(each.weight for each in there)
        if len(there) > 3 or manager.weight > 60:
            assert all(each is live or each.key in holding for each in there)
    for key, tenure in holding.items():
        manager.release(live_of(manager, key), tenure)


def test_a_restart_is_confirmed_within_its_window(manager: SessionManager, clock: Clock) -> None:
    """The second asking within 30 s confirms; later it asks again, and after a confirmation anew."""
    live = live_of(manager)
    assert not manager.confirm_restart(live, 30.0)
    clock.now += 30.0
    assert manager.confirm_restart(live, 30.0)
    assert not manager.confirm_restart(live, 30.0)
    clock.now += 30.1
    assert not manager.confirm_restart(live, 30.0)
    clock.now += 1
    assert manager.confirm_restart(live, 30.0)


def test_a_deleted_session_is_lost_to_its_holder_and_forgotten(manager: SessionManager) -> None:
    """Dropping a session takes it from its holder, and leaves nothing known of the log."""
    live = live_of(manager)
    live.meta = SessionMeta(key=str(KEY), title="secret", seq=9)
    tenure = held(manager, live)
    manager.drop(KEY)
    assert tenure.lost == "deleted"
    assert live.meta == SessionMeta(key=str(KEY))
    manager.drop(session_key("a", "cli", "never seen"))
    manager.release(live, held(manager, live))


def test_closing_takes_every_session_back(manager: SessionManager, tmp_path: Path) -> None:
    """After close no lock file is left, and a holder knows that it was aborted."""
    tenure = held(manager, live_of(manager))
    manager.close()
    manager.close()
    assert tenure.lost == "aborted"
    assert os.listdir(tmp_path) == []


def test_an_interrupted_wait_leaves_the_queue(
    manager: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while waiting takes the waiter out of the line, and the next one is served."""
    live = live_of(manager)
    tenure = held(manager, live)

    def interrupt(timeout: float | None = None) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(live.changed, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        manager.take(live, Tenure("x", 60), None)
    monkeypatch.undo()
    assert not live.waiting
    manager.release(live, tenure)
    manager.release(live, held(manager, live))


def test_a_forked_child_begins_with_nothing(tmp_path: Path) -> None:
    """In a forked child the parent's turns are not the child's: they are lost to it, and it has to wait."""
    script = """
    from stratalog.errors import SessionBusy
    from stratalog.keys import session_key
    from stratalog.sessions.manager import SessionManager, Tenure
    from stratalog.sessions.meta import SessionMeta
    key = session_key("a", "cli", "me")
    manager = SessionManager(lock_path=lambda key: Path(sys.argv[1]))
    def live(): return manager.touch(key, lambda: SessionMeta(key=str(key)), 60)
    tenure = Tenure("t", 60)
    manager.take(live(), tenure, 0)
    pid = os.fork()
    if pid == 0:
        try:
            manager.take(live(), Tenure("child", 60), 0)
        except SessionBusy:
            say(f"busy {tenure.lost} {len(manager)}")
        os._exit(0)
    os.waitpid(pid, 0)
    say(f"parent {tenure.lost} {tenure.hold.in_place}")
    manager.release(live(), tenure)
    """
    with child(script, tmp_path / "a.lock") as other:
        assert other.hear() == "busy forked 1"
        assert other.hear() == "parent  True"
        assert other.end() == 0
