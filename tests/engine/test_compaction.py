"""engine/compaction.py: one entry or nothing, whatever the summariser does and whoever speaks meanwhile."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.children import child
from models.test_extractive import FACTS
from stratalog.config import Settings
from stratalog.engine.compaction import (
    Compacted,
    Looked,
    Nothing,
    Policy,
    compact,
    compact_now,
    planned,
    preset,
    summariser_of,
)
from stratalog.engine.core import Stratalog
from stratalog.engine.idle import compact_idle
from stratalog.engine.session import Session
from stratalog.errors import CompactionStuck, ModelUnavailable, NotFound, SessionBusy, StaleFence
from stratalog.ids import new_ulid
from stratalog.testing.scripted import Call, Reply, ScriptedModel
from stratalog.tokens.rough import count_entry, count_text
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    System,
    TurnEnd,
    TurnStart,
    User,
    WorkingMemory,
)

SMALL = Policy(window=4_000, keep_turns=3)
_SAID = "check the file again and run the tests then look at output and fix the error in that module"
WORDS = _SAID.split()


def exchange(said: str, answered: str) -> list[AnyEntry]:
    """One whole turn, as the engine logs it."""
    turn = new_ulid()
    return [
        User(id=turn, turn=turn, content=said),
        TurnStart(turn=turn),
        Assistant(turn=turn, content=answered),
        TurnEnd(turn=turn, status="answered"),
    ]


def talk(session: Session, turns: int, *, seed: int = 1, words: int = 55) -> None:
    chance = random.Random(seed)
    entries: list[AnyEntry] = []
    for number in range(turns):
        said = f"Step {number}: {' '.join(chance.choices(WORDS, k=words))}."
        entries += exchange(said, f"Done with {number}: {' '.join(chance.choices(WORDS, k=words))}.")
    session.append(*entries)


class Script:
    """A summariser that answers what it is told, the last for ever; what it was asked is in `prompts`."""

    def __init__(self, *answers: str | BaseException | Callable[[str], str]) -> None:
        self.answers = list(answers)
        self.prompts: list[str] = []

    async def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, str) else answer(prompt)


def raw(session: Session) -> list[AnyEntry]:
    return list(session.entries())


def done(result: Compacted | Nothing) -> Compacted:
    assert isinstance(result, Compacted), result
    return result


def texts(session: Session) -> list[str]:
    return [getattr(entry, "text", "") for turn in session.view().turns for entry in turn.entries]


# --- what is written ---


def test_one_entry_says_what_was_done(chat: Session) -> None:
    """The entry has the range, the tokens before and after, who wrote it and the working memory; what was
    there before is as it was, and the view is the summary and what was kept."""
    talk(chat, 40)
    chat.append(WorkingMemory(op="set", key="branch", value="main", meta={"by": "model"}))
    before = raw(chat)
    made = done(compact_now(chat, policy=SMALL))
    assert raw(chat) == [*before, made.entry]
    entry = made.entry
    assert entry.by == "extractive"
    assert entry.working_memory == {"branch": "main"} == chat.meta.working_memory
    assert (entry.covers, made.covered) == ((before[0].id, before[37 * 4 - 2].id), 74)
    assert entry.tokens_before > SMALL.trigger_at
    context = chat.context(SMALL.window)
    assert context.tokens == entry.tokens_after <= SMALL.target_at
    assert context.summary == entry
    assert len(context.turns) == 3
    assert entry.summary.startswith("Goal:\n- [")


def test_below_the_trigger_nothing_is_written(chat: Session) -> None:
    """A short session is left alone, and one that is not there is not made."""
    with pytest.raises(NotFound):
        compact_now(chat, policy=SMALL)
    assert not chat.exists
    talk(chat, 2)
    before = raw(chat)
    assert isinstance(compact_now(chat, policy=SMALL), Nothing)
    assert raw(chat) == before


def test_a_models_summary_follows_the_users_own_words(chat: Session) -> None:
    """The goal and the standing instructions come first, word for word; then what the model wrote, without
    its reasoning. The log says which model."""
    chat.append(*exchange("Build a parcel tracker for Nordlys.", "Yes."))
    chat.append(*exchange("Never commit to main directly.", "I will not."))
    talk(chat, 40)
    ask = Script("<think>long</think>They built the tracker in small steps.")
    made = done(compact_now(chat, policy=SMALL, summarise=ask, by="gpt-5"))
    ids = [entry.id for entry in raw(chat) if isinstance(entry, User)]
    assert made.entry.by == "gpt-5"
    assert made.stood_in == ""
    assert made.entry.summary == (
        f"Goal:\n- [{ids[0]}] Build a parcel tracker for Nordlys.\n"
        f"Standing instructions:\n- [{ids[1]}] Never commit to main directly.\n"
        "Summary:\nThey built the tracker in small steps."
    )
    talk(chat, 40, seed=2)
    again = done(compact_now(chat, policy=SMALL))
    assert f"- [{ids[1]}] Never commit to main directly." in again.entry.summary
    assert "They built the tracker in small steps." in again.entry.summary


def test_a_real_model_behind_the_contract(chat: Session) -> None:
    """Any model of the contract can be asked; what it thinks is not taken for the summary."""
    talk(chat, 40)
    model = ScriptedModel(lambda request: Reply(text="They took steps.", reasoning="let me see"))
    made = done(compact_now(chat, policy=SMALL, summarise=summariser_of(model, "m-1"), by="m-1"))
    assert made.entry.summary.endswith("Summary:\nThey took steps.")
    assert model.requests[0].model == "m-1"


# --- summaries that fail ---


@pytest.mark.parametrize(
    "answer",
    ["", "   \n", "<think>only this</think>", "## Goal\n[goal]\n## Facts\n- N/A", "again " * 9_000],
    ids=["empty", "spaces", "reasoning", "template", "longer"],
)
def test_a_refused_summary_is_asked_for_once_more_then_stood_in_for(chat: Session, answer: str) -> None:
    """S35, S28, S29: what cannot stand for the history never does; the extractive summariser does, and the
    log says so and why."""
    talk(chat, 30)
    ask = Script(answer)
    made = done(compact_now(chat, policy=SMALL, summarise=ask, by="m"))
    assert made.entry.by == "extractive"
    assert "refused" in made.stood_in
    assert made.entry.meta == {"stood_in": made.stood_in}
    assert len(ask.prompts) == 2
    assert made.entry.summary.startswith("Goal:")


def test_the_second_answer_counts(chat: Session) -> None:
    """One bad answer is forgiven."""
    talk(chat, 30)
    made = done(compact_now(chat, policy=SMALL, summarise=Script("", "They took steps."), by="m"))
    assert made.entry.by == "m"


def test_a_model_that_fails_is_stood_in_for(chat: Session) -> None:
    """A model that cannot be reached costs no compaction."""
    talk(chat, 30)
    made = done(compact_now(chat, policy=SMALL, summarise=Script(ModelUnavailable("down")), by="m"))
    assert (made.entry.by, made.stood_in) == ("extractive", "down")


class PulledOut(BaseException):
    """What no summariser's failure is: it is for whoever runs all this."""


def test_failing_midway_three_times_leaves_the_log_as_it_was(chat: Session) -> None:
    """S23: whatever else fails, nothing is written and the session is free; then it is done once."""
    talk(chat, 30)
    before = raw(chat)
    for _ in range(3):
        with pytest.raises(PulledOut):
            compact_now(chat, policy=SMALL, summarise=Script(PulledOut()))
        assert raw(chat) == before
        assert chat.status == "idle"
    done(compact_now(chat, policy=SMALL))
    assert isinstance(compact_now(chat, policy=SMALL, force=True), Nothing)
    assert raw(chat)[:-1] == before


def test_a_cancelled_compaction_writes_nothing(chat: Session) -> None:
    """Cancelled while the summariser is asked, the log stays and the session is free."""
    talk(chat, 30)
    before = raw(chat)

    async def run() -> None:
        begun = asyncio.Event()

        async def hang(prompt: str) -> str:
            begun.set()
            await asyncio.Event().wait()
            return prompt

        task = asyncio.create_task(compact(chat, policy=SMALL, summarise=hang))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert raw(chat) == before
    with chat.turn_now("free") as turn:
        turn.reply("yes")


@pytest.mark.crash
def test_a_kill_between_the_summary_and_the_append_leaves_the_log(data: Path) -> None:
    """S18, S23: killed -9 with the summary in hand, the log is as before; the next process does it once."""
    with Stratalog(data) as memory:
        talk(memory.session("a:cli:me"), 30)
        before = raw(memory.session("a:cli:me"))
    script = """
import asyncio
from stratalog import Stratalog
from stratalog.engine.compaction import Policy, compact_now
memory = Stratalog(sys.argv[1])
chat = memory.session("a:cli:me")
append = chat.append
def killed(*entries, fence=None):
    say("summary in hand")
    hear()
    return append(*entries, fence=fence)
chat.append = killed
compact_now(chat, policy=Policy(window=4000, keep_turns=3))
"""
    with child(script, data) as other:
        assert other.hear() == "summary in hand"
        other.kill()
    with Stratalog(data) as memory:
        chat = memory.session("a:cli:me")
        assert raw(chat) == before
        done(compact_now(chat, policy=SMALL))
        assert isinstance(compact_now(chat, policy=SMALL), Nothing)


# --- who holds the session, and what arrives meanwhile ---


def test_messages_that_arrive_meanwhile_wait_and_are_taken_once_in_order(data: Path) -> None:
    """S16: submitted when the compaction starts and in its middle, they are durable, still in view after it,
    and taken one after the other, also by a process that begins later."""
    with Stratalog(data) as memory:
        chat = memory.session("a:cli:me")
        talk(chat, 30)
        chat.submit("first")

        def answer(prompt: str) -> str:
            memory.session("a:cli:me").submit("second")
            return "They took steps."

        made = done(compact_now(chat, policy=SMALL, summarise=Script(answer, "They took steps.")))
        assert texts(chat)[-2:] == ["first", "second"]
        assert not {turn.message.id for turn in chat.unfinished()} & {*made.entry.covers}
    with Stratalog(data) as memory:
        chat = memory.session("a:cli:me")
        taken = []
        while (turn := chat.next()) is not None:
            with turn:
                taken.append(turn.message.text)
                turn.reply("yes")
        assert taken == ["first", "second"]
        assert texts(chat)[-4:] == ["first", "yes", "second", "yes"]


def test_a_queue_older_than_what_is_kept_is_offered_to_a_new_process(data: Path) -> None:
    """A message that waited behind many turns is sealed away with them, and yet seen and offered."""
    with Stratalog(data) as memory:
        chat = memory.session("a:cli:me")
        waits = chat.submit("still waiting")
        talk(chat, 30)
        made = done(compact_now(chat, policy=SMALL))
        assert made.entry.kept == (waits.message.id,)
        shown = chat.context(4_000)
        assert list(data.rglob("*.archive/*"))
    with Stratalog(data) as memory:
        chat = memory.session("a:cli:me")
        assert [turn.message.text for turn in chat.unfinished()] == ["still waiting"]
        assert chat.context(4_000) == shown
        assert texts(chat)[-1] == "still waiting"


def test_busy_while_a_turn_runs(chat: Session) -> None:
    """Without the turn's fence a compaction waits for nobody and writes nothing."""
    talk(chat, 30)
    with chat.turn("run") as turn:
        before = raw(chat)
        with pytest.raises(SessionBusy):
            compact_now(chat, policy=SMALL)
        assert raw(chat) == before
        turn.reply("yes")


def test_in_a_running_turn_under_its_fence(chat: Session) -> None:
    """S34: in the middle of a long tool loop the turn's message, its latest rounds, and what waits stay; the
    turn goes on, and its working memory is in the entry."""
    talk(chat, 5)
    with chat.turn("Look at everything.") as turn:
        for number in range(20):
            turn.result(turn.call("read", {"n": number}), f"file {number} " + "line " * 300)
            result = asyncio.run(
                compact(chat, policy=SMALL, fence=turn.fence, looked=Looked(chat.view(), fixed=200))
            )
            context = turn.context(100_000)
            assert context.tokens + 200 < SMALL.window
            assert context.entries[-1].turn == turn.id
            assert any(entry.id == turn.message.id for entry in context.entries)
            if number == 12:
                chat.submit("and then?")
        turn.reply("All read.")
    assert isinstance(result, Compacted | Nothing)
    assert sum(isinstance(entry, Compaction) for entry in raw(chat)) >= 2
    assert [each.message.text for each in chat.unfinished()] == ["and then?"]


def test_a_compaction_whose_session_was_taken_is_refused(chat: Session) -> None:
    """Who held the session with an older fence writes nothing."""
    talk(chat, 30)
    with chat.turn("one") as turn:
        turn.reply("1")
    stale = turn.fence
    with chat.turn("two") as turn:
        turn.reply("2")
    before = raw(chat)
    with pytest.raises(StaleFence):
        asyncio.run(compact(chat, policy=SMALL, fence=stale))
    assert raw(chat) == before


@pytest.mark.parametrize(
    "reply",
    [
        Reply(refusal="I can't help with that."),
        Reply(text="The user wants to", stop="length"),
        Reply(calls=(Call("look", {}),)),
    ],
)
def test_a_reply_that_is_no_whole_summary_is_none(chat: Session, reply: Reply) -> None:
    """A refusal, a reply that was cut, and a call are no summary: the extractive one stands in."""
    talk(chat, 40)
    ask = summariser_of(ScriptedModel(lambda request: reply), "m")
    made = done(asyncio.run(compact(chat, policy=SMALL, summarise=ask, by="m")))
    assert made.entry.by == "extractive"
    assert "no whole reply" in made.stood_in


@pytest.mark.parametrize("error", [ValueError("bad"), TimeoutError(), KeyError("x")])
def test_whatever_a_summariser_raises_another_stands_in(chat: Session, error: Exception) -> None:
    """A summariser is anybody's code: the log says what it raised."""

    async def fails(prompt: str) -> str:
        raise error

    talk(chat, 40)
    made = done(asyncio.run(compact(chat, policy=SMALL, summarise=fails, by="m")))
    assert made.entry.by == "extractive"
    assert made.stood_in.startswith(type(error).__name__)


# --- no progress ---


def test_stuck_twice_is_an_error_until_something_is_said(chat: Session) -> None:
    """S26, S31: the fixed part over the trigger is told once, then raised without work, and tried again
    after new entries."""
    talk(chat, 3)
    policy = Policy(window=32_000)

    def tried() -> Compacted | Nothing:
        return asyncio.run(compact(chat, policy=policy, looked=Looked(chat.view(), fixed=29_000)))

    first = tried()
    assert isinstance(first, Nothing)
    assert first.stuck
    for _ in range(2):
        with pytest.raises(CompactionStuck):
            tried()
    assert not any(isinstance(entry, Compaction) for entry in raw(chat))
    talk(chat, 1)
    with pytest.raises(CompactionStuck, match="never folded"):
        tried()
    assert isinstance(compact_now(chat, policy=policy), Nothing)  # with fewer tools all is well again
    assert isinstance(tried(), Nothing)


def test_passes_that_free_little_stop(chat: Session) -> None:
    """S29: a newest message that fills the window leaves little to free: the second such pass is refused
    before it writes, and no more are tried until something is said."""
    policy = Policy(window=10_000, keep_turns=1)
    for number in range(2):
        chat.append(*exchange("short words here, " * 40, "Done."))
        chat.append(User(turn=f"t{number}", content="word " * 8_600), TurnStart(turn=f"t{number}"))
        before = raw(chat)
        if number == 0:
            made = done(compact_now(chat, policy=policy))
            assert made.entry.tokens_after > 0.9 * made.entry.tokens_before
        else:
            with pytest.raises(CompactionStuck, match="frees"):
                compact_now(chat, policy=policy)
            assert raw(chat) == before
    ask = Script("unasked")
    with pytest.raises(CompactionStuck, match="nothing was said"):
        compact_now(chat, policy=policy, summarise=ask)
    assert ask.prompts == []


# --- sizes ---


def test_a_history_of_twice_the_window_is_summarised_in_chunks(chat: Session) -> None:
    """S32: each request is within the summariser's window, the summary so far goes along, and it ends under
    the limit."""
    talk(chat, 100)
    ask = Script(lambda prompt: f"Up to {prompt.count('Step')} steps.")
    made = done(compact_now(chat, policy=SMALL, summarise=ask, by="m"))
    assert made.entry.tokens_before > 2 * SMALL.window
    assert len(ask.prompts) > 2
    assert all(count_text(prompt) < SMALL.window for prompt in ask.prompts)
    assert "Up to" in ask.prompts[1].split("</earlier-summary>")[0]
    assert made.entry.tokens_after < SMALL.trigger_at


def test_a_summariser_with_a_tiny_window_is_stood_in_for(chat: Session) -> None:
    """Where no chunk fits, it is not asked."""
    talk(chat, 30)
    ask = Script("x")
    made = done(asyncio.run(compact(chat, policy=SMALL, summarise=ask, summariser_window=300)))
    assert made.entry.by == "extractive"
    assert ask.prompts == []


def test_ten_rounds_do_not_grow(chat: Session) -> None:
    """S38: a summariser that adds to what it is given makes no summary longer than its cap."""
    ask = Script(lambda prompt: prompt.split("<earlier-summary>")[-1][:6_000] + " and more happened" * 60)
    for number in range(10):
        talk(chat, 25, seed=number)
        made = done(compact_now(chat, policy=SMALL, summarise=ask, by="m"))
        assert count_entry(made.entry) <= SMALL.summary_limit + 16
        assert made.entry.tokens_after <= SMALL.target_at


def test_the_summary_is_protected(chat: Session) -> None:
    """S44: however many entries follow it, and however small the budget, the summary is in the context."""
    chat.append(System(content="Be kind."))
    talk(chat, 30)
    made = done(compact_now(chat, policy=SMALL))
    talk(chat, 100)
    context = chat.context(1_000)
    assert context.summary == made.entry
    assert [entry.text for entry in context.system] == ["Be kind."]
    assert context.turns_left_out > 90


# --- chains, forks, facts ---


def test_chains_and_forks(memory: Stratalog, chat: Session) -> None:
    """After chained compactions a fork's context is its parent's, and both are compacted on alike."""
    waits = chat.submit("waits")
    for number in range(3):
        talk(chat, 25, seed=number)
        done(compact_now(chat, policy=SMALL))
    waits_id = waits.message.id
    assert any(entry.id == waits_id for entry in chat.context(4_000).entries)
    fork = chat.fork("a:cli:fork")

    def shown(session: Session) -> list[str]:
        context = session.context(4_000)
        return [entry.id for entry in context.shown()]

    assert sorted(shown(fork)) == sorted(shown(chat))
    assert chat.close_unfinished() == [waits.turn]
    assert shown(fork) == shown(chat)
    for session in (chat, fork):
        session.append(*exchange("the same " * 1500, "Done."))
        session.append(*exchange("at the end", "Done."))
    ours, theirs = (done(compact_now(each, policy=SMALL, force=True)).entry for each in (chat, fork))
    assert ours.covers[0] == theirs.covers[0]
    assert ours.kept == theirs.kept
    assert len(chat.context(4_000).entries) == len(fork.context(4_000).entries)


@pytest.mark.parametrize("kept_by", ["extractive", "a summariser that keeps them"])
def test_facts_survive_ten_rounds_of_a_long_session(tmp_path: Path, kept_by: str) -> None:
    """15 facts said in the first rounds of 2,000 turns: of the extractive summariser at least 12 are in the
    last context, of one that keeps them all 15."""

    def keeps(prompt: str) -> str:
        return "\n".join(["What matters:", *(fact for fact in FACTS if fact in prompt)])

    ask = Script(keeps) if kept_by != "extractive" else None
    chance, policy = random.Random(7), preset("default", 20_000)
    said = 0
    with Stratalog(tmp_path, settings=Settings(sync="never")) as memory:
        chat = memory.session("a:cli:long")
        for stretch in range(10):
            entries: list[AnyEntry] = []
            for number in range(200):
                done_words = f"Done: {' '.join(chance.choices(WORDS, k=40))}, {number} ms."
                if stretch < 3 and number % 40 == 7 and said < len(FACTS):
                    entries += exchange(FACTS[said], done_words)
                    said += 1
                else:
                    step = (
                        f"Please go on with step {stretch}-{number}: {' '.join(chance.choices(WORDS, k=30))}."
                    )
                    entries += exchange(step, done_words)
            chat.append(*entries)
            made = done(compact_now(chat, policy=policy, summarise=ask, by="scripted"))
            assert made.entry.tokens_after <= policy.target_at
        summary = chat.context(20_000).summary
        assert summary is not None
        assert summary.by == ("extractive" if ask is None else "scripted")
        kept = [fact for fact in FACTS if fact in summary.summary]
        assert said == 15
        assert len(kept) >= (12 if ask is None else 15), sorted(set(FACTS) - set(kept))


# --- idle ---


def old(entries: list[AnyEntry], ago: float) -> list[AnyEntry]:
    ts = int((time.time() - ago) * 1000)
    return [msgspec.structs.replace(entry, ts=ts) for entry in entries]


def test_idle_large_sessions_are_compacted_and_keep_their_place(memory: Stratalog) -> None:
    """Only those that are idle and large, once, down to their last 20 messages; the list stays in order, the
    times too, and the raw history."""
    sizes: dict[str, tuple[int, float]] = {"large": (60, 2_000), "fresh": (60, 1), "small": (20, 3_000)}
    for name, (turns, ago) in sizes.items():
        entries = [entry for number in range(turns) for entry in exchange(f"{name} {number}", "Done. " * 9)]
        memory.session(f"a:cli:{name}").append(*old(entries, ago))
    before: list[Any] = [(meta.key, meta.updated_at, meta.messages) for meta in memory.sessions().sessions]
    (made,) = compact_idle(memory)
    large = memory.session("a:cli:large")
    assert raw(large)[-1] == made.entry
    assert len(texts(large)) == 20
    assert sum(isinstance(entry, User) for entry in raw(large)) == 60
    assert compact_idle(memory) == []
    assert [(meta.key, meta.updated_at, meta.messages) for meta in memory.sessions().sessions] == before


def test_idle_compaction_leaves_a_busy_session_alone(memory: Stratalog) -> None:
    """A turn that runs is not disturbed; with other thresholds and a summariser the rest is done so."""
    for name in ("busy", "free"):
        entries = [entry for number in range(30) for entry in exchange(f"{name} {number}", "Done. " * 9)]
        memory.session(f"a:cli:{name}").append(*old(entries, 100))
    busy = memory.session("a:cli:busy")
    with busy.start(busy.submit("go").turn) as turn:
        (made,) = compact_idle(memory, idle=-10, messages=40, summarise=Script("They spoke."), by="m")
        assert made.entry.by == "m"
        turn.reply("yes")
    assert not any(isinstance(entry, Compaction) for entry in raw(busy))


def test_a_plan_says_what_would_be_done_and_does_nothing(chat: Session) -> None:
    """`planned` is what `compact` then does."""
    talk(chat, 30)
    before = raw(chat)
    decided = planned(chat, SMALL)
    assert not isinstance(decided, Nothing)
    assert raw(chat) == before
    entry = done(compact_now(chat, policy=SMALL)).entry
    assert (entry.covers, entry.kept, entry.first_kept) == (decided.covers, decided.kept, decided.first_kept)
    assert entry.tokens_after <= decided.after
