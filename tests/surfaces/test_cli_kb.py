"""`stratalog kb`: documents from files, in words and as JSON, with what could not be read told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recall.embeddings_server import EmbeddingsServer
from recall.reading.pdfs import encrypted, pdf
from stratalog.surfaces.cli import documents
from surfaces.terminals import cli, cli_json, terminal

HOSTILE = "\x1b[31mred\x1b[0m \u202eevil\u202c"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a document of each kind below `docs`."""
    shelf = tmp_path / "shelf"
    (shelf / "docs" / "deep").mkdir(parents=True)
    for name, content in {
        "a.md": b"# Leave\n\nThirty days of leave.",
        "b.html": b"<title>Travel</title><p>Trains &amp; ships.",
        "c.pdf": pdf("Bicycles in the yard", title="Yard"),
        "d.py": b"def ride():\n    return 'donkey'\n",
        "e.txt": "年假有三十天。".encode(),
        "deep/f.txt": b"Below the sea.",
        ".hidden.md": b"hidden",
        "picture.png": b"\x89PNG\r\n\0\1",
    }.items():
        (shelf / "docs" / name).write_bytes(content)
    monkeypatch.chdir(shelf)
    return shelf


def test_a_directory_is_added(shelf: Path, data: Path) -> None:
    """Every kind of document, by the path as it was given; what is passed over is told with its reason."""
    added = cli_json("kb", "add", "docs", data=data)
    assert (added["added"], added["updated"], added["unchanged"], added["failed"]) == (5, 0, 0, [])
    assert [
        (each["name"], each["format"], each["outcome"], each["truncated"]) for each in added["documents"]
    ] == [
        ("docs/a.md", "markdown", "added", 0),
        ("docs/b.html", "html", "added", 0),
        ("docs/c.pdf", "pdf", "added", 0),
        ("docs/d.py", "code", "added", 0),
        ("docs/e.txt", "text", "added", 0),
    ]
    assert added["skipped"] == [
        {"path": "docs/.hidden.md", "reason": "hidden"},
        {"path": "docs/deep", "reason": "a directory, without --recursive"},
        {"path": "docs/picture.png", "reason": "no text"},
    ]
    again = cli_json("kb", "add", "docs", "--recursive", data=data)
    assert (again["added"], again["unchanged"]) == (1, 5)


def test_the_words_of_it(shelf: Path, data: Path) -> None:
    """What was added is on stdout, what was passed over and the sum on stderr."""
    shown = cli("kb", "add", "docs", "docs/a.md", "--glob", "*.md", data=data)
    assert shown.exit_code == 0
    assert shown.stdout == "added docs/a.md  1 new, 0 kept, 0 removed\n"
    assert "passed over docs/.hidden.md: hidden" in shown.stderr
    assert shown.stderr.endswith("1 added\n")
    assert cli("kb", "add", "docs/a.md", data=data).stderr.endswith("1 unchanged\n")
    Path("docs/a.md").write_text("# Leave\n\nForty days of leave.")
    assert "updated docs/a.md  1 new, 0 kept, 1 removed" in cli("kb", "add", "docs/a.md", data=data).stdout


def test_what_cannot_be_read_is_told_and_the_others_are_added(shelf: Path, data: Path) -> None:
    """Exit code 1; each file with what is wrong and what to do."""
    Path("secret.pdf").write_bytes(encrypted(pdf("x"), "word"))
    Path("broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    Path("latin.txt").write_bytes("größe".encode("latin-1"))
    os.mkfifo("pipe")
    files = ("secret.pdf", "broken.pdf", "latin.txt", "pipe", "docs/picture.png", "none.md", "docs/a.md")
    added = cli_json("kb", "add", *files, data=data, code=1)
    assert [(each["path"], each["error"].split(";")[0]) for each in added["failed"]] == [
        ("secret.pdf", "this PDF is encrypted"),
        ("broken.pdf", "this PDF is damaged"),
        ("latin.txt", "this is not UTF-8, and does not say what else"),
        ("pipe", "this is no file"),
        ("docs/picture.png", "this is no text, and no format that is read"),
        ("none.md", "there is no such file"),
    ]
    assert added["added"] == 1
    shown = cli("kb", "add", "secret.pdf", data=data)
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "not added: secret.pdf: this PDF is encrypted. save it without a password" in shown.stderr


def test_links_lead_nowhere_outside(shelf: Path, data: Path, tmp_path: Path) -> None:
    """A link to a file within the directory is read; out of it, or to a directory, it is passed over."""
    (tmp_path / "outside.md").write_text("outside")
    Path("docs/out.md").symlink_to(tmp_path / "outside.md")
    Path("docs/in.md").symlink_to("deep/f.txt")
    Path("docs/loop").symlink_to(".")
    Path("docs/dangling.md").symlink_to("nowhere")
    added = cli_json("kb", "add", "docs", "-r", "--glob", "*.md", data=data)
    assert [each["name"] for each in added["documents"]] == ["docs/a.md", "docs/in.md"]
    assert {each["path"]: each["reason"] for each in added["skipped"]} == {
        "docs/.hidden.md": "hidden",
        "docs/dangling.md": "no file",
        "docs/loop": "a link",
        "docs/out.md": "a link that leads out of the directory",
    }
    assert cli("kb", "search", "outside", data=data).exit_code == 1


def test_a_file_is_read_once(shelf: Path, data: Path) -> None:
    """However often it is named."""
    added = cli_json("kb", "add", "docs", "docs/a.md", "docs", data=data)
    assert [each["name"] for each in added["documents"]].count("docs/a.md") == 1


def test_name_format_and_collection(shelf: Path, data: Path) -> None:
    """A name is for one file; a format that is said goes before what the file looks like."""
    options = ("--name", "https://x.org/a", "--collection", "web", "--format", "text")
    (document,) = cli_json("kb", "add", "docs/a.md", *options, data=data)["documents"]
    assert (document["name"], document["format"]) == ("https://x.org/a", "text")
    for wrong in (("docs", "--name", "x"), ("docs/a.md", "docs/e.txt", "--name", "x")):
        assert cli("kb", "add", *wrong, data=data).exit_code == 2
    assert cli("kb", "add", "docs/a.md", "--format", "docx", data=data).exit_code == 2
    assert cli("kb", "add", "docs/a.md", "--collection", " ", data=data).exit_code == 1


def test_too_large_is_told(shelf: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not read at all."""
    monkeypatch.setattr(documents, "MAX_BYTES", 10)
    (failed,) = cli_json("kb", "add", "docs/a.md", data=data, code=1)["failed"]
    assert failed["error"] == "this document is too large; nothing of it was added"


def test_list_show_search(shelf: Path, data: Path) -> None:
    """What is there, what was read of it, and where words stand in it."""
    assert cli("kb", data=data).stderr == "no documents yet: `stratalog kb add PATH`\n"
    cli("kb", "add", "docs", data=data)
    cli("kb", "add", "docs/e.txt", "-c", "zh", data=data)
    listed = cli_json("kb", "list", data=data)
    assert [each["name"] for each in listed["collections"]] == ["default", "zh"]
    assert len(listed["documents"]) == 6
    assert [each["name"] for each in cli_json("kb", "list", "-c", "zh", data=data)["documents"]] == [
        "docs/e.txt"
    ]
    assert "docs/c.pdf" in cli("kb", data=data).stdout
    shown = cli_json("kb", "show", "docs/c.pdf", data=data)
    assert [(each["first"], each["text"]) for each in shown["chunks"]] == [(1, "Bicycles in the yard")]
    assert "1. Yard (page 1)\nBicycles in the yard\n" in cli("kb", "show", shown["id"], data=data).stdout
    (hit,) = cli_json("kb", "search", "donkey", data=data)["hits"]
    assert (hit["document"]["name"], hit["chunk"]["first"], hit["chunk"]["last"]) == ("docs/d.py", 1, 2)
    assert cli("kb", "search", "donkey", data=data).stdout.startswith("docs/d.py, lines 1-2  ")
    assert len(cli_json("kb", "search", "年假", data=data)["hits"]) == 1  # both collections have it
    assert len(cli_json("kb", "search", "年假", "-c", "zh", "--context", "1", data=data)["hits"]) == 1
    assert cli("kb", "search", "zeppelin", data=data).exit_code == 1
    for missing in (
        ("search", "x", "-c", "none"),
        ("list", "-c", "none"),
        ("show", "none"),
        ("remove", "none"),
    ):
        assert cli("kb", *missing, data=data).exit_code == 3
    assert cli("kb", "show", "docs/e.txt", data=data).exit_code == 2  # which of the two
    assert cli("kb", "--tenant", "other", "list", "--json", data=data).stdout.startswith('{"documents":[]')


def test_search_by_meaning_after_the_jobs_have_run(shelf: Path, data: Path) -> None:
    """What has a vector is found though it has none of the words, within its collection; not with --words."""
    with EmbeddingsServer() as server:
        data.mkdir(exist_ok=True)
        (data / "stratalog.toml").write_text(f'[recall]\nembedder = "openai:m"\nbase_url = "{server.url}"\n')
        cli("kb", "add", "docs", data=data)
        cli("kb", "add", "docs/e.txt", "-c", "zh", data=data)
        assert cli("kb", "search", "zeppelin", data=data).exit_code == 1
        assert "embed: done" in cli("jobs", "run", data=data).stdout
        (hit,) = cli_json("kb", "search", "zeppelin", "-c", "zh", "--context", "1", data=data)["hits"]
        assert (hit["document"]["collection"], hit["terms"], hit["score"]) == ("zh", [], 0)
        assert "by meaning" in cli("kb", "search", "zeppelin", "-c", "zh", data=data).stdout
        asked = len(server.requests)
        assert cli("kb", "search", "zeppelin", "--words", data=data).exit_code == 1
        assert len(server.requests) == asked


def test_remove(shelf: Path, data: Path) -> None:
    """A document, or a collection; nothing of it is on the disk any more."""
    cli("kb", "add", "docs", data=data)
    cli("kb", "add", "docs/e.txt", "-c", "zh", data=data)
    assert cli_json("kb", "remove", "docs/d.py", data=data)["removed"] == {"documents": 1, "chunks": 1}
    held = b"".join(each.read_bytes() for each in data.rglob("knowledge.sqlite3*"))
    assert b"donkey" not in held
    assert b"icycle" in held
    assert cli("kb", "remove", "-c", "default", data=data).stderr == "removed 4 documents, 4 chunks\n"
    assert [each["name"] for each in cli_json("kb", "list", data=data)["collections"]] == ["zh"]
    assert cli("kb", "remove", data=data).exit_code == 2


def test_hostile_words_do_no_harm_to_a_terminal(shelf: Path, data: Path) -> None:
    """Control characters of a document are shown, not sent."""
    Path("h.txt").write_text(f"evil words {HOSTILE}")
    for words in (("add", "h.txt"), ("show", "h.txt"), ("search", "evil"), ("list",)):
        shown = terminal("--data", data, "kb", *words)
        assert "\u202e" not in shown.sent
        assert "\x1b[31mred" not in shown.sent


def test_a_model_that_is_none_is_refused(shelf: Path, data: Path) -> None:
    """Before anything is read."""
    assert cli("kb", "add", "docs", "--describe", "extractive", data=data).exit_code == 2
    assert cli("kb", "add", "docs", "--describe", "nobody:x", data=data).exit_code == 2
    assert cli_json("kb", "list", data=data)["documents"] == []
