"""memory/audit.py: whole lines, one file a tenant, nobody else's to read."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.threads import together
from stratalog.errors import StorageFailed, StorageFull
from stratalog.memory.audit import Audit, AuditLine, FileAudit, MemoryAudit, mark_of
from stratalog.memory.contract import Scope

BEFORE_TOKENS = Path(__file__).parents[1] / "fixtures" / "memory" / "audit-before-tokens.jsonl"


def line(at: int = 1, **more: object) -> AuditLine:
    return AuditLine(**{"at": at, "call": "get", "ending": "done", "environment": "production", **more})  # type: ignore[arg-type] # of each kind


@pytest.mark.parametrize("make", [MemoryAudit, FileAudit])
def test_lines_are_read_as_they_were_written(make: Callable[..., Audit], tmp_path: Path) -> None:
    """Each tenant has its lines, in their order, and no other's; one that has none reads as empty."""
    audit = make(tmp_path) if make is FileAudit else make()
    told = line(
        2,
        scopes=(Scope("user", "ana"),),
        counts={"found": 3},
        asked={"query": mark_of("x")},
        roles=("admin",),
    )
    audit.write("a", line(1))
    audit.write("ab", line(9))
    audit.write("a", told)
    assert list(audit.read("a")) == [line(1), told]
    assert list(audit.read("ab")) == [line(9)]
    assert list(audit.read("A")) == []


def test_a_file_of_before_tokens_were_told_is_read(tmp_path: Path) -> None:
    """Its lines load, name no token, and others are added after them."""
    audit = FileAudit(tmp_path)
    audit.path("acme").parent.mkdir()
    shutil.copy(BEFORE_TOKENS, audit.path("acme"))
    audit.write("acme", line(9, token="0a"))
    found = list(audit.read("acme"))
    assert [each.call for each in found] == ["remember", "list", "edit_page", "get"]
    assert [each.token for each in found] == ["", "", "", "0a"]
    assert found[2].reason == "token 0a1b2c3d4e5f"
    assert found[1].scopes == (Scope("user", "ben"),)


def test_nobodys_lines_are_beside_the_tenants(tmp_path: Path) -> None:
    """The tenant "" has a file of its own, in the data directory itself."""
    audit = FileAudit(tmp_path)
    audit.write("", line(1))
    audit.write("a", line(2))
    assert audit.path("") == tmp_path / "audit.jsonl"
    assert [list(audit.read(each)) for each in ("", "a")] == [[line(1)], [line(2)]]


def test_a_mark_tells_only_the_length_and_a_hash() -> None:
    """The length, and twelve digits by which who knows the words finds the line."""
    assert mark_of("abc") == "3:ba7816bf8f01"
    assert mark_of("") == "0:e3b0c44298fc"
    assert mark_of("\ud800").startswith("1:")


def test_the_file_is_private(tmp_path: Path) -> None:
    """The file is 0600 in a directory of 0700."""
    audit = FileAudit(tmp_path)
    audit.write("a", line())
    assert audit.path("a").stat().st_mode & 0o777 == 0o600
    assert audit.path("a").parent.stat().st_mode & 0o777 == 0o700
    assert audit.path("a") == tmp_path / "a" / "audit.jsonl"


def test_a_torn_line_costs_nothing_else(tmp_path: Path) -> None:
    """After a crash within a line, the next line stands by itself; the torn one is left out."""
    audit = FileAudit(tmp_path)
    audit.write("a", line(1))
    with audit.path("a").open("ab") as file:
        file.write(b'{"at": 2, "ca')
    audit.write("a", line(3))
    assert list(audit.read("a")) == [line(1), line(3)]
    assert audit.path("a").read_bytes().count(b"\n") == 3


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    """Lines of several threads are all there, each whole."""
    audit = FileAudit(tmp_path)

    def write(number: int) -> None:
        for at in range(50):
            audit.write("a", line(at, user=f"u{number}" * 50))

    together(*[lambda number=number: write(number) for number in range(4)])
    lines = list(audit.read("a"))
    assert len(lines) == 200
    for number in range(4):
        assert [each.at for each in lines if each.user == f"u{number}" * 50] == list(range(50))


def test_processes_write_whole_lines(tmp_path: Path) -> None:
    """So are those of several processes."""
    program = """
import sys
from pathlib import Path
from stratalog.memory.audit import AuditLine, FileAudit
audit = FileAudit(Path(sys.argv[1]))
for at in range(100):
    audit.write("a", AuditLine(at=at, call="get", ending="done", environment="e", user=sys.argv[2] * 3000))
"""
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name]) for name in ("x", "y", "z")
    ]
    assert [each.wait(60) for each in running] == [0, 0, 0]
    assert len(list(FileAudit(tmp_path).read("a"))) == 300


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system did not take whole is taken back, and raised."""
    audit = FileAudit(tmp_path)
    audit.write("a", line(1))
    before = audit.path("a").read_bytes()
    real = os.write

    def short(fd: int, data: bytes) -> int:
        if len(data) < 30:
            raise OSError(errno.ENOSPC, "full")
        return real(fd, data[: len(data) - 10])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", short)
        with pytest.raises(StorageFull):
            audit.write("a", line(2))
    assert audit.path("a").read_bytes() == before
    audit.write("a", line(3))
    assert list(audit.read("a")) == [line(1), line(3)]


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    """A file that the system refuses is `StorageFailed`, with its place."""
    audit = FileAudit(tmp_path)
    audit.path("a").mkdir(parents=True)
    with pytest.raises(StorageFailed) as raised:
        audit.write("a", line())
    assert raised.value.where["path"] == str(audit.path("a"))
    with pytest.raises(StorageFailed):
        list(audit.read("a"))
