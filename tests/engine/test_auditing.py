"""The audit, newest line first, a page at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog import Stratalog
from stratalog.engine import auditing
from stratalog.engine.auditing import audit_page, noted
from stratalog.errors import AccessDenied, Conflict, InvalidInput
from stratalog.memory.audit import AuditLine, FileAudit, mark_of
from stratalog.memory.contract import Scope


def _line(number: int, reason: str = "") -> AuditLine:
    return AuditLine(at=number, call="get", ending="done", environment="production", reason=reason)


@given(
    sizes=st.lists(st.integers(0, 300), max_size=40),
    limit=st.integers(1, 9),
    block=st.integers(1, 400),
    torn=st.booleans(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pages_have_every_line_once(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    sizes: list[int],
    limit: int,
    block: int,
    torn: bool,
) -> None:
    """Whatever the lengths of lines, of pages and of what is read at once: newest first, and what a crash
    tore is left out."""
    data = tmp_path_factory.mktemp("audit")
    monkeypatch.setattr(auditing, "_BLOCK", block)
    audit = FileAudit(data)
    for number, size in enumerate(sizes):
        audit.write("local", _line(number, "é" * size))
    if torn:
        audit.write("local", _line(99))
        path = audit.path("local")
        path.write_bytes(path.read_bytes()[:-7])
    with Stratalog(data) as memory:
        seen: list[int] = []
        before = 0
        while True:
            page = audit_page(memory, limit=limit, before=before)
            assert len(page.lines) <= limit
            seen += [line.at for line in page.lines]
            before = page.next
            if not before:
                break
    assert seen == list(reversed(range(len(sizes))))


def test_a_page_that_looked_far_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where few lines fit a page ends early, says so, and nothing is lost over pages."""
    monkeypatch.setattr(auditing, "MOST_LOOKED_AT", 4)
    audit = FileAudit(tmp_path)
    for number in range(10):
        audit.write("local", _line(number))
    with Stratalog(tmp_path) as memory:
        first = audit_page(memory, lambda line: line.at == 0)
        assert (first.lines, first.next > 0) == ([], True)
        found: list[int] = []
        before = first.next
        while before:
            page = audit_page(memory, lambda line: line.at == 0, before=before)
            found += [line.at for line in page.lines]
            before = page.next
    assert found == [0]


def test_what_is_no_place_is_refused(tmp_path: Path) -> None:
    """A limit under 1 and a negative place raise; one beyond the end is the end; no file is no lines."""
    with Stratalog(tmp_path) as memory:
        assert audit_page(memory, before=10**12) == ([], 0)
        for wrong in ({"limit": 0}, {"before": -1}):
            with pytest.raises(InvalidInput):
                audit_page(memory, **wrong)


def test_what_is_changed_is_noted_with_how_it_ended(tmp_path: Path) -> None:
    """One line each: what was done, what failed, what was refused; of the words there are marks alone."""
    with Stratalog(tmp_path, tenant="acme") as memory:
        with noted(memory, "edit_page", by="0a", user="ana", scopes=[Scope("user", "ana")], text="hush"):
            pass
        for error in (Conflict("hush"), AccessDenied("hush")):
            with pytest.raises(type(error)), noted(memory, "undo_page", by=""):
                raise error
        refused, failed, done = audit_page(memory).lines
    assert (done.call, done.ending, done.user, done.token) == ("edit_page", "done", "ana", "0a")
    assert (done.scopes, done.asked) == ((Scope("user", "ana"),), {"text": mark_of("hush")})
    assert (failed.ending, failed.reason) == ("failed", "Conflict")
    assert (refused.ending, refused.reason) == ("refused", "AccessDenied")
