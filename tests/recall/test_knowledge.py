"""Documents are added, updated by their content, found and removed, safely for processes and crashes."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crash.processes import Child, run
from stratalog import points
from stratalog.errors import (
    Ambiguous,
    ForeignFile,
    InvalidInput,
    ModelRejected,
    ModelUnavailable,
    NewerFormat,
    NotFound,
)
from stratalog.recall import knowledge as module
from stratalog.recall import knowledge_tables as tables
from stratalog.recall.knowledge import FILE, Knowledge
from stratalog.recall.knowledge_tables import APPLICATION, MIGRATIONS
from stratalog.recall.knowledge_values import Passage, Put
from stratalog.recall.terms import VERSION

FIXTURES = Path(__file__).parent.parent / "fixtures" / "recall"
BODY = "The quick brown fox jumps over the lazy dog. " * 25
HANDBOOK = (
    f"# Handbook\n\n## Leave\n\n{BODY}Everybody has thirty days.\n\n## Travel\n\n{BODY}Trains go first.\n"
)
CHANGED = HANDBOOK.replace("thirty", "forty")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tenant" / FILE


@pytest.fixture
def knowledge(path: Path) -> Iterator[Knowledge]:
    with Knowledge(path) as opened:
        yield opened


def put(knowledge: Knowledge, text: str, name: str = "a.md", collection: str = "c") -> Put:
    return knowledge.put(collection, name, text.encode())


def names(found: list[Passage]) -> list[str]:
    return [each.document.name for each in found]


def bytes_of(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(path.parent.iterdir()) if each.is_file())


# --- putting ---


def test_a_document_is_added_once(knowledge: Knowledge, path: Path) -> None:
    """Its chunks stand in order under their headings; the same bytes again change nothing."""
    first = put(knowledge, HANDBOOK)
    assert (first.outcome, first.added, first.kept, first.removed) == ("added", 2, 0, 0)
    again = put(knowledge, HANDBOOK)
    assert (again.outcome, again.added, again.kept, again.document) == ("unchanged", 0, 2, first.document)
    chunks = knowledge.chunks(first.document.id)
    assert [(each.ordinal, each.prefix) for each in chunks] == [
        (0, "Handbook › Leave"),
        (1, "Handbook › Travel"),
    ]
    assert HANDBOOK[chunks[1].start : chunks[1].stop] == chunks[1].text
    document = first.document
    assert (document.title, document.format, document.media_type) == ("Handbook", "markdown", "text/markdown")
    assert (document.bytes, document.chunks, document.truncated) == (len(HANDBOOK), 2, 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_changed_document_keeps_what_says_the_same(knowledge: Knowledge) -> None:
    """Chunks that did not change keep their ids wherever they stand now; the others go with their words."""
    before = knowledge.chunks(put(knowledge, HANDBOOK).document.id)
    mark = knowledge.marks()["c"]
    changed = put(knowledge, CHANGED.replace("# Handbook\n", "# Handbook\n\n## New\n\nfirst\n" + BODY))
    assert (changed.outcome, changed.added, changed.kept, changed.removed) == ("updated", 2, 1, 1)
    after = knowledge.chunks(changed.document.id)
    assert [each.ordinal for each in after] == [0, 1, 2]
    assert after[2].id == before[1].id
    assert after[2].first > before[1].first
    assert before[0].id not in {each.id for each in after}
    assert knowledge.search("thirty") == []
    assert len(knowledge.search("forty")) == 1
    assert knowledge.marks()["c"] != mark


def test_repeated_passages_each_have_an_id(knowledge: Knowledge) -> None:
    """Chunks that say the same are told apart, and one of them may go."""
    part = "## A\n\n" + BODY + "\n"
    document = put(knowledge, "# T\n" + part * 3).document
    before = [each.id for each in knowledge.chunks(document.id)]
    assert len(set(before)) == 3
    put(knowledge, "# T\n" + part * 2)
    assert [each.id for each in knowledge.chunks(document.id)] == before[:2]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(st.lists(st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta"]), max_size=5), max_size=4))
def test_any_history_ends_as_its_last_state(tmp_path: Path, versions: list[list[str]]) -> None:
    """After any changes there is what adding the last version alone gives, in the index too."""
    shutil.rmtree(tmp_path / "p", ignore_errors=True)
    with Knowledge(tmp_path / "p" / FILE) as knowledge, Knowledge(tmp_path / "p" / "other.sqlite3") as fresh:
        for words in versions:
            text = "".join(f"## {word}\n\n{word * 3} {BODY}\n" for word in words)
            for store in (knowledge,) if words is not versions[-1] else (knowledge, fresh):
                put(store, text)
        if versions:
            ours = knowledge.chunks(knowledge.find("a.md").id)
            theirs = fresh.chunks(fresh.find("a.md").id)
            assert [(each.prefix, each.text) for each in ours] == [
                (each.prefix, each.text) for each in theirs
            ]
            for word in ("alpha", "beta", "gamma", "delta"):
                hits = knowledge.search(word * 3, limit=50)
                # What says the same twice is told once.
                assert sorted(each.chunk.text for each in hits) == sorted(
                    {each.text for each in ours if word * 3 in each.text}
                )


def test_what_cannot_be_a_document(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad names, an unknown format, binary content and too many bytes are refused, and nothing is made."""
    for collection, name in (("", "a"), ("c", " "), ("c", "a\n"), ("c\0", "a"), ("c", "x" * 1025)):
        with pytest.raises(InvalidInput):
            knowledge.put(collection, name, b"x")
    with pytest.raises(InvalidInput):
        knowledge.put("c", "a", b"\0\1")
    with pytest.raises(InvalidInput, match="format"):
        knowledge.put("c", "a", b"x", format="docx")  # type: ignore[arg-type]
    monkeypatch.setattr(module, "MAX_BYTES", 3)
    with pytest.raises(InvalidInput, match="too large"):
        knowledge.put("c", "a", b"xxxx")
    assert knowledge.counts() == {"collections": 0, "documents": 0, "chunks": 0, "bytes": 0}
    assert not knowledge.path.exists()


def test_an_empty_document_is_one_without_chunks(knowledge: Knowledge) -> None:
    """It is listed, and found by nothing."""
    assert put(knowledge, "").document.chunks == 0
    assert put(knowledge, " \n").outcome == "updated"
    assert len(knowledge.documents()) == 1


def test_the_name_is_no_path(knowledge: Knowledge) -> None:
    """Whatever a document is called, nothing is opened or made by that name."""
    for name in ("../../etc/passwd", "/etc/passwd", "https://example.org/x?y#z", "中文.md"):
        knowledge.put("c", name, f"harmless words in {name}".encode())
    assert [each.name for each in knowledge.path.parent.iterdir() if "sqlite3" not in each.name] == []
    assert len(knowledge.search("harmless")) == 4


# --- a model's sentence ---


def test_a_sentence_situates_each_chunk(knowledge: Knowledge) -> None:
    """It is kept with the chunk, searched, embedded, and not asked for again while the chunk stays."""
    asked: list[str] = []

    def describe(document: str, text: str) -> str:
        assert text in document
        asked.append(text)
        return f" About\nzebra{len(asked)}. "

    put(knowledge, HANDBOOK)
    said = knowledge.put("c", "a.md", HANDBOOK.encode(), describe=describe)
    assert (said.outcome, said.added, said.kept, said.removed) == ("updated", 2, 0, 2)
    hit = knowledge.search("zebra2")[0]
    assert hit.chunk.sentence == "About zebra2."
    assert hit.chunk.whole.startswith("Handbook › Travel\nAbout zebra2.\n\n## Travel")
    assert knowledge.put("c", "a.md", HANDBOOK.encode(), describe=describe).outcome == "unchanged"
    assert knowledge.put("c", "a.md", CHANGED.encode(), describe=describe).kept == 1
    assert len(asked) == 3
    assert put(knowledge, HANDBOOK).kept == 1
    assert knowledge.search("zebra2")[0].chunk.id == hit.chunk.id


def test_a_model_that_fails_costs_no_document(knowledge: Knowledge) -> None:
    """What failed is told; a model that is not there is asked once; the next put tries again."""
    calls: list[str] = []

    def describe(document: str, text: str) -> str:
        calls.append(text)
        raise ModelUnavailable("not reached") if len(calls) == 1 else ModelRejected("refused")

    first = knowledge.put("c", "a.md", HANDBOOK.encode(), describe=describe)
    assert first.notes == ("no sentence for 2 of the chunks: not reached",)
    assert len(calls) == 1
    second = knowledge.put("c", "a.md", HANDBOOK.encode(), describe=describe)
    assert (second.outcome, second.notes) == ("unchanged", ("no sentence for 2 of the chunks: refused",))
    assert len(calls) == 3


# --- looking ---


def test_search(knowledge: Knowledge) -> None:
    """The best passage first, with its place and its neighbours; no character is an operator."""
    put(knowledge, HANDBOOK)
    put(knowledge, "年假有三十天。办公室在上海。", "假期.txt", "zh")
    put(knowledge, "Other words about trains", "b.txt", "c")
    hit = knowledge.search("Who goes by TRAINS first?", neighbours=1)[0]
    assert (hit.document.name, hit.chunk.path, hit.chunk.first) == ("a.md", ("Handbook", "Travel"), 7)
    assert [each.ordinal for each in hit.before] == [0]
    assert hit.after == ()
    assert "Trains go first" in hit.snippet
    assert set(hit.terms) >= {"train", "first"}
    assert names(knowledge.search("年假几天")) == ["假期.txt"]
    assert names(knowledge.search("上")) == ["假期.txt"]
    assert len(knowledge.search('" OR * NEAR( trains:')) == 2
    assert (
        knowledge.search("") == knowledge.search("nothing-like-this") == knowledge.search("x", limit=0) == []
    )
    scores = [each.score for each in knowledge.search("trains first")]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > 0


def test_what_two_documents_say_the_same_comes_once(knowledge: Knowledge) -> None:
    """Of equal chunks the best; what is said under other headings, or in other words, is not equal."""
    text = "# Cars\n\nThe garage is closed on Monday.\n"
    put(knowledge, text, "one.md")
    put(knowledge, text, "two.md")
    put(knowledge, text, "three.md", collection="d")
    put(knowledge, text.replace("Cars", "Bicycles"), "four.md")
    for number in range(3):
        put(knowledge, f"the garage and its neighbour {number}", f"{number}.md")
    found = knowledge.search("garage closed on Monday", limit=5)
    assert len(found) == 5
    assert len({(each.chunk.path, each.chunk.text) for each in found}) == 5
    assert [each.chunk.path for each in found[:2]] == [("Cars",), ("Bicycles",)]
    assert len(knowledge.search("garage", limit=2)) == 2
    assert names(knowledge.search("garage", collections=["d"])) == ["three.md"]


def test_a_question_beside_a_pasted_text(knowledge: Knowledge) -> None:
    """What is asked is found before the pasted text and after it."""
    put(knowledge, "The spare key of the zeppelin hangar is under the flowerpot", "key.md")
    for number in range(30):
        put(knowledge, f"worker{number} has pid {1000 + number} and GETs items", f"{number}.md")
    log = "\n".join(f"worker{number} pid {1000 + number} GET items/{number * 37}" for number in range(80))
    question = "where is the spare key of the zeppelin hangar?"
    for query in (question, f"{log}\n{question}", f"{question}\n{log}"):
        assert names(knowledge.search(query))[0] == "key.md"
    assert len(knowledge.search(f"{log}\n{question}")[0].terms) <= 64


def test_which_chunks_are_still_there(knowledge: Knowledge) -> None:
    """Of any number of ids, without reading what they say; none where nothing was ever added."""
    assert knowledge.there(["x"]) == set()
    document = put(knowledge, HANDBOOK).document
    before = [each.id for each in knowledge.chunks(document.id)]
    assert knowledge.there([*before, "x", "\ud800", *(f"y{number}" for number in range(1200))]) == set(before)
    put(knowledge, CHANGED)
    assert knowledge.there(before) == {before[1]}
    assert knowledge.there([]) == set()


@pytest.mark.parametrize("query", ["fig plum", "c1 fig fig", "plum pear nothing 上海", "海"])
def test_scores_are_those_of_full_text_search(
    knowledge: Knowledge, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is ranked by all the words, when only the rarest find, has the scores that FTS5's BM25 gives, and
    so has the same place among what was found."""
    said = ("fig plum", "plum pear", "上海 pear pear", "pear", "c1 c1 plum", "大海 fig", "figs and 海")
    for number in range(60):
        words = " ".join((said[number % 7], f"w{number}", *["more"] * (number % 11)))
        knowledge.put("c", f"{number}.txt", words.encode(), title="a plum" if number % 3 else "")
    plain = knowledge.search(query, limit=100)
    assert plain
    monkeypatch.setattr(tables, "_BUDGET", 1)
    pruned = knowledge.search(query, limit=100)
    scores = {each.chunk.id: each.score for each in plain}
    assert 0 < len(pruned) <= len(plain)
    assert [each.score for each in pruned] == sorted((each.score for each in pruned), reverse=True)
    for each in pruned:
        assert each.score == pytest.approx(scores[each.chunk.id], abs=1e-9)


def test_common_words_rank_what_the_rare_ones_find(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the budget only the rarest word finds chunks, and the others say which of these is best; where
    all are common, the rarest of them finds."""
    monkeypatch.setattr(tables, "_BUDGET", 10)
    for number in range(40):
        put(knowledge, f"the engine of train {number} is {'still' if number % 4 else 'loud'}", f"{number}.md")
    walruses = {"a.md": "a walrus", "b.md": "a loud walrus in a train", "c.md": "a walrus swims"}
    for name, text in walruses.items():
        put(knowledge, text, name)
    found = names(knowledge.search("loud walrus train"))
    assert found[0] == "b.md"
    assert set(found) == {"a.md", "b.md", "c.md"}
    common = names(knowledge.search("loud train", limit=50))
    assert set(common) == {"b.md", *(f"{number}.md" for number in range(0, 40, 4))}


def test_collections_narrow_exactly(knowledge: Knowledge) -> None:
    """Of the named ones and no other; one that is not there is an error, not an empty answer."""
    for name in ("c1", "c10", "c11"):
        put(knowledge, f"{name} has words", collection=name)
    assert [each.document.collection for each in knowledge.search("words", collections=["c1"])] == ["c1"]
    found = knowledge.search("words", collections=["c10", "c11"])
    assert {each.document.collection for each in found} == {"c10", "c11"}
    assert knowledge.search("words", collections=[]) == []
    assert len(knowledge.search("words")) == 3
    for ask in (lambda: knowledge.search("words", collections=["none"]), lambda: knowledge.documents("none")):
        with pytest.raises(NotFound, match="collection"):
            ask()


def test_documents_are_found_by_id_and_name(knowledge: Knowledge) -> None:
    """A name that two collections have must be told apart; what is not there is an error."""
    one, two = put(knowledge, "x", collection="c").document, put(knowledge, "x", collection="d").document
    assert knowledge.find(one.id) == knowledge.find("a.md", "c") == knowledge.get(one.id) == one
    assert knowledge.documents() == [one, two]
    with pytest.raises(Ambiguous):
        knowledge.find("a.md")
    for text in ("b.md", "\ud800", ""):
        with pytest.raises(NotFound):
            knowledge.find(text)
        with pytest.raises(NotFound):
            knowledge.get(text)
        with pytest.raises(NotFound):
            knowledge.chunks(text)
    assert [(each.name, each.documents, each.chunks, each.bytes) for each in knowledge.collections()] == [
        ("c", 1, 1, 1),
        ("d", 1, 1, 1),
    ]


def test_nothing_is_made_by_looking(knowledge: Knowledge, path: Path) -> None:
    """No file, no directory."""
    assert knowledge.search("x") == knowledge.documents() == knowledge.collections() == []
    assert dict(knowledge.marks()) == {}
    assert list(knowledge.texts("c")) == []
    knowledge.purge()
    knowledge.scrub()
    with pytest.raises(NotFound):
        knowledge.remove("x")
    assert not path.parent.exists()


def test_what_is_to_be_embedded(knowledge: Knowledge) -> None:
    """Every chunk of a collection with what situates it, by an id that passages are got by."""
    document = put(knowledge, HANDBOOK).document
    put(knowledge, "else", collection="d")
    texts = dict(knowledge.texts("c"))
    chunks = knowledge.chunks(document.id)
    assert texts == {each.id: each.whole for each in chunks}
    assert set(knowledge.marks()) == {"c", "d"}
    got = knowledge.passages([chunks[1].id, "gone", chunks[0].id])
    assert [each.chunk for each in got] == [chunks[1], chunks[0]]
    (one,) = knowledge.passages([chunks[1].id], neighbours=1)
    assert (one.before, one.after) == ((chunks[0],), tuple(chunks[2:3]))


def test_many_chunks_are_told_in_parts(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, each comes once."""
    monkeypatch.setattr(module, "_MOST_VALUES", 2)
    document = put(knowledge, "".join(f"## H{number}\n\n{BODY}\n" for number in range(7))).document
    ids = [each.id for each in knowledge.chunks(document.id)]
    assert [id for id, _ in knowledge.texts("c")] == ids
    assert [each.chunk.id for each in knowledge.passages(ids)] == ids


# --- removing ---


def test_removed_is_gone_from_the_disk(knowledge: Knowledge, path: Path) -> None:
    """Neither words nor terms of what was removed or replaced are in the files once they are scrubbed."""
    document = put(knowledge, "A secret xylophone here", "secret-name.md").document
    put(knowledge, "An old kazoo", "b.md")
    put(knowledge, "A new trumpet", "b.md")
    assert knowledge.remove(document.id) == document
    assert knowledge.search("xylophone") == []
    knowledge.scrub()
    held = bytes_of(path)
    for word in (b"xylophon", b"secret-name", b"kazoo"):
        assert word not in held
    assert b"trumpet" in held
    with pytest.raises(NotFound):
        knowledge.remove(document.id)


def test_a_collection_is_removed_whole(knowledge: Knowledge) -> None:
    """With its documents and its name, and no other's."""
    put(knowledge, "one", "a.md", "c")
    put(knowledge, "two", "b.md", "c")
    put(knowledge, "three", "a.md", "d")
    assert knowledge.remove_collection("c").documents == 2
    assert [each.collection for each in knowledge.documents()] == ["d"]
    with pytest.raises(NotFound):
        knowledge.remove_collection("c")


def test_purge(knowledge: Knowledge, path: Path) -> None:
    """A dry run counts and changes nothing; then all is gone, from the disk too, and it can be used again."""
    put(knowledge, "A secret xylophone")
    counts = {"collections": 1, "documents": 1, "chunks": 1, "bytes": 18}
    assert knowledge.purge(dry_run=True) == counts == knowledge.counts()
    assert knowledge.purge() == counts
    assert b"xylophon" not in bytes_of(path)
    assert knowledge.counts()["documents"] == 0
    put(knowledge, "again")
    assert names(knowledge.search("again")) == ["a.md"]


# --- threads, processes, crashes ---


def test_threads_and_processes_add_at_once(path: Path) -> None:
    """Every document is there once, with all of its chunks, and both find it."""

    def work(say: object) -> None:
        with Knowledge(path) as knowledge:
            for number in range(10):
                put(knowledge, HANDBOOK + f"process {number}", f"{number % 5}.md")

    children = [Child(work) for _ in range(2)]
    with Knowledge(path) as knowledge:
        texts = {f"t{n}.md": f"{HANDBOOK}thread {n}" for n in range(4)}
        threads = [threading.Thread(target=put, args=(knowledge, texts[n], n)) for n in texts]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert [child.wait() for child in children] == [0, 0]
        assert [(each.name, each.chunks) for each in knowledge.documents()] == [
            *((f"{n}.md", 2) for n in range(5)),
            *((f"t{n}.md", 2) for n in range(4)),
        ]
        assert len(knowledge.search("trains", limit=100)) == 9
        _consistent(path)


@pytest.mark.crash
@pytest.mark.parametrize("point", ["knowledge.read", "knowledge.stored"])
def test_a_put_that_is_killed_is_as_if_it_had_not_been(path: Path, point: str) -> None:
    """The document is as before, and the next put does it."""
    with Knowledge(path) as knowledge:
        put(knowledge, HANDBOOK)

    def work(say: object) -> None:
        with Knowledge(path) as killed:
            points.arm(point)
            put(killed, CHANGED)

    assert run(work) == -signal.SIGKILL
    with Knowledge(path) as knowledge:
        assert knowledge.search("forty") == []
        assert len(knowledge.search("thirty")) == 1
        _consistent(path)
        assert put(knowledge, CHANGED).outcome == "updated"
        assert len(knowledge.search("forty")) == 1
        _consistent(path)


@pytest.mark.crash
def test_a_purge_that_is_killed_is_finished_by_the_next(path: Path) -> None:
    """What it had deleted is not there any more; its bytes go with the same call."""

    def work(say: object) -> None:
        with Knowledge(path) as killed:
            put(killed, "A secret xylophone")
            points.arm("knowledge.purged")
            killed.purge()

    assert run(work) == -signal.SIGKILL
    with Knowledge(path) as knowledge:
        assert knowledge.search("xylophone") == []
        knowledge.purge()
    assert b"xylophon" not in bytes_of(path)


def _consistent(path: Path) -> None:
    """SQLite finds nothing wrong, and the index has a row for each chunk."""
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    (chunks,) = database.execute("SELECT count(*) FROM chunks").fetchone()
    (rows,) = database.execute("SELECT count(*) FROM words_docsize").fetchone()
    assert chunks == rows
    database.close()


# --- the form ---


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_every_version(version: int, tmp_path: Path) -> None:
    """The file that each version wrote is read, searched, gone on with and emptied."""
    shutil.copy(FIXTURES / f"knowledge-version-{version}.sqlite3", tmp_path / FILE)
    with Knowledge(tmp_path / FILE) as knowledge:
        assert [(each.collection, each.name, each.chunks) for each in knowledge.documents()] == [
            ("handbook", "leave.md", 2),
            ("中文", "假期.txt", 1),
        ]
        assert knowledge.search("trains")[0].chunk.sentence == "How to travel."
        assert names(knowledge.search("年假")) == ["假期.txt"]
        changed = knowledge.put("handbook", "leave.md", CHANGED.encode())
        assert (changed.added, changed.kept, changed.removed) == (1, 1, 1)
        knowledge.remove_collection("中文")
        _consistent(tmp_path / FILE)


def test_terms_are_made_anew(tmp_path: Path) -> None:
    """What was stored with an earlier version of the terms is found by the present ones, from the first
    search on; a store that was without chunks has nothing to make anew."""
    with Knowledge(tmp_path / FILE) as knowledge:
        knowledge.put("notes", "plan.md", b"# Plan\n\nWe meet on May 4th, 2023.\n")
        knowledge.put("notes", "other.md", b"# Other\n\nNothing of it.\n")
    database = sqlite3.connect(tmp_path / FILE)
    assert database.execute("SELECT version FROM terms_of").fetchone() == (VERSION,)
    (row, *terms) = database.execute(
        "SELECT chunks.row, prefix_terms, text_terms, 'c' || collection FROM chunks"
        " JOIN documents ON documents.row = document WHERE name = 'plan.md'"
    ).fetchone()
    take = "INSERT INTO words (words, rowid, prefix, text, place) VALUES ('delete', ?, ?, ?, ?)"
    database.execute(take, (row, *terms))
    add = "INSERT INTO words (rowid, prefix, text, place) VALUES (?, 'plan', 'meet', ?)"
    database.execute(add, (row, terms[-1]))
    database.execute("UPDATE chunks SET prefix_terms = 'plan', text_terms = 'meet' WHERE row = ?", (row,))
    database.execute("UPDATE terms_of SET version = 1")
    database.commit()
    database.close()
    with Knowledge(tmp_path / FILE) as knowledge:
        assert names(knowledge.search("2023年5月4日")) == ["plan.md"]
        knowledge.remove_collection("notes")
        _consistent(tmp_path / FILE)


def test_the_form_is_told(tmp_path: Path) -> None:
    """A decision's page names the application and the present version."""
    with Knowledge(tmp_path / FILE) as knowledge:
        put(knowledge, "x")
    database = sqlite3.connect(tmp_path / FILE)
    ((application,), (version,)) = (
        database.execute("PRAGMA application_id").fetchone(),
        database.execute("PRAGMA user_version").fetchone(),
    )
    database.close()
    page = Path(__file__).parents[2] / "docs" / "decisions" / "0018-dates-and-numbers-have-terms.md"
    assert (application, version) == (APPLICATION, len(MIGRATIONS))
    assert f"version {version} (`user_version`; application `0x{application:08X}`)" in page.read_text("utf-8")


def test_what_is_not_ours_is_left_untouched(tmp_path: Path) -> None:
    """A later version's file and another program's are refused, byte for byte as they were."""
    for name, script, error in (
        ("newer", f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = 99", NewerFormat),
        ("foreign", "CREATE TABLE x (y)", ForeignFile),
    ):
        path = tmp_path / name
        database = sqlite3.connect(path)
        database.executescript(script)
        database.close()
        before = path.read_bytes()
        with Knowledge(path) as knowledge, pytest.raises(error):
            put(knowledge, "x")
        assert path.read_bytes() == before
