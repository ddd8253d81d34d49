"""engine/meaning.py and engine/embedding.py: finding by meaning beside words, with real stores and a real
server of embeddings. Nothing is embedded that may not leave, a failing embedder fails no search, and what is
deleted has no vector."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recall.embeddings_server import Answer, EmbeddingsServer
from stratalog.config import BackgroundSettings, RecallSettings, Settings
from stratalog.engine.agent_memory import AgentMemory
from stratalog.engine.aio import AsyncStratalog
from stratalog.engine.core import Stratalog
from stratalog.engine.knowing import knowledge_of
from stratalog.engine.purging import purge
from stratalog.engine.remembering import ADMIN, Records
from stratalog.engine.upkeep import runner_of
from stratalog.ids import now_ms
from stratalog.memory.contract import Layer, Scope
from stratalog.memory.policy import Draft
from stratalog.memory.service import Selector
from stratalog.recall.lexical import LexicalIndex

WORDS = {
    "alpha": "The dog is called Rex.",
    "beta": "The train to Bergen leaves at noon.",
    "gamma": "Ana prefers tea to coffee.",
}

HOURS = itertools.count()


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with EmbeddingsServer() as made:
        yield made


class Telling(EmbeddingsServer):
    """A server that does something before it answers."""

    told: Callable[[], object] = staticmethod(lambda: None)

    def _answer(self, path: str, asked: dict[str, Any]) -> Answer:
        self.told()
        return super()._answer(path, asked)


def settings(server: EmbeddingsServer, **more: Any) -> Settings:
    recall = RecallSettings(embedder="openai:hash", base_url=server.url, **more)
    return Settings(sync="never", recall=recall, background=BackgroundSettings(promote_after=1e9))


def opened(data: Path, server: EmbeddingsServer, **more: Any) -> Stratalog:
    return Stratalog(data, settings=settings(server, **more))


def talk(memory: Stratalog, words: dict[str, str] = WORDS, **metadata: str) -> None:
    for chat, text in words.items():
        session = memory.session(f"a:cli:{chat}")
        with session.turn(text) as turn:
            turn.reply("Noted.")
        if metadata:
            session.set_metadata(**metadata)


def embed(memory: Stratalog) -> dict[str, Any]:
    """Does the work `embed`, an hour after the last time; what it came to."""
    at = now_ms() + 3_600_000 * next(HOURS)
    with closing(runner_of(memory, clock=lambda: at)) as runner:
        runner.run_due()
    with Records(memory) as records:
        (job,) = records.jobs.list(kind="embed", limit=1).jobs
    return {"state": job.state, "error": job.error, **job.result}


def rows(memory: Stratalog, what: str = "turns") -> int:
    if not (memory.strata.vectors.directory / what).is_dir():
        return 0
    return sum(kept.rows for kept in memory.strata.vectors.store(what).spaces())  # type: ignore[arg-type]


def parts(memory: Stratalog, query: str, **how: Any) -> dict[str, set[str]]:
    return {each.hit.session.chat: set(each.hit.parts) for each in memory.search(query, **how)}


def test_without_an_embedder_nothing_is_asked_and_no_work_is_there(data: Path) -> None:
    """The default: no job, no directory, and a search is one of words."""
    with Stratalog(data) as memory:
        talk(memory)
        with closing(runner_of(memory)) as runner:
            runner.run_due()
        with Records(memory) as records:
            assert not records.jobs.list(kind="embed", limit=1).jobs
        assert "meaning" not in parts(memory, "dog Rex")["alpha"]
        assert not memory.strata.vectors.directory.exists()


def test_words_answer_until_the_vectors_are_there(data: Path, server: EmbeddingsServer) -> None:
    """An append and a search embed nothing before the background has; then the question alone."""
    with opened(data, server) as memory:
        talk(memory)
        assert "meaning" not in parts(memory, "called Rex")["alpha"]
        assert server.requests == []
        done = embed(memory)
        assert (done["state"], done["more"], rows(memory)) == ("done", False, 6)
        asked = len(server.requests)
        assert "meaning" in parts(memory, "called Rex")["alpha"]
        assert server.texts[-1] == "called Rex"
        assert len(server.requests) == asked + 1
        assert "meaning" in parts(memory, "called Rex")["alpha"]  # its vector is kept
        assert "meaning" not in parts(memory, "called Rex", meaning=False)["alpha"]
        assert len(server.requests) == asked + 1
        talk(memory, {"delta": "A new one."})
        assert len(server.requests) == asked + 1


def test_a_failing_embedder_fails_no_search(data: Path, server: EmbeddingsServer) -> None:
    """Words answer, a problem says why, and it is not asked again at once."""
    with opened(data, server) as memory:
        talk(memory)
        embed(memory)
        server.script[:] = [Answer(401, {"error": {"message": "no"}})]
        asked = len(server.requests)
        assert set(parts(memory, "the dog Rex")) >= {"alpha"}
        assert any("words alone are searched" in problem.reason for problem in memory.problems)
        assert set(parts(memory, "a train to Bergen")) >= {"beta"}
        assert len(server.requests) == asked + 1


def test_damaged_vectors_fail_no_search(data: Path, server: EmbeddingsServer) -> None:
    """Of vectors whose file was cut nothing is found by meaning, and of a damaged catalog neither, which is
    told as a problem; words answer."""
    with opened(data, server) as memory:
        talk(memory)
        embed(memory)
        assert "meaning" in parts(memory, "called Rex")["alpha"]
        turns = memory.strata.vectors.directory / "turns"
        for path in turns.glob("*/*.f32"):
            os.truncate(path, 10)
        assert "meaning" not in parts(memory, "called Rex")["alpha"]
        assert memory.problems == []
    (turns / "catalog.sqlite3").write_bytes(b"no database" * 1000)
    with opened(data, server) as memory:
        assert "meaning" not in parts(memory, "called Rex")["alpha"]
        assert any("words alone are searched" in problem.reason for problem in memory.problems)


def test_a_session_that_may_not_leave_is_not_embedded(data: Path, server: EmbeddingsServer) -> None:
    """An embedder on the internet gets no request for a session that is local only, nor its records; nor does
    a question that is asked of it. What may leave is embedded."""
    with opened(data, server, reach="world", dimensions=32) as memory, Records(memory) as records:
        talk(memory, residency="local_only")
        session = memory.session("a:cli:alpha")
        who = records.caller(session=str(session.key))
        draft = Draft(
            layer=Layer.MID, scope=Scope("session", str(session.key)), key="dog", text="The dog is Rex"
        )
        records.service.remember(who, draft)
        embed(memory)
        assert (server.requests, rows(memory), rows(memory, "records")) == ([], 0, 0)
        talk(memory, {"open": "The weather is fine."})
        embed(memory)
        assert sorted(server.texts) == ["Noted.", "The weather is fine."]
        memory.search("the dog", session=session.key)
        assert "the dog" not in server.texts
        memory.search("the weather")
        assert "the weather" in server.texts


def test_a_residency_that_is_set_meanwhile_counts_from_the_next_request(
    data: Path,
) -> None:
    """Set while the first of its texts are at the server, it keeps the others from being sent."""
    with Telling() as telling, opened(data, telling, reach="world", dimensions=32) as memory:
        session = memory.session("a:cli:long")
        for number in range(20):
            with session.turn(f"Message number {number}.") as turn:
                turn.reply(f"Answer number {number}.")
        telling.told = lambda: session.set_metadata(residency="local_only")
        embed(memory)
        assert len(telling.requests) == 1
        assert len(telling.texts) < 40


def test_what_is_deleted_has_no_vector(data: Path, server: EmbeddingsServer) -> None:
    """A session's vectors go with it at once; a rebuild drops all, and the background makes them anew."""
    with opened(data, server) as memory:
        talk(memory)
        embed(memory)
        memory.session("a:cli:alpha").delete()
        assert rows(memory) == 4
        assert "alpha" not in parts(memory, "The dog is called Rex")
        memory.rebuild()
        assert rows(memory) == 0
        assert set(parts(memory, "train to Bergen")) >= {"beta"}
        embed(memory)
        assert rows(memory) == 4


def test_a_purge_destroys_vectors_and_tells_them(data: Path, server: EmbeddingsServer) -> None:
    """Those of the sessions, with their bytes; what is left is still found."""
    with opened(data, server) as memory, Records(memory) as records:
        talk(memory)
        embed(memory)
        who = records.caller(roles=(ADMIN,), session="a:cli:alpha")
        receipt = purge(memory, records, who, Selector("session", "local/a:cli:alpha"))
        counts = {each.store: each for each in receipt.stores}
        assert (counts["vectors"].before["turns"], counts["vectors"].after["turns"]) == (2, 0)
        assert rows(memory) == 4


def test_records_and_documents_are_embedded_too(data: Path, server: EmbeddingsServer) -> None:
    """The lasting current records and the chunks of documents; one that is forgotten loses its vector."""
    with opened(data, server) as memory, Records(memory) as records, knowledge_of(memory) as knowledge:
        who = records.caller(user="ana")
        for layer, key in ((Layer.LONG, "home"), (Layer.SHORT, "today")):
            records.service.remember(
                who, Draft(layer=layer, scope=Scope("user", "ana"), key=key, text=f"Ana: {key}")
            )
        knowledge.put("handbook", "leave.md", b"# Leave\n\nThirty days a year.")
        embed(memory)
        assert (rows(memory, "records"), rows(memory, "documents")) == (1, 1)
        assert "Ana: home" in server.texts
        assert "Ana: today" not in server.texts
        records.service.forget(who, scope=Scope("user", "ana"), key="home", reason="")
        embed(memory)
        assert rows(memory, "records") == 0


def test_another_model_is_filled_while_words_answer(data: Path, server: EmbeddingsServer) -> None:
    """The space of the old model stays until the new one is complete, and is not compared with it."""
    with opened(data, server) as memory:
        talk(memory)
        embed(memory)
    changed = msgspec.structs.replace(settings(server).recall, embedder="openai:other")
    with Stratalog(data, settings=msgspec.structs.replace(settings(server), recall=changed)) as memory:
        assert "meaning" not in parts(memory, "called Rex")["alpha"]
        embed(memory)
        assert [kept.space.model for kept in memory.strata.vectors.store("turns").spaces()] == ["other"]
        assert "meaning" in parts(memory, "called Rex")["alpha"]


def test_prefixes_of_the_settings_are_sent(data: Path, server: EmbeddingsServer) -> None:
    """Before each text that is embedded and before a question, which is compared with these alone; set
    later, all is embedded anew while words answer."""
    with opened(data, server) as memory:
        talk(memory)
        embed(memory)
    server.requests.clear()
    with opened(data, server, query_prefix="query: ", passage_prefix="passage: ") as memory:
        assert "meaning" not in parts(memory, "called Rex")["alpha"]
        assert server.requests == []
        assert embed(memory)["more"] is False
        sent = [text for text in server.texts if text != "dimensions"]
        assert len(sent) == 6
        assert all(text.startswith("passage: ") for text in sent)
        assert "meaning" in parts(memory, "called Rex")["alpha"]
        assert server.texts[-1] == "query: called Rex"
        assert rows(memory) == 6


def test_passes_are_bounded_and_within_the_days_budget(data: Path, server: EmbeddingsServer) -> None:
    """What is over the tenant's calls for the day stops, and says so; what was embedded stays."""
    own = settings(server, dimensions=32)
    few = msgspec.structs.replace(own.background, calls_per_day=1)
    with Stratalog(data, settings=msgspec.structs.replace(own, background=few)) as memory:
        talk(memory)
        done = embed(memory)
        assert done["state"] != "done"
        assert "calls_per_day" in done["error"]
        assert len(server.requests) == 1


def test_ids_are_those_of_the_index(data: Path, server: EmbeddingsServer) -> None:
    """A vector is known by what the index of words calls its document."""
    with opened(data, server) as memory:
        talk(memory)
        embed(memory)
        key = memory.session("a:cli:beta").key
        store = memory.strata.vectors.store("turns")
        (kept,) = store.spaces()
        with memory.strata.index() as index:
            assert isinstance(index, LexicalIndex)
            wanted = sorted(each[0] for each in index.document_keys(key))
        assert sorted(store.ids(kept.space, str(key))) == wanted


def test_an_embedder_that_cannot_be_had_fails_nothing(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key for it: searches and recall answer by words, a problem says what is missing, the job fails."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    own = Settings(sync="never", recall=RecallSettings(embedder="openai:m"))
    with Stratalog(data, settings=own) as memory, Records(memory) as records:
        talk(memory)
        (memory.strata.vectors.directory / "turns").mkdir(parents=True)
        assert set(parts(memory, "called Rex")) == {"alpha"}
        assert AgentMemory(records).recall(memory.session("a:cli:new"), "called Rex")
        assert any("no API key" in problem.reason for problem in memory.problems)
        done = embed(memory)
        assert "no API key" in done["error"]


def test_what_is_recalled_is_found_by_meaning_too(data: Path, server: EmbeddingsServer) -> None:
    """In turns and documents: the question is embedded once, and where the session forbids it never."""
    with opened(data, server, reach="world", dimensions=32) as memory, Records(memory) as records:
        talk(memory)
        with knowledge_of(memory) as knowledge:
            knowledge.put("handbook", "dogs.md", b"# Dogs\n\nA dog called Rex needs a licence.")
        embed(memory)
        mind, asked = AgentMemory(records), len(server.requests)
        (block,) = mind.recall(memory.session("a:cli:new"), "dog called Rex")
        assert "needs a licence" in block
        assert "The dog is called Rex." in block
        assert server.texts[-1] == "dog called Rex"
        assert len(server.requests) == asked + 1
        memory.session("a:cli:shut").set_metadata(residency="local_only")
        (block,) = mind.recall(memory.session("a:cli:shut"), "dog called Rex, and quietly")
        assert "The dog is called Rex." in block
        assert len(server.requests) == asked + 1


def test_a_search_in_an_event_loop(data: Path, server: EmbeddingsServer) -> None:
    """The same call, in a thread."""

    async def work() -> set[str]:
        async with AsyncStratalog(data, settings=settings(server)) as memory:
            return set((await memory.search("called Rex"))[0].hit.parts)

    with opened(data, server) as memory:
        talk(memory)
        embed(memory)
    assert "meaning" in asyncio.run(work())
