"""engine/upkeep.py: what the background does for every tenant, by the real runner over real stores."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from stratalog.config import BackgroundSettings, IdleSettings, MemorySettings, Settings
from stratalog.engine.agent_memory import DRAW, AgentMemory, memory_of
from stratalog.engine.core import Stratalog
from stratalog.engine.minding import beginning_notes, due
from stratalog.engine.notes import ASKER
from stratalog.engine.profiling import PageOf, page_files
from stratalog.engine.remembering import Records
from stratalog.engine.session import Session
from stratalog.engine.upkeep import runner_of, tenants, upkeep
from stratalog.errors import Conflict, InvalidConfig
from stratalog.ids import now_ms
from stratalog.memory.contract import Layer, Scope
from stratalog.memory.jobs import Job
from stratalog.memory.policy import Draft
from stratalog.models.configured import Configured
from stratalog.testing.model_server import ModelServer
from stratalog.testing.scripted import ScriptedModel

ANA = Scope("user", "ana")
DRAWN = json.dumps(
    {
        "facts": [
            {"about": "user", "key": "home", "text": "Ana lives in Lisbon", "quote": "I live in Lisbon"}
        ],
        "summary": "They spoke of Lisbon.",
    }
)


def run_due(memory: Stratalog) -> dict[str, Job]:
    """Each job that ran, by its kind; every one of them the first of its kind."""
    with runner_of(memory) as runner:
        ran = runner.run_due()
    assert len({job.kind for job in ran}) == len(ran)
    return {job.kind: job for job in ran}


def know(memory: Stratalog, key: str, text: str, layer: Layer = Layer.LONG, **who: Any) -> None:
    with Records(memory) as records:
        draft = Draft(layer=layer, scope=ANA, key=key, text=text)
        records.service.remember(records.caller(user="ana", **who), draft)


def cut_short(session: Session, mind: AgentMemory, said: str = "I live in Lisbon.") -> str:
    """A turn that was answered, and whose process died before it was remembered."""
    with session.turn(said, meta={ASKER: "ana"}) as turn:
        for note in beginning_notes(session, mind, turn.message.seq):
            turn.append(note)
        turn.reply("Nice.")
    return turn.id


def test_all_is_done_once_for_every_tenant(data: Path) -> None:
    """Consolidation in every environment, pages, idle sessions; a second time nothing is due."""
    settings = Settings(
        background=BackgroundSettings(promote_after=0.001), idle=IdleSettings(after=0.001, messages=4)
    )
    with Stratalog(data, settings=settings) as memory:
        for tenant in ("local", "acme"):
            own = memory.as_tenant(tenant)
            know(own, "home", f"Ana lives in {tenant}", Layer.SHORT)
            know(own, "tea", "Ana drinks tea", Layer.SHORT, environment="staging")
        know(memory.as_tenant("only-records"), "cat", "Ana has a cat")
        chat = memory.session("a:cli:me")
        for number in range(12):
            with chat.turn(f"Message {number} about the boats of Bergen, {'word ' * 40}") as turn:
                turn.reply(f"Reply {number} about boats. " + "word " * 40)
        assert list(tenants(memory)) == ["acme", "local", "only-records"]
        with runner_of(memory) as runner:
            ran = runner.run_due()
            assert {job.state for job in ran} == {"done"}
            results = [(job.kind, job.result) for job in ran]
            assert [r["promoted"] for kind, r in results if kind == "consolidate"] == [2, 2, 0]
            assert [r["compacted"] for kind, r in results if kind == "compact_idle"] == [0, 1, 0]
            assert runner.run_due() == []
    assert "Ana lives in acme" in (data / "acme/users/ana/USER.md").read_text()
    assert "acme" not in (data / "local/users/ana/USER.md").read_text()


def test_profiles_go_on_where_the_last_pass_was(data: Path) -> None:
    """By what the last pass noted, and what it was refused is a job that has failed, done when it is
    retried after somebody made room."""
    settings = Settings(background=BackgroundSettings(profiles_every=0.001))
    with Stratalog(data, settings=settings) as memory:
        for number in range(4):
            know(memory, f"k{number}", f"Fact {number} of Ana")
        first = run_due(memory)["profiles"]
        assert (first.result["watermark"], first.result["pages"][0]["added"]) == (4, 4)
        with Records(memory) as records:
            for number in range(3):
                ends = Draft(layer=Layer.SHORT, scope=ANA, key=f"k{number}", text="no", replaces=True)
                records.service.remember(records.caller(user="ana"), ends)
        second = run_due(memory)
        assert second["profiles"].result["pages"][0]["refused"].startswith("it would remove 3 of 4 lines")
        with Records(memory) as records:
            (failed,) = records.jobs.list(state="failed").jobs
            assert (failed.kind, failed.key) == ("profile", "production user ana")
            assert "USER.md was left as it is: it would remove 3 of 4 lines" in failed.error
            page = page_files(data, "local", PageOf(ANA))
            page.path.write_text(page.path.read_text() + "\n".join(f"- mine {n}" for n in range(3)))
            records.jobs.retry(failed.id)
        assert run_due(memory)["profile"].state == "failed"
        page.path.unlink()
        with Records(memory) as records:
            records.jobs.retry(failed.id)
        assert run_due(memory)["profile"].state == "done"


def test_turns_that_a_crash_kept_from_the_memory_are_remembered(data: Path) -> None:
    """By the background, for whom they were, once their own process had time to do it itself."""
    with Stratalog(data) as memory:
        chat = memory.session("a:cli:me")
        with Records(memory) as records:
            mind = AgentMemory(records, user="ana")
            mind.blocks(chat, None)
            cut_short(chat, mind)
            who = mind.caller(chat)
        assert run_due(memory)["remember"].result["sessions"] == 0
        with runner_of(memory, clock=lambda: now_ms() + 3_600_000) as runner:
            (done,) = [job for job in runner.run_due() if job.kind == "remember"]
        assert done.result == {"sessions": 1, "problems": []}
        assert due(chat) == []
        with Records(memory) as records:
            (record,) = records.service.list(who).records
        assert record.text.startswith("I live in Lisbon.")


def test_a_draw_that_failed_is_done_later(data: Path) -> None:
    """By the model of the settings, over real HTTP, for the user whose turn it was; a session that is gone
    is left alone."""
    with ModelServer([DRAWN]) as server:
        settings = Settings(model="openai:gpt-4o", base_url=server.openai_url)
        with Stratalog(data, settings=settings) as memory:
            chat = memory.session("a:cli:me")
            with Records(memory) as records:
                failing = AgentMemory(records, user="ana", model=Configured(ScriptedModel(["no", "no"]), "m"))
                turn = cut_short(chat, failing)
                told = failing.after(chat, turn)
                assert told.startswith("nothing was drawn from a turn yet: ")
                (job,) = records.jobs.list(kind=DRAW).jobs
                assert (job.state, job.attempts, job.user) == ("failed", 1, "ana")
                records.jobs.retry(job.id)
                gone = records.jobs.put(DRAW, "x", args={"turn": "T"}, session="local/a:cli:gone")
            with runner_of(memory) as runner:
                ran = {job.id: job for job in runner.run_due()}
            assert ran[job.id].state == "done"
            assert ran[job.id].result["stored"] == 2
            assert ran[gone.id].result == {"gone": True}
            with Records(memory) as records:
                texts = [each.text for each in records.service.list(records.caller(user="ana")).records]
            assert texts == ["Ana lives in Lisbon"]


def test_a_budget_that_is_spent_stops_the_drawing_until_the_next_day(data: Path) -> None:
    """The reason is in the job, the turn keeps its preview, and no model is asked."""
    settings = Settings(background=BackgroundSettings(calls_per_day=1))
    with Stratalog(data, settings=settings) as memory, Records(memory) as records:
        model = ScriptedModel([DRAWN])
        mind = AgentMemory(records, user="ana", model=Configured(model, "m"))
        chat = memory.session("a:cli:me")
        assert mind.after(chat, cut_short(chat, mind)) == ""
        told = mind.after(chat, cut_short(chat, mind))
        assert "budget for the day is spent" in told
        assert len(model.requests) == 1
        (job,) = records.jobs.list(state="stopped").jobs
        assert job.next_at > job.updated_at
        assert len(records.service.list(mind.caller(chat), layers=[Layer.SHORT]).records) == 2


def test_one_process_does_it(data: Path) -> None:
    """A second runner is refused; the embedded scheduler runs what is due at once and frees the directory."""
    with Stratalog(data) as memory:
        know(memory, "home", "Ana lives in Lisbon")
        with upkeep(memory):
            with pytest.raises(Conflict, match="another process"):
                runner_of(memory)
            page = data / "local/users/ana/USER.md"
            deadline = time.monotonic() + 60
            while not page.exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            assert "Lisbon" in page.read_text()
        with runner_of(memory):
            pass


def test_the_settings_say_who_draws(data: Path) -> None:
    """`memory.model` before `model`, `extractive` for none; one that cannot be had is an error."""
    with Stratalog(data) as memory, Records(memory) as records:

        def asks(**settings: Any) -> bool:
            return memory_of(records, Settings(**settings)).draws

        assert not asks()
        assert not asks(model="extractive")
        assert asks(model="openai:m", base_url="http://127.0.0.1:1")
        assert not asks(
            model="openai:m", base_url="http://127.0.0.1:1", memory=MemorySettings(model="extractive")
        )
        with pytest.raises(InvalidConfig):
            asks(model="nobody:m")
