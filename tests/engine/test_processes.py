"""The engine between processes: killed, stopped and racing ones, on one data directory."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import pytest

from engine.children import Child, child
from stratalog.config import Settings
from stratalog.engine.core import Stratalog
from stratalog.engine.session import Session
from stratalog.engine.turn import Turn
from stratalog.errors import Conflict, SessionBusy, StaleFence, TurnClosed
from stratalog.types import AnyEntry, Assistant, Compaction, TurnEnd, TurnStart, User

pytestmark = pytest.mark.crash
KEY = "a:cli:me"
OPEN = """
from stratalog import Stratalog, StratalogError
from stratalog.points import arm
memory = Stratalog(sys.argv[1])
chat = memory.session("a:cli:me")
def tried(call, *args, **how):
    try:
        call(*args, **how)
        say("done")
    except StratalogError as error:
        say(type(error).__name__)
"""


def kinds(chat: Session) -> list[str]:
    return [str(entry.__struct_config__.tag) for entry in chat.entries()]


def users(chat: Session) -> list[str]:
    return [entry.text for entry in chat.entries() if isinstance(entry, User)]


def not_interleaved(entries: list[AnyEntry]) -> None:
    """Between a turn's start and its end, or the next start, only it writes replies."""
    running = ""
    for entry in entries:
        if isinstance(entry, TurnStart):
            running = entry.turn
        elif isinstance(entry, Assistant):
            assert entry.turn == running
        elif isinstance(entry, TurnEnd) and entry.turn == running:
            running = ""


# --- kill -9 ---


def test_killed_in_the_middle_of_a_turn(data: Path) -> None:
    """After kill -9 the message is there exactly once, finished rounds are kept, and the turn is offered
    and can be resumed, at once."""
    script = (
        OPEN
        + """
turn = chat.turn("important")
call = turn.call("tool", call_id="c1")
turn.result(call, "found")
turn.call("tool", call_id="c2")
say(turn.id)
hear()
"""
    )
    with child(script, data) as other:
        name = other.hear()
        other.kill()
    with Stratalog(data) as memory:
        chat = memory.session(KEY)
        assert users(chat) == ["important"]
        (left,) = chat.unfinished()
        assert (left.turn, left.started, left.message.text) == (name, True, "important")
        assert chat.next() is None
        assert not chat.abort()
        with chat.start(name, wait=1.0) as turn:
            messages = turn.context().messages()
            assert [message["role"] for message in messages] == [
                "user", "assistant", "tool", "assistant", "tool",
            ]  # fmt: skip
            assert messages[2]["content"] == "found"
            assert "interrupted" in messages[4]["content"]
            turn.reply("resumed")
        assert users(chat) == ["important"]
        assert chat.unfinished() == []


def test_a_new_turn_closes_what_a_crash_cut_short(data: Path) -> None:
    """Without a resumption the next turn ends the cut one as interrupted, before its own start."""
    with child(OPEN + 'turn = chat.turn("cut"); say(turn.id); hear()', data) as other:
        name = other.hear()
        other.kill()
    with Stratalog(data) as memory:
        chat = memory.session(KEY)
        with chat.turn("new", wait=1.0) as turn:
            turn.reply("r")
        assert kinds(chat) == [
            "user",
            "turn_start",
            "turn_end",
            "user",
            "turn_start",
            "assistant",
            "turn_end",
        ]
        end = next(entry for entry in chat.entries() if isinstance(entry, TurnEnd))
        assert (end.turn, end.status) == (name, "interrupted")


def test_killed_while_messages_wait(data: Path) -> None:
    """A crash loses neither the messages that wait nor their order; they are delivered afterwards, once."""
    script = (
        OPEN
        + """
turn = chat.turn("first")
chat.submit("second")
chat.submit("third")
say("ready")
hear()
"""
    )
    with child(script, data) as other:
        other.hear()
        other.kill()
    with Stratalog(data) as memory:
        chat = memory.session(KEY)
        assert [(turn.message.text, turn.started) for turn in chat.unfinished()] == [
            ("first", True), ("second", False), ("third", False),
        ]  # fmt: skip
        got = []
        while (turn := chat.next(wait=1.0)) is not None:
            with turn:
                got.append(turn.message.text)
                turn.reply("r")
        assert got == ["second", "third"]
    with Stratalog(data) as memory:
        assert memory.session(KEY).unfinished() == []


def test_closing_what_a_crash_left(data: Path) -> None:
    """`close_unfinished` ends every open turn as interrupted, unless one runs."""
    script = OPEN + 'turn = chat.turn("first"); chat.submit("second"); say("ready"); hear()'
    with Stratalog(data) as memory, child(script, data) as other:
        other.hear()
        chat = memory.session(KEY)
        with pytest.raises(SessionBusy):
            chat.close_unfinished()
        other.kill()
        give_up = time.monotonic() + 1.0
        while True:
            try:
                closed = chat.close_unfinished()
                break
            except SessionBusy:
                assert time.monotonic() < give_up
        assert len(closed) == 2
        assert chat.unfinished() == []


@pytest.mark.parametrize("point", ["meta.written", "meta.renamed"])
def test_killed_while_meta_is_written(data: Path, point: str) -> None:
    """A crash in the middle of writing meta.json leaves a session that loads, with nothing lost."""
    script = (
        OPEN
        + f"""
chat.turn("hello").end("interrupted")
arm("{point}")
chat.set_title("Named")
"""
    )
    with child(script, data) as other:
        assert other.end() == -9
    with Stratalog(data) as memory:
        chat = memory.session(KEY)
        assert (chat.meta.title, chat.meta.title_by) == ("Named", "user")
        assert [meta.title for meta in memory.sessions().sessions] == ["Named"]
        assert memory.doctor(repair=True).healthy


@pytest.mark.parametrize("point", ["create.written", "create.renamed", "append.written"])
def test_killed_while_a_message_is_written(data: Path, point: str) -> None:
    """Whatever a crash left of the first message, list, search and log agree about it afterwards."""
    with child(OPEN + f'arm("{point}"); chat.submit("harbour"); say("lived")', data) as other:
        if point == "append.written":
            assert other.hear() == "lived"
        else:
            assert other.end() == -9
    with Stratalog(data) as memory:
        chat = memory.session(KEY)
        listed = [meta.key for meta in memory.sessions().sessions]
        assert bool(listed) == chat.exists
        assert bool(memory.search("harbour")) == chat.exists
        chat.submit("again")
        assert users(chat)[-1] == "again"


@pytest.mark.parametrize("point", ["delete.renamed", "delete.archive", "delete.done"])
def test_killed_while_a_session_is_deleted(data: Path, point: str) -> None:
    """A deletion that a crash cut short is a deletion: not listed, not found, and made again empty."""
    script = (
        OPEN
        + f"""
with chat.turn("harbour") as turn:
    turn.reply("ferry")
chat.set_title("Secret")
assert memory.search("harbour") and memory.sessions().sessions
arm("{point}")
chat.delete()
"""
    )
    with child(script, data) as other:
        assert other.end() == -9
    with Stratalog(data) as memory:
        chat = memory.session(KEY)
        assert memory.sessions().sessions == ()
        assert memory.search("harbour") == []
        assert not chat.exists
        chat.submit("hello")
        assert (chat.meta.title, chat.meta.messages) == ("hello", 1)


# --- two processes, one session ---


def test_two_processes_take_turns(data: Path) -> None:
    """Alternating between processes, each sees what the other wrote, and no branch is lost."""
    script = (
        OPEN
        + """
while (word := hear()) != "stop":
    with chat.turn(word) as turn:
        said = [message["content"] for message in turn.context(100_000).messages()]
        turn.reply(" ".join(said))
    say("done")
"""
    )
    with Stratalog(data) as memory, child(script, data) as other:
        chat = memory.session(KEY)
        expected: list[str] = []
        for number in range(6):
            if number % 2:
                with chat.turn(f"m{number}") as turn:
                    said = [str(message["content"]) for message in turn.context(100_000).messages()]
                    turn.reply(" ".join(said))
            else:
                other.tell(f"m{number}")
                assert other.hear() == "done"
            expected += [f"m{number}"]
            expected += [" ".join(expected)]
        other.tell("stop")
        assert [entry.text for entry in chat.entries() if isinstance(entry, User | Assistant)] == expected
        assert [meta.messages for meta in memory.sessions().sessions] == [12]


def test_a_second_process_is_refused_while_a_turn_runs(data: Path) -> None:
    """While one process runs a turn the other's is refused before it writes, with who holds it."""
    with Stratalog(data) as memory, child(OPEN + 'hear(); tried(chat.turn_now, "mine")', data) as other:
        chat = memory.session(KEY)
        with chat.turn("ours") as turn:
            other.tell()
            assert other.hear() == "SessionBusy"
            turn.reply("r")
        assert users(chat) == ["ours"]


def test_turns_from_four_processes_are_all_there(data: Path) -> None:
    """Four processes with ten turns each: every turn once, whole, none interleaved, gap-free."""
    script = (
        OPEN
        + """
for number in range(10):
    with chat.turn(f"{sys.argv[2]}-{number}") as turn:
        turn.reply(f"{sys.argv[2]}-{number}")
say("done")
"""
    )
    others = [Child(script, data, name) for name in "abcd"]
    try:
        for other in others:
            assert other.hear() == "done"
    finally:
        for other in others:
            other.kill()
    with Stratalog(data) as memory:
        chat = memory.session(KEY)
        assert sorted(users(chat)) == sorted(f"{name}-{number}" for name in "abcd" for number in range(10))
        entries = list(chat.entries())
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        not_interleaved(entries)
        assert chat.unfinished() == []
        assert chat.meta.messages == 80


def test_a_stopped_process_loses_its_turn_and_cannot_write_on_waking(data: Path) -> None:
    """A SIGSTOPped holder loses the session at its deadline; awake, every write of it is refused with the
    typed error, and nothing of it is interleaved."""
    script = (
        OPEN
        + """
turn = chat.turn("theirs", deadline=0.5)
turn.call("t", call_id="c")
say("holds")
hear()
tried(turn.result, "c", "late")
tried(turn.reply, "later")
tried(turn.end)
say(turn.lost)
tried(chat.turn, "mine again", wait=0)
hear()
tried(chat.turn, "and again", wait=20)
"""
    )
    with Stratalog(data) as memory, child(script, data) as other:
        assert other.hear() == "holds"
        other.stop()
        chat = memory.session(KEY)
        turn = chat.turn("ours", wait=20)
        other.go_on()
        other.tell()
        assert [other.hear() for _ in range(4)] == ["StaleFence", "TurnClosed", "TurnClosed", "taken"]
        assert other.hear() == "SessionBusy"
        turn.reply("r")
        turn.end()
        other.tell()
        assert other.hear() == "done"
        written = kinds(chat)[:9]
        assert written[:6] == ["user", "turn_start", "tool_call", "user", "turn_end", "turn_start"]
        assert sorted(written[6:]) == ["assistant", "turn_end", "user"]
        end = next(entry for entry in chat.entries() if isinstance(entry, TurnEnd))
        assert end.status == "timed_out"
        not_interleaved(list(chat.entries()))


def test_an_abort_reaches_another_process(data: Path) -> None:
    """A turn of another process is aborted from here: the session is free at once, its late writes are
    refused, and what it wrote stays."""
    script = (
        OPEN
        + """
turn = chat.turn("theirs")
turn.call("t", call_id="c")
say("holds")
hear()
tried(turn.result, "c", "late")
tried(turn.end)
"""
    )
    with Stratalog(data) as memory, child(script, data) as other:
        assert other.hear() == "holds"
        chat = memory.session(KEY)
        assert chat.abort()
        with chat.turn("ours", wait=0) as turn:
            other.tell()
            assert other.hear() == "StaleFence"
            assert other.hear() == "TurnClosed"
            turn.reply("r")
        end = next(entry for entry in chat.entries() if isinstance(entry, TurnEnd))
        assert end.status == "aborted"
        assert "tool_result" not in kinds(chat)
        assert not list(data.rglob("*.lock"))


def test_a_restart_reaches_another_process(data: Path) -> None:
    """A busy session of another process asks to be confirmed; then its turn is refused, the history anew."""
    script = (
        OPEN + 'turn = chat.turn("theirs"); say("holds"); hear(); tried(turn.reply, "late"); tried(turn.end)'
    )
    with Stratalog(data) as memory, child(script, data) as other:
        assert other.hear() == "holds"
        chat = memory.session(KEY)
        assert not chat.restart().done
        assert chat.restart().done
        other.tell()
        assert other.hear() == "StaleFence"
        assert other.hear() == "TurnClosed"
        assert kinds(chat) == ["note"]
        assert chat.unfinished() == []
        with chat.turn("new", wait=0) as turn:
            turn.reply("r")


def test_deleted_by_another_process_and_made_again(data: Path) -> None:
    """A session that another process deletes, and makes again as long as it was, is the new one here: its
    title, its turns, its list entry and what is found."""
    script = (
        OPEN
        + """
hear()
chat.delete()
chat.submit("quarry")
chat.submit("granite")
say("made")
hear()
"""
    )
    with Stratalog(data) as memory, child(script, data) as other:
        chat = memory.session(KEY)
        chat.submit("harbour")
        chat.pin()
        assert (chat.meta.title, chat.meta.pinned, chat.meta.seq) == ("harbour", True, 2)
        assert memory.search("harbour")
        other.tell()
        assert other.hear() == "made"
        assert (chat.meta.title, chat.meta.pinned, chat.meta.seq) == ("quarry", False, 2)
        assert [turn.message.text for turn in chat.unfinished()] == ["quarry", "granite"]
        (listed,) = memory.sessions().sessions
        assert (listed.title, listed.pinned) == ("quarry", False)
        assert memory.search("harbour") == []
        assert [found.hit.snippet for found in memory.search("granite")] == ["granite", "quarry"]


def test_the_holder_of_a_session_deleted_elsewhere_is_refused(data: Path) -> None:
    """A turn whose session another process deleted, and even made again, is refused."""
    with (
        Stratalog(data) as memory,
        child(OPEN + 'hear(); chat.delete(); chat.submit("new"); say("made")', data) as other,
    ):
        chat = memory.session(KEY)
        turn = chat.turn("ours")
        other.tell()
        assert other.hear() == "made"
        with pytest.raises(StaleFence):
            turn.reply("late")
        with pytest.raises(TurnClosed):
            turn.end()
        assert users(chat) == ["new"]


def test_what_another_process_writes_is_found_here(data: Path) -> None:
    """List and search see entries of another process at once, sealed and compressed ones too, and after
    reopening."""
    script = (
        OPEN
        + """
from stratalog.types import Compaction
with chat.turn("the harbour ferry") as turn:
    turn.reply("leaves at nine")
with chat.turn("later") as turn:
    kept = turn.message.id
    turn.reply("yes")
chat.append(Compaction(summary="about a boat", first_kept=kept))
say("written")
hear()
"""
    )
    with Stratalog(data) as memory:
        assert memory.search("harbour") == []
        with child(script, data) as other:
            assert other.hear() == "written"
            assert list(data.rglob("*.zst"))
            found, *_ = memory.search("harbour", roles=("user",), neighbours=1)
            assert found.hit.snippet == "the harbour ferry"
            assert [entry.seq for entry in found.after] == [2]
            assert [meta.messages for meta in memory.sessions().sessions] == [4]
    with Stratalog(data) as memory:
        assert memory.search("harbour")
        assert any(isinstance(entry, Compaction) for entry in memory.session(KEY).entries())


def test_forks_to_one_key_at_once(data: Path) -> None:
    """Of several that fork to the same key at once, exactly one does; the others are told that it exists."""
    with Stratalog(data) as memory:
        chat = memory.session(KEY)
        with chat.turn("x") as turn:
            turn.reply("y")
        others = [Child(OPEN + 'say("up"); hear(); tried(chat.fork, "a:cli:fork")', data) for _ in range(4)]
        try:
            for other in others:
                assert other.hear() == "up"
            for other in others:
                other.tell()
            assert sorted(other.hear() for other in others) == ["SessionExists"] * 3 + ["done"]
        finally:
            for other in others:
                other.kill()
        assert memory.session("a:cli:fork").meta.generation == 1


def test_a_process_that_ends_without_closing_leaves_the_session_free(data: Path) -> None:
    """Leaving without a word is as good as a crash: the lock goes with the process."""
    with child(OPEN + 'turn = chat.turn("x"); say("holds"); hear(); os._exit(0)', data) as other:
        other.hear()
        other.tell()
        assert other.end() == 0
    with Stratalog(data) as memory:
        turn: Turn = memory.session(KEY).turn("y", wait=1.0)
        turn.end()


def test_nothing_is_left_open_in_a_long_life(data: Path) -> None:
    """Hundreds of sessions with a turn each leave no lock file and no file descriptor behind."""
    with Stratalog(data, settings=Settings(sync="never")) as memory:

        def work(names: range) -> None:
            for number in names:
                with memory.session(f"a:cli:{number}").turn("x") as turn:
                    turn.reply("y")

        work(range(300))
        gc.collect()  # what other tests left must not close its files meanwhile
        before = len(os.listdir("/proc/self/fd"))
        work(range(300, 450))
        assert len(os.listdir("/proc/self/fd")) == before
        assert not list(data.rglob("*.lock"))


def test_many_tenants_do_not_use_up_the_files(data: Path) -> None:
    """A server of more tenants than a process may open files still serves each."""
    with Stratalog(data, settings=Settings(sync="never")) as memory:
        for number in range(100):
            tenant = memory.as_tenant(f"t{number}")
            tenant.session(KEY).submit(f"harbour {number}")
            assert len(tenant.search("harbour")) == 1
        assert len(os.listdir("/proc/self/fd")) < 64 * 8 + 120 + 100
        first = memory.as_tenant("t0")
        assert len(first.search("harbour")) == 1


def test_conflict_is_one_kind_for_callers(data: Path) -> None:
    """Whoever loses a session learns it by a `Conflict`, whichever way it was lost."""
    assert all(issubclass(kind, Conflict) for kind in (SessionBusy, StaleFence, TurnClosed))
