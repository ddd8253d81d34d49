"""What is said of a session itself: it is never lost, for words might leave then that must not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from stratalog.config import Settings
from stratalog.engine.compaction import compact_now, preset
from stratalog.engine.continuing import Inherit, continue_from
from stratalog.engine.core import Stratalog
from stratalog.engine.session import Session
from stratalog.errors import InvalidInput
from stratalog.interop.export import to_jsonl
from stratalog.interop.ingest import import_files
from stratalog.keys import session_paths
from stratalog.types import Note, User

KEY = "a:cli:me"
TOLD = {"residency": "local_only", "memory_plugin": "mem0"}
Path_ = Callable[[Stratalog, Session], Session]


def talk(session: Session, turns: int = 3) -> None:
    for number in range(turns):
        with session.turn(f"{number}: " + "Ana lives in Lisbon. " * 60) as turn:
            turn.reply("I noted it. " * 60)


def restarted(memory: Stratalog, session: Session) -> Session:
    assert session.restart().done
    return session


def forked(memory: Stratalog, session: Session) -> Session:
    return session.fork("a:cli:fork")


def forked_early(memory: Stratalog, session: Session) -> Session:
    first = next(iter(session.entries()))
    return session.fork("a:cli:early", at=first.id)


def compacted(memory: Stratalog, session: Session) -> Session:
    compact_now(session, policy=preset("default", 2_000), force=True)
    return session


def rebuilt(memory: Stratalog, session: Session) -> Session:
    memory.rebuild()
    return memory.session(session.key)


def talked(memory: Stratalog, session: Session) -> Session:
    talk(session)
    return session


def continuing(inherit: Inherit) -> Path_:
    def continued(memory: Stratalog, session: Session) -> Session:
        return continue_from(memory, session.key, f"a:cli:{inherit}", inherit=inherit).session

    continued.__name__ = f"continued_with_{inherit}"
    return continued


PATHS: list[Path_] = [
    restarted,
    forked,
    forked_early,
    compacted,
    rebuilt,
    talked,
    continuing("history"),
    continuing("summary"),
    continuing("working_memory"),
]


@pytest.mark.parametrize("store", ["jsonl", "sqlite"])
@pytest.mark.parametrize("after", PATHS, ids=lambda path: path.__name__)
@pytest.mark.parametrize("before", [talked, restarted, compacted, forked], ids=lambda path: path.__name__)
def test_what_is_said_of_a_session_stays_with_it(
    data: Path, store: Literal["jsonl", "sqlite"], before: Path_, after: Path_
) -> None:
    """Through every path that makes a session of another or its history anew, twice in a row; in memory,
    opened again, and when all that is derived is made anew."""
    settings = Settings(store=store, sync="never")
    with Stratalog(data, settings=settings) as memory:
        session = memory.session(KEY)
        talk(session)
        session.set_metadata(**TOLD)
        talk(session, 1)
        session = before(memory, session)
        assert session.meta.metadata == TOLD
        if after.__name__ == before.__name__ == "forked":
            return  # the name of the fork is taken
        session = after(memory, session)
        key = session.key
        assert session.meta.metadata == TOLD
    with Stratalog(data, settings=settings) as memory:
        assert memory.session(key).meta.metadata == TOLD
        memory.rebuild()
        assert memory.session(key).meta.metadata == TOLD
    session_paths(data, key).meta.unlink(missing_ok=True)
    with Stratalog(data, settings=settings) as memory:
        assert memory.session(key).meta.metadata == TOLD


def test_what_is_said_later_counts(memory: Stratalog, chat: Session) -> None:
    """A name replaces what it had, and None takes it away; also after a restart, and for a session that has
    no message yet."""
    assert chat.set_metadata(residency="on_prem", run="r").metadata == {"residency": "on_prem", "run": "r"}
    chat.restart()
    told: dict[str, Any] = chat.set_metadata(residency="local_only", run=None).metadata
    assert told == {"residency": "local_only"}
    fork = chat.fork("a:cli:fork")
    chat.set_metadata(residency=None)
    assert (chat.meta.metadata, fork.meta.metadata) == ({}, {"residency": "local_only"})


def test_residency_goes_with_an_export(tmp_path: Path) -> None:
    """Also of a session that was restarted after it was said, before a word is brought in; importing again
    changes nothing, and what is said here already stands."""
    file = tmp_path / "me.jsonl"
    with Stratalog(tmp_path / "one") as memory:
        chat = memory.session("a:cli:me")
        chat.append(User(content="old"))
        chat.set_metadata(residency="local_only", run="r1")
        chat.restart()
        chat.append(User(content="new"))
        lines = to_jsonl(chat.entries(), key=chat.key, title="t", metadata=chat.meta.metadata)
        file.write_bytes(b"".join(lines))
    with Stratalog(tmp_path / "two") as memory:
        made = memory.session("a:cli:me")
        made.set_metadata(run="r2")
        for _ in range(2):
            (done,) = import_files(memory, [file])
            assert done.error is None
            assert made.meta.metadata == {"residency": "local_only", "run": "r2"}
        kinds = [each.kind for each in made.entries() if isinstance(each, Note)]
        assert kinds.count("metadata") == 2


def test_whose_a_session_is_can_be_said_in_one_way(tmp_path: Path) -> None:
    """One user may be given as text; what is no id of a user, a run or an environment is refused."""
    with Stratalog(tmp_path) as memory:
        chat = memory.session("a:cli:me")
        assert chat.set_metadata(users="ana").metadata["users"] == ["ana"]
        for wrong in (
            {"users": 7},
            {"users": ["a", 7]},
            {"users": ["a/b"]},
            {"environment": "x/y"},
            {"run": ".."},
        ):
            with pytest.raises(InvalidInput):
                chat.set_metadata(**wrong)
        assert chat.meta.metadata == {"users": ["ana"]}
