"""engine/session.py: restart, fork, abort, title, context: what a session's user has."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context.histories import chat_is_strict, histories
from engine.threads import together
from stratalog.config import Settings
from stratalog.engine.core import Stratalog, default_data
from stratalog.engine.session import Session
from stratalog.errors import (
    Conflict,
    ContextOverflow,
    InvalidConfig,
    InvalidKey,
    NotFound,
    SessionBusy,
    SessionExists,
    StratalogError,
    TurnClosed,
)
from stratalog.ids import new_ulid
from stratalog.keys import session_paths
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    Image,
    Note,
    System,
    Text,
    ToolCall,
    User,
    WorkingMemory,
)


class Clock:
    """A clock that goes only when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def talk(chat: Session, *messages: str) -> None:
    for message in messages:
        with chat.turn(message) as turn:
            turn.reply(f"re {message}")


def contents(chat: Session) -> list[object]:
    return [message["content"] for message in chat.context(100_000).messages()]


# --- restart ---


def test_a_restart_begins_the_history_anew(memory: Stratalog, chat: Session) -> None:
    """Nothing of before is in context or current entries; all of it is in the archive; title and pin stay."""
    talk(chat, "one", "two")
    chat.append(WorkingMemory(op="set", key="k", value=1), System(content="old system"))
    chat.pin()
    chat.submit("waits")
    assert chat.restart().done
    assert [str(entry.__struct_config__.tag) for entry in chat.entries()] == ["note"]
    assert contents(chat) == []
    assert chat.next() is None
    assert any(isinstance(entry, User) and entry.text == "one" for entry in chat.entries(generations="all"))
    assert (chat.meta.title, chat.meta.pinned, chat.meta.messages) == ("one", True, 0)
    assert chat.meta.working_memory == {}
    talk(chat, "three")
    assert contents(chat) == ["three", "re three"]
    assert chat.meta.title == "one"


def test_a_restart_of_a_busy_session_is_confirmed(data: Path) -> None:
    """The first call asks, the second within 30 s does it and aborts the turn; later it asks again."""
    clock = Clock()
    with Stratalog(data, clock=clock) as memory:
        chat = memory.session("a:cli:me")
        turn = chat.turn("x")
        asked = chat.restart()
        assert (asked.done, asked.confirm_within) == (False, 30.0)
        clock.now += 31
        assert not chat.restart().done
        clock.now += 29
        assert chat.restart().done
        assert turn.lost == "restarted"
        with pytest.raises(TurnClosed):
            turn.reply("late")
        assert (chat.status, chat.unfinished()) == ("idle", [])
        following = chat.turn("y", wait=0)
        assert chat.restart(force=True).done
        assert following.lost == "restarted"
        assert chat.restart().done  # nothing runs: nothing to confirm


def test_a_crashed_turn_does_not_make_a_restart_ask(data: Path) -> None:
    """A turn that was cut short does not run any more, so that a restart simply takes place."""
    with Stratalog(data) as memory:
        memory.session("a:cli:me").turn("x")
    with Stratalog(data) as memory:
        chat = memory.session("a:cli:me")
        assert len(chat.unfinished()) == 1
        assert chat.restart().done


# --- fork ---


def test_a_fork_has_the_same_context(memory: Stratalog, chat: Session) -> None:
    """A fork at an entry, by seq or id, has the parent's context there; neither changes the other after."""
    talk(chat, "one", "two", "three")
    entries = list(chat.entries())
    second = next(entry for entry in entries if isinstance(entry, Assistant) and entry.text == "re two")
    for name, at in (("by-seq", second.seq), ("by-id", second.id)):
        fork = chat.fork(f"a:cli:{name}", at=at)
        assert contents(fork) == ["one", "re one", "two", "re two"]
        assert fork.meta.forked_from == str(chat.key)
        assert (fork.meta.title, fork.meta.generation) == ("one", 1)
        talk(fork, "elsewhere")
    assert contents(chat) == ["one", "re one", "two", "re two", "three", "re three"]
    assert fork.fork("a:cli:again").meta.forked_from == str(fork.key)
    assert [meta.title for meta in memory.sessions().sessions] == ["one"] * 4
    assert len(memory.search("elsewhere")) >= 3


def test_a_fork_in_the_middle_of_a_turn(chat: Session) -> None:
    """What was under way there ends as interrupted in the fork; the parent's turn goes on."""
    turn = chat.turn("q")
    turn.call("t", call_id="c")
    chat.submit("waits")
    fork = chat.fork("a:cli:fork")
    assert contents(fork) == contents(chat)
    assert (fork.unfinished(), len(chat.unfinished())) == ([], 2)
    turn.result("c", "found")
    turn.reply("r")
    turn.end()
    talk(fork, "mine")
    assert contents(chat)[-2:] == ["r", "waits"]


def test_a_fork_before_a_compaction(chat: Session) -> None:
    """A fork from before a compaction has the history that the compaction replaced, whole."""
    talk(chat, "one", "two")
    last = chat.meta.seq
    chat.append(Compaction(summary="short", first_kept=""))
    assert contents(chat) == ["Summary of the conversation so far:\nshort"]
    assert contents(chat.fork("a:cli:fork", at=last)) == ["one", "re one", "two", "re two"]
    assert contents(chat.fork("a:cli:now")) == contents(chat)


def test_a_forks_payloads_are_its_own(memory: Stratalog, chat: Session) -> None:
    """Large payloads are in the fork too, and stay when the parent is deleted."""
    text, image = "好" * 50_000, os.urandom(200_000)
    chat.append(
        User(content=text), User(content=(Text(text="see"), Image(media_type="image/png", data=image)))
    )
    fork = chat.fork("a:cli:fork")
    assert chat.delete()
    found = [entry for entry in fork.entries() if isinstance(entry, User)]
    assert found[0].content == text
    assert isinstance(found[1].content, tuple)
    picture = found[1].content[1]
    assert isinstance(picture, Image)
    assert picture.data == image


def test_a_fork_of_a_damaged_payload_keeps_the_rest(memory: Stratalog, chat: Session, data: Path) -> None:
    """Where a payload is damaged the fork has what is at hand, marked, and the problem is told."""
    chat.append(User(content="x" * 100_000), User(content="whole"))
    chat.fork("a:cli:sound")
    for path in session_paths(data, chat.key).blobs.iterdir():
        path.write_bytes(b"damaged")
    fork = chat.fork("a:cli:fork")
    first, second, _ = fork.entries()
    assert isinstance(first, User)
    assert isinstance(second, User)
    assert (first.meta, first.text[:3], second.text) == ({"damaged": True}, "xxx", "whole")
    assert memory.problems
    assert memory.session("a:cli:sound").context(100_000).tokens > 1000
    chat.delete()  # or the fixture would find the damage


def test_forks_that_are_refused(memory: Stratalog, chat: Session) -> None:
    """No such entry, a key that is taken, and another tenant's key: typed errors, nothing made."""
    talk(chat, "one")
    talk(memory.session("a:cli:other"), "two")
    with pytest.raises(NotFound):
        chat.fork("a:cli:fork", at=999)
    with pytest.raises(NotFound):
        chat.fork("a:cli:fork", at="nothing")
    with pytest.raises(SessionExists):
        chat.fork("a:cli:other")
    with pytest.raises(SessionExists):
        chat.fork(chat.key)
    with pytest.raises(InvalidKey):
        chat.fork("elsewhere/a:cli:fork")
    assert len(memory.sessions().sessions) == 2
    assert not memory.session("a:cli:fork").exists


def test_a_fork_to_a_busy_key_is_refused_at_once(memory: Stratalog, chat: Session) -> None:
    """A target with a running turn is taken: the fork does not wait for it."""
    talk(chat, "one")
    turn = memory.session("a:cli:busy").turn("x")
    with pytest.raises(SessionExists):
        chat.fork("a:cli:busy")
    turn.end()


def test_a_fork_to_another_agent_has_that_agents_settings(data: Path) -> None:
    """The fork is the other agent's session, with its budget."""
    (data / "local" / "agents" / "small").mkdir(parents=True)
    (data / "local" / "agents" / "small" / "agent.toml").write_text("context_budget = 1\n")
    with Stratalog(data) as memory:
        chat = memory.session("a:cli:me")
        talk(chat, "hello there")
        with pytest.raises(ContextOverflow):
            chat.fork("small:cli:me").context()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries=histories(most=18), data=st.data())
def test_the_context_of_any_fork_is_the_parents_there(
    tmp_path: Path, entries: list[AnyEntry], data: st.DataObject
) -> None:
    """For any history with compactions, sealed as they come, and any entry: the fork's context there is what
    the parent's was when that entry was its last, for every budget."""
    budgets = (100_000, 60)
    with Stratalog(tmp_path / os.urandom(8).hex(), settings=Settings(sync="never")) as memory:
        chat = memory.session("a:cli:me")
        seen: dict[int, list[object]] = {}
        for entry in entries:
            (stored,) = chat.append(entry)
            seen[stored.seq] = [tried(chat, budget) for budget in budgets]
        if not entries:
            return
        for at in {data.draw(st.sampled_from(sorted(seen))), max(seen)}:
            fork = chat.fork(f"a:cli:fork-{at}", at=at)
            assert [tried(fork, budget) for budget in budgets] == seen[at]
            again = fork.fork(f"a:cli:again-{at}")
            assert [tried(again, budget) for budget in budgets] == seen[at]


def test_what_was_withdrawn_is_seen_nowhere_again(tmp_path: Path) -> None:
    """Not by another process, after a compaction, nor in a fork; the log and a search have it still."""
    with Stratalog(tmp_path) as memory, Stratalog(tmp_path) as other:
        chat = memory.session("a:cli:me")
        rule, said, *_ = chat.append(
            System(content="obey"),
            User(content="the zebra"),
            Assistant(content="striped"),
            User(content="and"),
        )
        there = other.session("a:cli:me")
        assert there.context().messages()[0]["content"] == "obey"
        (note,) = chat.withdraw(rule, said, meta={"by": "test"})
        assert (note.meta, chat.withdraw()) == ({"by": "test"}, [])
        seen = [{"role": "assistant", "content": "striped"}, {"role": "user", "content": "and"}]
        for session in (chat, there, chat.fork("a:cli:fork")):
            assert [entry.text for turn in session.view().turns for entry in turn.entries] == [
                "striped",
                "and",
            ]
            assert session.context().messages()[-2:] == seen
        assert [entry.text for entry in chat.entries() if isinstance(entry, User)] == ["the zebra", "and"]
        assert said.id in [found.hit.entry_id for found in memory.search("zebra")]
        chat.append(Compaction(summary="so far"))
        for session in (chat, there, chat.fork("a:cli:after"), memory.session("a:cli:me")):
            assert session.view().system == ()
    with Stratalog(tmp_path) as memory:
        assert memory.session("a:cli:me").view().system == ()


def test_a_message_that_waits_can_be_withdrawn(chat: Session) -> None:
    """Nobody takes it up any more."""
    arrival = chat.submit("never mind")
    chat.withdraw(arrival.message)
    assert chat.unfinished() == []
    assert chat.next() is None
    assert chat.view().turns == ()


def test_who_holds_a_session_can_be_waited_for(chat: Session) -> None:
    """`held` waits as long as it is told, and raises `SessionBusy` then."""
    turn = chat.turn("one")
    with pytest.raises(SessionBusy), chat.held(wait=0.01):
        pass
    turn.end()
    with chat.held(wait=0.01) as fence:
        assert fence == chat.fence


def test_a_fork_keeps_the_order_of_messages_that_wait(tmp_path: Path) -> None:
    """Also where a summary covers the message that opened one of the turns."""
    first, second = new_ulid(), new_ulid()
    with Stratalog(tmp_path) as memory:
        chat = memory.session("a:cli:me")
        chat.append(User(content="u1", turn=first), Compaction(summary="so far"))
        chat.append(User(content="u2", turn=second), User(content="u3", turn=first))
        texts = [message["content"] for message in chat.context(1000).messages()[1:]]
        assert texts == ["u2", "u3"]
        fork = chat.fork("a:cli:fork")
        assert fork.context(1000).messages() == chat.context(1000).messages()


def tried(chat: Session, budget: int) -> object:
    try:
        context = chat.context(budget)
    except ContextOverflow as error:
        return error.what
    assert context.tokens <= budget
    messages = context.messages()
    chat_is_strict(messages)
    return messages


# --- context ---


def test_a_context_shows_payloads_whole(chat: Session) -> None:
    """A message, a picture, arguments and a summary that are kept out of line are in the context whole."""
    text, image, args = "word " * 30_000, os.urandom(100_000), {"path": "x" * 100_000}
    chat.append(User(content=text))
    assert contents(chat) == [text]
    chat.append(User(content=(Text(text="see"), Image(media_type="image/png", data=image))))
    chat.append(ToolCall(call_id="c", name="t", args=args))
    _, picture, call, _ = chat.context(200_000).messages()
    assert len(picture["content"][1]["image_url"]["url"]) > 100_000
    assert len(call["tool_calls"][0]["function"]["arguments"]) > 100_000
    chat.append(Compaction(summary=text))
    assert str(contents(chat)[0]).endswith(text)


def test_a_context_of_payloads_keeps_to_its_budget(chat: Session) -> None:
    """The count is of what is shown, also where a payload's beginning told less than the whole."""
    chat.append(User(content="a" * 300 + "好" * 40_000), Assistant(content="ok"), User(content="b"))
    for budget in (50, 20_000, 45_000, 100_000):
        context = chat.context(budget)
        assert context.tokens <= budget
        assert all(not isinstance(entry, User) or entry.blob is None for entry in context.entries)


def test_a_payload_that_is_damaged_does_not_stop_a_context(
    memory: Stratalog, chat: Session, data: Path
) -> None:
    """What can be shown is, and the problem is told."""
    image = Image(media_type="image/png", data=os.urandom(100_000))
    chat.append(User(content=(Text(text="see"), image)), User(content="x" * 100_000))
    for path in session_paths(data, chat.key).blobs.iterdir():
        path.unlink()
    messages = chat.context(100_000).messages()
    assert messages[0]["content"][1] == {"type": "text", "text": "[image not available]"}
    assert messages[1]["content"].startswith("xxx")
    assert memory.problems
    chat.delete()


def test_what_the_system_said_survives_compaction(memory: Stratalog, chat: Session) -> None:
    """The system's messages are in the context however often what is around them was compacted; those of
    before a restart are not."""
    chat.append(System(content="be brief"))
    for number in range(3):
        talk(chat, f"m{number}")
        chat.append(Compaction(summary=f"s{number}"))
    chat.append(System(content="and kind"))
    with Stratalog(memory.data) as other:
        (message,) = other.session("a:cli:me").context(1000, system="You are A.").messages()
    assert message["content"] == (
        "You are A.\n\nbe brief\n\nand kind\n\nSummary of the conversation so far:\ns2"
    )
    chat.restart()
    assert contents(chat) == []


def test_a_budget_is_what_was_said(chat: Session, data: Path) -> None:
    """No budget means the agent's own; 0 means none at all."""
    chat.append(User(content="hello"))
    assert chat.context().budget == Settings().context_budget
    with pytest.raises(ContextOverflow):
        chat.context(0)


def test_reopening_costs_what_the_context_does(chat: Session, memory: Stratalog) -> None:
    """After a compaction a context reads no entry of before it."""
    talk(chat, *(f"m{number}" for number in range(30)))
    chat.append(Compaction(summary="s"))
    talk(chat, "new")
    seen: list[int] = []
    read = memory.store.read

    def counted(*args: object, **how: object) -> object:
        reading = read(*args, **how)  # type: ignore[arg-type] # passed on as they came
        entries = reading._entries
        reading._entries = (seen.append(entry.seq) or entry for entry in entries)  # type: ignore[func-returns-value] # for its effect
        return reading

    memory.store.read = counted  # type: ignore[method-assign, assignment] # to watch it
    assert len(chat.context().messages()) == 3
    assert min(seen) > 100


# --- title, pin, settings ---


def test_titles(chat: Session) -> None:
    """A title by the user stays; a session must be there to be named or pinned."""
    with pytest.raises(NotFound):
        chat.set_title("x")
    talk(chat, "[channel: cli] hello there")
    assert chat.meta.title == "hello there"
    assert chat.set_title("A model's", by="model").title == "A model's"
    assert chat.set_title(" Mine\n ").title == "Mine"
    assert chat.set_title("Auto", by="auto").title == "Mine"
    assert chat.pin().pinned
    assert not chat.pin(False).pinned


def test_settings_are_per_agent(data: Path) -> None:
    """`agent.toml` overrides for its agent alone; wrong settings are typed errors that name the file."""
    data.mkdir()
    (data / "stratalog.toml").write_text('title_length = 10\nsync = "never"\n')
    agents = data / "local" / "agents"
    for name, text in (
        ("a", "title_length = 5\n"),
        ("typo", "titel_length = 5\n"),
        ("store", 'store = "sqlite"\n'),
    ):
        (agents / name).mkdir(parents=True)
        (agents / name / "agent.toml").write_text(text)
    with Stratalog(data) as memory:
        for agent, title in (("a", "abcd…"), ("b", "abcdefghi…")):
            memory.session(f"{agent}:cli:me").submit("abcdefghijklmnop")
            assert memory.session(f"{agent}:cli:me").meta.title == title
        for agent in ("typo", "store"):
            with pytest.raises(InvalidConfig) as caught:
                memory.session(f"{agent}:cli:me")
            assert caught.value.where["path"] == str(agents / agent / "agent.toml")


def test_deadlines_are_per_agent(data: Path) -> None:
    """A turn may hold its session as long as its agent's settings say."""
    (data / "local" / "agents" / "quick").mkdir(parents=True)
    (data / "local" / "agents" / "quick" / "agent.toml").write_text("lock_deadline = 0.01\n")
    with Stratalog(data) as memory:
        hung = memory.session("quick:cli:me").turn("x")
        with memory.session("quick:cli:me").turn("y", wait=20) as turn:
            turn.reply("z")
        assert hung.lost == "timed_out"


def test_keys_of_a_memory(memory: Stratalog) -> None:
    """A key without a tenant is this memory's, one of another tenant is refused, nonsense too."""
    assert str(memory.session("a:b:c").key) == "local/a:b:c"
    assert str(memory.as_tenant("t").session("a:b:c").key) == "t/a:b:c"
    for key in ("other/a:b:c", "a:b", "", "../x:b:c", "a:b:c/../d"):
        with pytest.raises(InvalidKey):
            memory.session(key)


def test_the_data_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`STRATALOG_DATA` names it, else the platform does."""
    monkeypatch.setenv("STRATALOG_DATA", str(tmp_path))
    assert default_data() == tmp_path
    monkeypatch.delenv("STRATALOG_DATA")
    assert default_data().name == "stratalog"


def test_ten_thousand_sessions_leave_memory(data: Path) -> None:
    """After their time to live sessions are not in memory; their files stay, and they come back whole."""
    clock = Clock()
    with Stratalog(data, clock=clock, settings=Settings(sync="never")) as memory:
        for number in range(300):
            memory.session(f"a:cli:{number}").submit(f"m{number}")
        clock.now += 3601
        assert memory.sweep() == 300
        assert memory.sweep() == 0
        assert memory.session("a:cli:7").meta.title == "m7"
        assert [turn.message.text for turn in memory.session("a:cli:7").unfinished()] == ["m7"]


def test_a_session_that_was_deleted_gets_no_file_when_it_leaves_memory(data: Path) -> None:
    """Another process's deletion is not undone by what this one still knows."""
    clock = Clock()
    with Stratalog(data, clock=clock) as memory, Stratalog(data) as other:
        chat = memory.session("a:cli:me")
        chat.submit("secret")
        assert chat.meta.title == "secret"
        assert other.session("a:cli:me").delete()
        clock.now += 3601
        assert memory.sweep() == 1
        assert list(data.rglob("*.meta.json")) == []


def test_writers_and_deleters_leave_nothing_behind(data: Path) -> None:
    """While threads write turns and one deletes the session, each write is there or refused, and after a
    last deletion no file of the session is left."""
    with Stratalog(data, settings=Settings(sync="never")) as memory:
        chat = memory.session("a:cli:me")
        stop = threading.Event()
        refused: list[StratalogError] = []

        def write() -> None:
            while not stop.is_set():
                try:
                    with memory.session("a:cli:me").turn("x") as turn:
                        turn.reply("y")
                    memory.session("a:cli:me").append(Note(kind="n"))
                except (Conflict, NotFound) as error:  # the latter: deleted while it waited
                    refused.append(error)

        def delete() -> None:
            for _ in range(30):
                chat.delete()
                memory.sessions()
            stop.set()

        together(write, write, write, delete)
        chat.delete()
        assert list(data.rglob("*~me*")) == []
        assert memory.sessions().sessions == ()
        assert memory.search("x") == []
