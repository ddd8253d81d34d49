"""engine/continuing.py: a new session that goes on where another is, begun whole or not at all."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from engine.children import PATIENCE, child
from engine.test_compaction import Script
from engine.threads import together
from stratalog.config import ContinueSettings
from stratalog.engine.continuing import CONTINUE, Continued, continue_async, continue_from, decide
from stratalog.engine.core import Stratalog
from stratalog.engine.session import Session
from stratalog.errors import InvalidInput, InvalidKey, ModelUnavailable, NotFound, SessionExists
from stratalog.sessions.meta import FACT, FORK, Frozen
from stratalog.types import Compaction, Image, Note, System, TurnEnd, User, WorkingMemory

OLD, NEW = "a:cli:old", "a:cli:new"
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@pytest.fixture
def old(memory: Stratalog) -> Session:
    """A session with two turns, working memory and facts."""
    session = memory.session(OLD)
    session.append(System(content="Be brief."))
    talk(session, "My sister Ana lives in Lisbon.", "We decided to ship version 4.2 on Friday.")
    session.append(
        WorkingMemory(op="set", key="task", value={"step": 3}, meta={"by": "model"}),
        WorkingMemory(op="set", key="gone", value=1),
        WorkingMemory(op="delete", key="gone"),
        Note(kind=FACT, text="tea, not coffee", data={"pinned": True}),
    )
    return session


def talk(session: Session, *messages: str) -> None:
    for message in messages:
        with session.turn(message) as turn:
            turn.reply(f"I noted it: {message}")


def said(session: Session) -> list[str]:
    return [
        each.text
        for turn in session.view().turns
        for each in turn.entries
        if isinstance(each, User) and not (each.meta or {}).get("injected")
    ]


def note_of(session: Session) -> Any:
    (found,) = [entry for entry in session.entries() if isinstance(entry, Note) and entry.kind == CONTINUE]
    return found.data


def compactions(session: Session) -> list[Compaction]:
    return [entry for entry in session.entries() if isinstance(entry, Compaction)]


# --- what is inherited ---


@pytest.mark.parametrize(
    ("gap", "inherit"),
    [
        (0, "history"),
        (1_800, "history"),
        (1_800.001, "summary"),
        (86_400, "summary"),
        (86_400.001, "working_memory"),
        (1e12, "working_memory"),
    ],
)
def test_the_gap_decides(gap: float, inherit: str) -> None:
    """Up to half an hour the history, up to a day the summary, later working memory alone."""
    assert decide(gap, ContinueSettings())[0] == inherit


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (0, "last written to 0 seconds ago, which is within 30 minutes"),
        (61, "last written to 1 minute 1 second ago, which is within 30 minutes"),
        (7_384, "last written to 2 hours 3 minutes ago, which is within 1 day"),
        (200_000, "last written to 2 days 7 hours ago, which is more than 1 day"),
    ],
)
def test_it_is_told_why(gap: float, words: str) -> None:
    """The reason has the time and the threshold, in words."""
    assert decide(gap, ContinueSettings())[1].endswith(words)


@pytest.mark.parametrize(
    ("later", "inherit", "gap"),
    [
        (-DAY, "history", 0),
        (30 * MINUTE, "history", 1_800),
        (31 * MINUTE, "summary", 1_860),
        (DAY, "summary", 86_400),
        (25 * HOUR, "working_memory", 90_000),
    ],
)
def test_auto_goes_by_the_last_message(
    memory: Stratalog, old: Session, later: int, inherit: str, gap: float
) -> None:
    """The time counts from the old session's last message; a clock that went backwards counts as none."""
    made = continue_from(memory, OLD, NEW, now=old.meta.updated_at + later)
    assert (made.inherit, made.gap) == (inherit, gap)
    assert note_of(made.session) == {"parent": "local/a:cli:old", "inherit": inherit, "seq": old.end}


def test_the_settings_of_the_new_sessions_agent_count(data: Path) -> None:
    """An agent's own thresholds decide for the sessions that it begins."""
    (data / "local" / "agents" / "b").mkdir(parents=True)
    (data / "local" / "agents" / "b" / "agent.toml").write_text("[continuing]\nhistory = 10\nsummary = 20\n")
    with Stratalog(data) as memory:
        session = memory.session(OLD)
        talk(session, "Hello there.")
        now = session.meta.updated_at + MINUTE
        assert continue_from(memory, OLD, "b:cli:new", now=now).inherit == "working_memory"
        assert continue_from(memory, OLD, NEW, now=now).inherit == "history"


def test_what_is_asked_for_is_inherited_whatever_the_time(memory: Stratalog, old: Session) -> None:
    """Asked for, each kind is had at once and after a year, and the reason says so."""
    for number, kind in enumerate(("history", "summary", "working_memory")):
        for later in (0, 365 * DAY):
            now = old.meta.updated_at + later
            made = continue_from(memory, OLD, f"a:cli:{number}-{later}", inherit=kind, now=now)  # type: ignore[arg-type]
            assert (made.inherit, made.why) == (kind, "it was asked for")


def test_history_is_a_fork_that_says_so(memory: Stratalog, old: Session) -> None:
    """All entries with their ids, what waits given up, then the fork's note and the one of continuing."""
    old.submit("And one that waits.")
    made = continue_from(memory, OLD, NEW, inherit="history")
    new = made.session
    entries, before = list(new.entries()), list(old.entries())
    assert [entry.id for entry in entries[: len(before)]] == [entry.id for entry in before]
    assert isinstance(entries[-3], TurnEnd)
    assert [entry.kind for entry in entries[-2:] if isinstance(entry, Note)] == [FORK, CONTINUE]
    assert said(new) == said(old)
    assert new.meta.forked_from == str(old.key)
    assert (new.meta.working_memory, new.meta.facts) == ({"task": {"step": 3}}, ("tea, not coffee",))
    assert note_of(new)["seq"] == before[-1].seq
    assert made.summary == ""
    again = continue_from(memory, NEW, "a:cli:third", inherit="history").session
    notes = [entry for entry in again.entries() if isinstance(entry, Note) and entry.kind == CONTINUE]
    assert [note.data["parent"] for note in notes] == [str(old.key), str(new.key)]


def test_working_memory_alone(memory: Stratalog, old: Session) -> None:
    """Values, facts and the note are all that the log has; nothing that was said comes along."""
    new = continue_from(memory, OLD, NEW, inherit="working_memory").session
    entries = list(new.entries())
    assert [type(entry) for entry in entries] == [WorkingMemory, Note, Note]
    assert all(entry.meta is None for entry in entries)
    assert (new.meta.working_memory, new.meta.facts) == ({"task": {"step": 3}}, ("tea, not coffee",))
    assert (said(new), new.meta.messages, new.meta.frozen) == ([], 0, Frozen())
    assert new.view().summary is None


def test_a_summary_stands_for_all_that_was_said(memory: Stratalog, old: Session) -> None:
    """The new log begins with memory and facts, then one extractive summary of both turns, and goes on."""
    before = list(old.entries())
    made = continue_from(memory, OLD, NEW, inherit="summary")
    new = made.session
    (entry,) = compactions(new)
    assert [type(each) for each in new.entries()] == [WorkingMemory, Note, Compaction, Note]
    assert "Ana lives in Lisbon" in entry.summary
    assert "version 4.2 on Friday" in entry.summary
    assert (entry.by, made.summary, made.stood_in) == ("extractive", entry.summary, "")
    assert entry.meta is not None
    assert entry.meta["continued_from"] == str(old.key)
    first, last = entry.meta["covers"]
    by_id = {each.id: each for each in before}
    assert isinstance(by_id[first], User)
    assert by_id[first].seq < by_id[last].seq
    assert entry.tokens_before > 0
    assert entry.tokens_after > 0
    frozen = Frozen(working_memory={"task": {"step": 3}}, facts=("tea, not coffee",))
    assert new.meta.frozen == frozen
    talk(new, "Where does she live?")
    summary = new.view().summary
    assert summary is not None
    assert summary.summary == entry.summary
    assert said(new) == ["Where does she live?"]
    assert list(old.entries()) == before


def test_a_summary_goes_on_through_many_sessions(memory: Stratalog, old: Session) -> None:
    """What the first said is known to the third, through a summary of a summary, and to one begun at once."""
    continue_from(memory, OLD, NEW, inherit="summary")
    at_once = continue_from(memory, NEW, "a:cli:at-once", inherit="summary")
    assert at_once.summary == compactions(memory.session(NEW))[0].summary
    talk(memory.session(NEW), "Her dog is called Rex.")
    third = continue_from(memory, NEW, "a:cli:third", inherit="summary")
    for words in ("Lisbon", "Rex", "Friday"):
        assert words in third.summary
    assert third.session.meta.frozen.facts == ("tea, not coffee",)


def test_a_summary_by_a_model(memory: Stratalog, old: Session) -> None:
    """The model is asked once with what was said, and its words stand in the log under its name."""
    script = Script("Ana, the sister, is in Lisbon; 4.2 ships Friday.")
    made = continue_from(memory, OLD, NEW, inherit="summary", summarise=script, by="m-1")
    (entry,) = compactions(made.session)
    assert entry.by == "m-1"
    assert "Ana, the sister, is in Lisbon" in entry.summary
    assert len(script.prompts) == 1
    assert "ship version 4.2" in script.prompts[0]


def test_when_the_model_fails_the_extractive_summariser_stands_in(memory: Stratalog, old: Session) -> None:
    """A model that cannot be had stops nothing, and the log says so."""
    made = continue_from(
        memory, OLD, NEW, inherit="summary", summarise=Script(ModelUnavailable("gone")), by="m-1"
    )
    (entry,) = compactions(made.session)
    assert (entry.by, made.stood_in) == ("extractive", "gone")
    assert entry.meta is not None
    assert entry.meta["stood_in"] == "gone"


def test_nothing_that_words_could_keep_gives_no_summary(memory: Stratalog) -> None:
    """Of a session with a picture, or with working memory alone, there is no compaction, but all the rest."""
    picture = memory.session("a:cli:picture")
    picture.append(User(content=(Image(media_type="image/png", data=b"x"),)))
    values = memory.session("a:cli:values")
    values.append(WorkingMemory(op="set", key="k", value=1))
    for session in (picture, values):
        made = continue_from(memory, session.key, f"{session.key}-2", inherit="summary", summarise=None)
        assert (made.summary, compactions(made.session)) == ("", [])
        assert made.session.meta.working_memory == session.meta.working_memory
        assert note_of(made.session)["inherit"] == "summary"


def test_a_restarted_session_is_continued_from_its_restart(memory: Stratalog, old: Session) -> None:
    """What was before a restart is not inherited in any way."""
    old.restart()
    talk(old, "A new beginning in Oslo.")
    for kind in ("history", "summary", "working_memory"):
        new = continue_from(memory, OLD, f"a:cli:{kind}", inherit=kind).session  # type: ignore[arg-type]
        assert (new.meta.working_memory, new.meta.facts) == ({}, ())
        text = str(list(new.entries()))
        assert "Lisbon" not in text
        assert ("Oslo" in text) == (kind != "working_memory")


def test_in_an_event_loop(memory: Stratalog, old: Session) -> None:
    """The same can be awaited."""

    async def run() -> Continued:
        return await continue_async(memory, OLD, NEW, inherit="summary")

    assert "Lisbon" in asyncio.run(run()).summary


# --- whole or not at all ---


def test_what_is_refused(memory: Stratalog, old: Session) -> None:
    """No such session, a key that is taken, the same key, another tenant's, no such kind: nothing is made."""
    talk(memory.session("a:cli:taken"), "here")
    for old_key, new_key, error in (
        ("a:cli:none", NEW, NotFound),
        (OLD, "a:cli:taken", SessionExists),
        (OLD, OLD, InvalidInput),
        (f"local/{OLD}", OLD, InvalidInput),
        (OLD, "other/a:cli:new", InvalidKey),
        ("other/a:cli:old", NEW, InvalidKey),
        (OLD, "nonsense", InvalidKey),
    ):
        for kind in ("auto", "summary", "working_memory", "history"):
            with pytest.raises(error):
                continue_from(memory, old_key, new_key, inherit=kind)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        continue_from(memory, OLD, NEW, inherit="everything")  # type: ignore[arg-type]
    assert {str(key) for key in memory.store.sessions()} == {"local/a:cli:old", "local/a:cli:taken"}


@pytest.mark.parametrize("kind", ["summary", "working_memory", "history"])
def test_of_several_to_one_key_one_is_made(memory: Stratalog, old: Session, kind: Any) -> None:
    """Threads that continue into the same key at once make it once; the others are told that it exists."""

    told: list[str] = []

    def run() -> None:
        try:
            continue_from(memory, OLD, NEW, inherit=kind)
            told.append("made")
        except SessionExists:
            told.append("exists")

    together(*[run] * 4)
    assert sorted(told) == ["exists"] * 3 + ["made"]
    assert note_of(memory.session(NEW))["inherit"] == kind


def test_one_who_comes_first_while_the_model_thinks_wins(memory: Stratalog, old: Session) -> None:
    """A session that is begun under the new key while the summary is made stays as it is."""

    async def slow(prompt: str) -> str:
        talk(memory.session(NEW), "I was first.")
        return "Ana lives in Lisbon."

    with pytest.raises(SessionExists):
        continue_from(memory, OLD, NEW, inherit="summary", summarise=slow)
    assert said(memory.session(NEW)) == ["I was first."]


def test_what_comes_while_the_model_thinks_is_not_claimed(memory: Stratalog, old: Session) -> None:
    """The note's number is that of the state that was inherited, whatever is said in the meantime."""
    end = old.end

    async def slow(prompt: str) -> str:
        talk(old, "Something later.")
        old.append(WorkingMemory(op="set", key="late", value=1))
        return "Ana lives in Lisbon."

    made = continue_from(memory, OLD, NEW, inherit="summary", summarise=slow)
    assert note_of(made.session)["seq"] == end
    assert made.session.meta.working_memory == {"task": {"step": 3}}
    assert made.gap >= 0


@pytest.mark.parametrize("kind", ["summary", "working_memory", "history"])
@pytest.mark.parametrize(("point", "made"), [("create.written", False), ("create.renamed", True)])
def test_a_kill_leaves_all_of_it_or_nothing(data: Path, kind: str, point: str, made: bool) -> None:
    """Killed before the log has its name, there is no new session and a second try makes it; after, all."""
    with Stratalog(data) as memory:
        session = memory.session(OLD)
        talk(session, "My sister Ana lives in Lisbon.")
        session.append(WorkingMemory(op="set", key="task", value=1))
    script = """
        from stratalog import Stratalog, points
        from stratalog.engine.continuing import continue_from
        memory = Stratalog(sys.argv[1])
        points.arm(sys.argv[2])
        continue_from(memory, "a:cli:old", "a:cli:new", inherit=sys.argv[3])
    """
    with child(script, data, point, kind) as dying:
        assert dying.process.wait(PATIENCE) == -signal.SIGKILL
    with Stratalog(data) as memory:
        new = memory.session(NEW)
        assert new.exists is made
        if not made:
            continue_from(memory, OLD, NEW, inherit=kind)  # type: ignore[arg-type]
        assert note_of(new)["inherit"] == kind
        assert new.meta.working_memory == {"task": 1}
