"""Documents over HTTP: added, listed, searched and removed, for the tenant as a whole."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from surfaces.http.conftest import Running, running
from surfaces.http.paging import every

DOCUMENTS = "/v1/kb/documents"


def _add(
    client: httpx.Client, name: str, content: bytes | str, kind: str = "text/markdown", **query: Any
) -> httpx.Response:
    return client.post(
        DOCUMENTS, params={"name": name, **query}, content=content, headers={"content-type": kind}
    )


def test_a_document_has_its_life(service: Running) -> None:
    """It is added, found by everybody of the tenant, brought up to date, read in chunks, and removed."""
    admin, ana = service.of("admin"), service.of("user", user="ana")
    made = _add(admin, "leave.md", "# Leave\n\nThirty days of leave.", collection="handbook").json()
    assert (made["outcome"], made["document"]["collection"], made["document"]["format"]) == (
        "added",
        "handbook",
        "markdown",
    )
    assert _add(admin, "leave.md", "# Leave\n\nThirty days of leave.", collection="handbook").json()[
        "outcome"
    ] == ("unchanged")
    found = ana.get("/v1/kb/search", params={"query": "leave days"}).json()
    assert found["found"][0]["document"]["name"] == "leave.md"
    assert sum(found["found"][0]["parts"].values()) == pytest.approx(found["found"][0]["score"])
    assert not found["more"]
    changed = _add(
        admin, "leave.md", "# Leave\n\nForty days.\n\n## Sick\n\nAs needed.", collection="handbook"
    )
    assert changed.json()["outcome"] == "updated"
    one = f"{DOCUMENTS}/{made['document']['id']}"
    assert ana.get(one).json() == changed.json()["document"]
    chunks = every(ana, f"{one}/chunks", "chunks", limit=1)
    assert [each["ordinal"] for each in chunks] == list(range(changed.json()["document"]["chunks"]))
    assert "Forty days" in chunks[0]["text"]
    assert ana.delete(one).status_code == 403
    assert admin.delete(one).json()["name"] == "leave.md"
    assert (admin.get(one).status_code, admin.delete(one).status_code) == (404, 404)
    assert b"Forty" not in (service.data / "acme" / "knowledge.sqlite3").read_bytes()


def test_lists_are_paged(service: Running) -> None:
    """Documents and collections, each once, in order, whatever their names are."""
    admin = service.of("admin")
    names = ['a "b".md', "é.md", "z.md", "日本.md", "%2e.md"]
    for collection in ("one", "two", "drei/vier"):
        for name in names:
            assert _add(admin, name, f"words of {name}", collection=collection).status_code == 200
    listed = every(admin, DOCUMENTS, "documents")
    places = [(each["collection"], each["name"]) for each in listed]
    assert places == sorted(
        (collection, name) for collection in ("one", "two", "drei/vier") for name in names
    )
    assert len(every(admin, DOCUMENTS, "documents", collection="two")) == 5
    shelves = every(admin, "/v1/kb/collections", "collections")
    assert [(each["name"], each["documents"]) for each in shelves] == [
        ("drei/vier", 5),
        ("one", 5),
        ("two", 5),
    ]
    assert admin.get(DOCUMENTS, params={"collection": "none"}).status_code == 404
    assert admin.get(DOCUMENTS, params={"cursor": "x"}).status_code == 400
    gone = admin.delete("/v1/kb/collections", params={"collection": "drei/vier"})
    assert gone.json()["documents"] == 5
    assert len(every(admin, DOCUMENTS, "documents")) == 10


@pytest.mark.parametrize(
    ("name", "kind", "content", "status"),
    [
        ("a.pdf", "application/pdf", b"no pdf", 400),
        ("a.bin", "application/octet-stream", b"\0\1\2\xff", 400),
        ("a.md", "application/json", b"{}", 400),
        ("", "text/plain", b"x", 400),
        ("a\n.md", "text/plain", b"x", 400),
        ("../../etc/passwd", "text/plain; charset=utf-8", b"words", 200),
        ("a.txt", "application/octet-stream", "Füße".encode(), 200),
        ("x", "text/html", b"<p>words</p>", 200),
    ],
)
def test_what_is_taken_in(service: Running, name: str, kind: str, content: bytes, status: int) -> None:
    """What cannot be read is refused, and nothing of it kept; a name is a name, and no path."""
    admin = service.of("admin")
    assert _add(admin, name, content, kind).status_code == status
    listed = admin.get(DOCUMENTS).json()["documents"]
    assert [each["name"] for each in listed] == ([name] if status == 200 else [])


def test_who_may_add(service: Running) -> None:
    """Only an admin; others read."""
    for client in (service.of("user", user="ana"), service.of("agent")):
        assert _add(client, "a.md", "x").status_code == 403
        assert client.delete("/v1/kb/collections", params={"collection": "c"}).status_code == 403
        assert client.get(DOCUMENTS).json() == {"documents": [], "cursor": ""}


def test_a_document_has_its_limit(service: Running, tmp_path: Any) -> None:
    """One over the service's limit is refused with 413."""
    with running(service.data.with_name("other"), body=1_000) as made:
        assert _add(made.of("admin"), "a.md", "x " * 1_000).status_code == 413
