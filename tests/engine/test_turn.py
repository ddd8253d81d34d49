"""engine/turn.py: what a turn writes, how it ends, and how it is taken away."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from pathlib import Path

import pytest

from engine.threads import together
from stratalog.engine.core import Stratalog
from stratalog.engine.session import Session
from stratalog.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    SessionBusy,
    StaleFence,
    StorageFull,
    TurnClosed,
)
from stratalog.types import AnyEntry, Assistant, Note, ToolResult, TurnEnd, TurnStart, User


def kinds(chat: Session) -> list[str]:
    return [str(entry.__struct_config__.tag) for entry in chat.entries()]


def last_end(chat: Session) -> TurnEnd:
    return next(entry for entry in chat.entries(reverse=True) if isinstance(entry, TurnEnd))


# --- the course of a turn ---


def test_a_turn_is_a_message_and_all_that_answers_it(chat: Session) -> None:
    """Message, start, calls, results, reply and end are in the log in order, each with the turn's id."""
    with chat.turn("weather?", meta={"from": "me"}) as turn:
        call = turn.call("weather", {"city": "Bergen"}, call_id="c1")
        turn.result(call, "rain")
        turn.result("other", "late", error=True)
        reply = turn.reply("It rains.", model="m")
    assert kinds(chat) == [
        "user",
        "turn_start",
        "tool_call",
        "tool_result",
        "tool_result",
        "assistant",
        "turn_end",
    ]
    entries = list(chat.entries())
    assert {entry.turn for entry in entries} == {turn.id}
    assert [entry.seq for entry in entries] == list(range(1, 8))
    assert entries[0].meta == {"from": "me"}
    assert entries[5] == reply
    assert isinstance(entries[3], ToolResult)
    assert (entries[3].call_id, entries[3].name) == ("c1", "weather")
    assert last_end(chat).status == "answered"
    assert chat.unfinished() == []


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("broken"), "interrupted"),
        (KeyboardInterrupt(), "aborted"),
        (asyncio.CancelledError(), "aborted"),
        (GeneratorExit(), "aborted"),
        (SystemExit(1), "interrupted"),
    ],
)
def test_an_exception_ends_the_turn_and_goes_on_upwards(
    chat: Session, error: BaseException, status: str
) -> None:
    """Ctrl-C and a cancellation abort the turn, any other exception interrupts it; none is swallowed, and
    what was written stays."""
    with pytest.raises(type(error)), chat.turn("x") as turn:  # noqa: PT012
        turn.reply("half")
        raise error
    assert last_end(chat).status == status
    assert last_end(chat).detail.startswith(type(error).__name__)
    assert kinds(chat) == ["user", "turn_start", "assistant", "turn_end"]
    with chat.turn("y", wait=0) as turn:
        turn.reply("free again")


def test_a_turn_without_a_reply_was_interrupted(chat: Session) -> None:
    """Leaving the block without having replied does not count as an answer."""
    with chat.turn("x"):
        pass
    assert last_end(chat).status == "interrupted"


def test_an_ended_turn_writes_nothing_more(chat: Session) -> None:
    """After its end every write is refused with `TurnClosed`; ending again does nothing."""
    turn = chat.turn("x")
    turn.end("answered")
    turn.end("aborted")
    for write in (lambda: turn.reply("late"), lambda: turn.call("t"), lambda: turn.append(Note(kind="n"))):
        with pytest.raises(TurnClosed):
            write()
    assert kinds(chat) == ["user", "turn_start", "turn_end"]


def test_a_turn_ends_once_whoever_ends_it(chat: Session) -> None:
    """When threads end a turn at once, there is one end in the log."""
    turn = chat.turn("x")
    together(*[turn.end] * 8)
    assert kinds(chat).count("turn_end") == 1


def test_status_and_deadline(chat: Session) -> None:
    """`status` follows the turn; a deadline that is no time is refused before anything is written."""
    assert chat.status == "idle"
    for deadline in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(InvalidInput):
            chat.turn("x", deadline=deadline)
    assert not chat.exists
    with chat.turn("x"):
        assert chat.status == "processing"
    assert chat.status == "idle"


# --- one at a time ---


def test_twenty_turns_at_once_are_all_there_and_not_mixed(chat: Session) -> None:
    """Concurrent turns from threads follow one another: every message and reply once, none interleaved."""

    def run(number: int) -> None:
        with chat.turn(f"m{number}") as turn:
            turn.reply(f"r{number}")

    together(*(partial(run, number) for number in range(20)))
    entries = list(chat.entries())
    said = sorted(entry.text for entry in entries if isinstance(entry, User))
    assert said == sorted(f"m{number}" for number in range(20))
    replies = {entry.turn: entry.text for entry in entries if isinstance(entry, Assistant)}
    assert len(replies) == 20
    for entry in entries:
        if isinstance(entry, User):
            assert replies[entry.turn] == f"r{entry.text[1:]}"
    running = ""
    for entry in entries:
        if isinstance(entry, TurnStart):
            assert not running
            running = entry.turn
        elif isinstance(entry, TurnEnd):
            assert running == entry.turn
            running = ""
    assert chat.unfinished() == []


def test_twenty_updates_of_the_title_and_memory_are_all_there(chat: Session) -> None:
    """Concurrent writes outside turns lose none."""
    with chat.turn("x") as turn:
        turn.reply("y")
    together(*(partial(chat.set_title, f"t{number}") for number in range(20)))
    assert kinds(chat).count("title") == 20
    newest = next(entry for entry in chat.entries(reverse=True))
    assert chat.meta.title == getattr(newest, "title", "")


def test_a_message_that_arrives_mid_turn_waits_in_the_log(chat: Session) -> None:
    """It is durable at once, told how many are before it, and delivered once, in order, by `next`."""
    with chat.turn("first") as turn:
        one, two = chat.submit("second"), chat.submit("third")
        assert (one.ahead, two.ahead) == (1, 2)
        assert [entry.text for entry in chat.entries() if isinstance(entry, User)] == [
            "first",
            "second",
            "third",
        ]
        with pytest.raises(SessionBusy):
            chat.next()
        turn.reply("r1")
    delivered = []
    while (following := chat.next()) is not None:
        with following:
            delivered.append(following.message.text)
            following.reply("r")
    assert delivered == ["second", "third"]
    assert chat.next() is None


def test_a_message_that_waits_is_not_in_the_running_turns_context(chat: Session) -> None:
    """The model of the running turn does not see what waits for its own turn; between turns it is last."""
    with chat.turn("first") as turn:
        chat.submit("second")
        shown = turn.context().messages()
        assert [message["content"] for message in shown] == ["first"]
        turn.reply("r1")
    assert [message["content"] for message in chat.context().messages()] == ["first", "r1", "second"]


def test_a_turn_that_may_not_wait_leaves_its_message_queued(chat: Session) -> None:
    """`SessionBusy` after the wait is over; the message is in the log and is the next one's."""
    with chat.turn("first") as turn:
        with pytest.raises(SessionBusy) as caught:
            chat.turn("second", wait=0.01)
        assert caught.value.where["holder"] == turn.id
        turn.reply("r")
    following = chat.next()
    assert following is not None
    assert following.message.text == "second"
    following.end()


def test_turn_now_writes_nothing_when_it_is_busy(chat: Session) -> None:
    """`turn_now` is refused without a trace while a turn runs."""
    with chat.turn("first"):
        before = kinds(chat)
        with pytest.raises(SessionBusy):
            chat.turn_now("second")
        assert kinds(chat) == before


def test_starting_what_is_not_open_is_refused(chat: Session) -> None:
    """A turn that has ended, or never was, cannot be started, and the session stays free."""
    with chat.turn("x") as turn:
        turn.reply("y")
    for name in (turn.id, "nonsense"):
        with pytest.raises(NotFound):
            chat.start(name)
    assert chat.status == "idle"
    assert chat.next() is None


def test_a_large_message_is_delivered_whole(chat: Session) -> None:
    """A message that is kept out of line comes back whole from `next`, `start` and `unfinished`."""
    text = "好" * 100_000
    with chat.turn("first"):
        arrival = chat.submit(text)
    assert chat.unfinished()[0].message.text == text
    following = chat.next()
    assert following is not None
    assert following.message.content == text
    assert following.id == arrival.turn
    following.end("interrupted")


# --- losing a turn ---


def test_a_hung_turn_loses_the_session_at_its_deadline(chat: Session) -> None:
    """The next turn gets it, the log says that the first timed out, and on waking the first is refused:
    its entries before stay, nothing of it is interleaved."""
    hung = chat.turn("hung", deadline=0.01)
    hung.call("slow", call_id="c")
    time.sleep(0.02)
    with chat.turn("next") as following:
        assert (hung.lost, chat.status) == ("timed_out", "processing")
        with pytest.raises(TurnClosed):
            hung.result("c", "late")
        with pytest.raises(TurnClosed):
            hung.end()
        following.reply("r")
    assert kinds(chat) == [
        "user",
        "turn_start",
        "tool_call",
        "turn_end",
        "user",
        "turn_start",
        "assistant",
        "turn_end",
    ]
    ends = [entry for entry in chat.entries() if isinstance(entry, TurnEnd)]
    assert [(end.turn, end.status) for end in ends] == [(hung.id, "timed_out"), (following.id, "answered")]
    assert chat.status == "idle"


def test_a_hung_turns_block_ends_in_the_typed_error(chat: Session) -> None:
    """Leaving the block of a turn that was taken away raises, unless another exception is on its way."""
    with pytest.raises(TurnClosed), chat.turn("hung", deadline=0.01):  # noqa: PT012
        time.sleep(0.02)
        chat.turn("next").end()
    with pytest.raises(ValueError, match="mine"), chat.turn("hung", deadline=0.01):  # noqa: PT012
        time.sleep(0.02)
        chat.turn("next").end()
        raise ValueError("mine")


def test_a_turn_past_its_deadline_goes_on_while_nobody_wants_the_session(chat: Session) -> None:
    """The deadline ends a turn only for the sake of another."""
    with chat.turn("slow", deadline=0.01) as turn:
        time.sleep(0.02)
        turn.reply("done after all")
    assert last_end(chat).status == "answered"


def test_an_aborted_turn_keeps_what_it_wrote_and_writes_no_more(chat: Session) -> None:
    """Abort ends the running turn at once and frees the session; completed items persist."""
    turn = chat.turn("x")
    turn.call("t", call_id="c")
    assert chat.abort()
    assert turn.lost == "aborted"
    with pytest.raises(TurnClosed):
        turn.result("c", "late")
    with pytest.raises(TurnClosed):
        turn.end()
    assert last_end(chat).status == "aborted"
    assert not chat.abort()
    assert chat.unfinished() == []
    with chat.turn("y", wait=0) as following:
        following.reply("z")


def test_an_abort_leaves_the_messages_that_wait(chat: Session) -> None:
    """Aborting ends the running turn, not those in line behind it."""
    chat.turn("x")
    chat.submit("y")
    assert chat.abort()
    following = chat.next()
    assert following is not None
    assert following.message.text == "y"
    following.end()


def test_an_abort_while_a_turn_is_beginning(chat: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that holds the session but has not begun is refused by an abort, not begun after it."""
    chat.append(Note(kind="there"))
    head = chat._store.head
    calls: list[int] = []

    def abort_after_the_look(key: object) -> object:
        found = head(chat.key)
        if not calls:
            calls.append(1)
            assert chat.abort()
        return found

    monkeypatch.setattr(chat._store, "head", abort_after_the_look)
    with pytest.raises(Conflict):
        chat.turn_now("x")
    monkeypatch.undo()
    assert chat.unfinished() == []
    assert chat.status == "idle"


def test_a_beginning_that_was_overtaken_is_refused(chat: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that stalls between taking the session and its start, for longer than it may hold it, does not
    start under the one who took over."""
    chat.append(Note(kind="there"))
    caught_up = chat._caught_up
    others: list[object] = []

    def stall() -> object:
        found = caught_up()
        if not others:
            others.append(None)
            time.sleep(0.02)
            others.append(chat.turn("other"))
        return found

    monkeypatch.setattr(chat, "_caught_up", stall)
    with pytest.raises(Conflict):
        chat.turn_now("stalled", deadline=0.01)
    monkeypatch.undo()
    other = others[1]
    assert hasattr(other, "reply")
    other.reply("not disturbed")
    other.end()
    assert [entry.text for entry in chat.entries() if isinstance(entry, User)] == ["other"]


# --- trouble ---


def full(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Lets every write to the file at `path` fail for want of space."""
    write = os.write

    def refuse(fd: int, payload: bytes) -> int:
        if os.readlink(f"/proc/self/fd/{fd}") == str(path):
            raise OSError(28, "No space left on device")
        return write(fd, payload)

    monkeypatch.setattr(os, "write", refuse)


def test_an_end_that_cannot_be_logged_still_frees_the_session(
    chat: Session, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the caller is told, the session is let go, and the turn is closed by the next one."""
    with pytest.raises(StorageFull), chat.turn("x") as turn:  # noqa: PT012
        turn.reply("y")
        full(monkeypatch, next(data.rglob("*.jsonl")))
    assert chat.status == "idle"
    monkeypatch.undo()
    assert [open_turn.turn for open_turn in chat.unfinished()] == [turn.id]
    with chat.turn("z", wait=0) as following:
        following.reply("works again")
    ends = [entry.status for entry in chat.entries() if isinstance(entry, TurnEnd)]
    assert ends == ["interrupted", "answered"]


def test_a_beginning_that_cannot_be_logged_frees_the_session(
    chat: Session, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the message cannot be written nothing is, and the session is free."""
    chat.append(Note(kind="there"))
    full(monkeypatch, next(data.rglob("*.jsonl")))
    with pytest.raises(StorageFull):
        chat.turn("x")
    monkeypatch.undo()
    assert kinds(chat) == ["note"]
    assert (chat.status, list(data.rglob("*.lock"))) == ("idle", [])
    with chat.turn("x", wait=0) as turn:
        turn.reply("y")


def test_an_interrupt_between_taking_and_beginning_frees_the_session(
    chat: Session, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C at any point before the turn is the caller's leaves the session free and unlocked."""

    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    chat.append(Note(kind="there"))
    take = chat._manager.take

    def taken_then_interrupted(*args: object) -> None:
        take(*args)  # type: ignore[arg-type] # passed on as they came
        raise KeyboardInterrupt

    monkeypatch.setattr(chat._manager, "take", taken_then_interrupted)
    with pytest.raises(KeyboardInterrupt):
        chat.turn_now("x")
    monkeypatch.undo()
    for name in ("head", "read", "append"):
        monkeypatch.setattr(chat._store, name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            chat.turn_now("x")
        monkeypatch.undo()
    assert (chat.status, list(data.rglob("*.lock"))) == ("idle", [])
    assert kinds(chat) == ["note"]


def test_what_cannot_be_derived_after_a_write_does_not_fail_the_write(
    memory: Stratalog, chat: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When meta.json cannot be written the entry is logged all the same, the caller is not told that it
    failed, and the problem is in `problems`."""
    rename = os.rename

    def refuse(source: Path, target: Path) -> None:
        if str(target).endswith(".meta.json"):
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse)
    with chat.turn("hello") as turn:
        turn.reply("hi")
    assert chat.set_title("mine").title == "mine"
    assert any("meta" in problem.reason for problem in memory.problems)
    monkeypatch.undo()
    assert memory.sessions().sessions[0].title == "mine"


def test_the_child_of_a_fork_does_not_write_in_its_parents_turn(chat: Session) -> None:
    """A child that leaves the parent's block ends nothing in the log."""
    turn = chat.turn("x")
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            turn.end()
        except TurnClosed:
            status = 7
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    turn.reply("y")
    turn.end()
    assert kinds(chat) == ["user", "turn_start", "assistant", "turn_end"]


def test_a_turn_of_a_deleted_session_is_refused(chat: Session) -> None:
    """Deleting a session under its holder takes it away; nothing is written, the session stays deleted."""
    turn = chat.turn("x")
    assert chat.delete()
    assert turn.lost == "deleted"
    with pytest.raises(TurnClosed):
        turn.reply("late")
    with pytest.raises((TurnClosed, StaleFence)):
        turn.end()
    assert not chat.exists


def test_entries_of_any_kind_get_the_turns_id(chat: Session) -> None:
    """`Turn.append` gives all its entries to the turn, all or none."""
    with chat.turn("x") as turn:
        stored: list[AnyEntry] = turn.append(Note(kind="a", turn="other"), Note(kind="b"))
        assert [entry.turn for entry in stored] == [turn.id, turn.id]
        turn.reply("y")
