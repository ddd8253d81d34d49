"""engine/core.py: what a data directory keeps in memory is bounded, and costs nothing to lose."""

from __future__ import annotations

from pathlib import Path

import msgspec

from stratalog.config import Settings
from stratalog.engine.core import Lately, Stratalog
from stratalog.engine.session import Session
from stratalog.keys import session_key, session_paths
from stratalog.sessions.meta import decode_meta
from stratalog.types import Assistant


def talk(chat: Session, number: int) -> None:
    with chat.turn(f"question {number}") as turn:
        turn.reply(f"answer {number}")


def test_sessions_that_leave_memory_between_turns_go_on_unharmed(data: Path) -> None:
    """With room for one session of three, turns, contexts and lists are what they are with room for all."""
    names = [f"a:cli:{name}" for name in ("x", "y", "z")]
    with Stratalog(data, settings=Settings(live_sessions=1)) as small:
        for number in range(4):
            for name in names:
                chat = small.session(name)
                talk(chat, number)
                assert len(chat.context(2_000).shown()) == 2 * (number + 1)
                assert len(small._shared.manager) == 1
        seen = [small.session(name).context(2_000).shown() for name in names]
    with Stratalog(data) as large:
        assert [large.session(name).context(2_000).shown() for name in names] == seen
        assert [meta.messages for meta in large.sessions().sessions] == [8, 8, 8]
        assert len(large._shared.manager) == 3


def test_a_session_that_is_held_stays_and_goes_on(data: Path) -> None:
    """A turn that is under way is not disturbed by what others use meanwhile, and its session is let go
    after it."""
    with Stratalog(data, settings=Settings(live_sessions=1, live_bytes=1)) as memory:
        chat = memory.session("a:cli:held")
        with chat.turn("question") as turn:
            for number in range(3):
                talk(memory.session(f"a:cli:{number}"), number)
            assert chat.status == "processing"
            turn.reply("answer")
        talk(memory.session("a:cli:other"), 0)
        assert memory._shared.manager.find(chat.key) is None
        assert [each.text for each in chat.entries() if isinstance(each, Assistant)] == ["answer"]
        assert chat.unfinished() == []


def test_what_is_known_of_a_session_is_saved_when_it_leaves_memory(data: Path) -> None:
    """Meta that no turn's end has written is written when its session is let go for want of room."""
    with Stratalog(data, settings=Settings(live_sessions=1)) as memory:
        memory.session("a:cli:x").submit("It waits.")
        path = session_paths(data, session_key("a", "cli", "x")).meta
        assert not path.exists()
        memory.session("a:cli:y").submit("So does this.")
        saved = decode_meta(path.read_bytes(), "local/a:cli:x")
        assert saved is not None
        assert (saved.seq, saved.messages) == (1, 1)
        assert [turn.message.text for turn in memory.session("a:cli:x").unfinished()] == ["It waits."]


def test_names_of_agents_that_are_thought_up_are_forgotten(data: Path) -> None:
    """An agent's own settings are read once; of agents without any, only the newest names are kept."""
    own = data / "local" / "agents" / "own"
    own.mkdir(parents=True)
    (own / "agent.toml").write_text("title_length = 7\n")
    with Stratalog(data) as memory:
        mine = memory.settings_of("own")
        shared = memory._shared
        assert mine == msgspec.structs.replace(shared.settings, title_length=7)
        shared._plain = Lately(3)
        assert all(memory.settings_of(f"a{number}") is shared.settings for number in range(10))
        assert list(shared._plain) == [("local", f"a{number}") for number in (7, 8, 9)]
        assert memory.settings_of("own") is mine


def test_what_was_put_in_lately() -> None:
    """Of more than three the first that was put in is gone; what is put in again is not a fourth."""
    lately: Lately[str, int] = Lately(3)
    for name in "abacd":
        lately[name] = ord(name)
    assert list(lately.items()) == [("b", 98), ("c", 99), ("d", 100)]
