"""Nothing of one caller reaches another: the suite that Stratalog ships, on each of its stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memory.embedder import Embedder, need_mem0, quick_directory
from stratalog.conformance.tenancy import CASES, Lab
from stratalog.errors import StratalogError
from stratalog.keys import tenant_path
from stratalog.memory import caller as callers
from stratalog.memory import service
from stratalog.memory.audit import AuditLine, FileAudit, MemoryAudit
from stratalog.memory.caller import Caller, Scopes
from stratalog.memory.contract import RecordStore, Scope, Where
from stratalog.memory.inmemory import InMemoryRecords
from stratalog.memory.mem0 import open_mem0
from stratalog.memory.sqlite import SqliteRecords
from stratalog.recall.terms import query_terms, terms

Case = Callable[[Lab], None]


def new_store() -> InMemoryRecords:
    return InMemoryRecords(terms=terms, query_terms=query_terms)


def in_memory(path: Path) -> Lab:
    @cache
    def store_of(tenant: str, lane: str) -> RecordStore:
        return new_store()

    return Lab(store_of)


def on_disk(path: Path) -> Lab:
    @cache
    def store_of(tenant: str, lane: str) -> RecordStore:
        file = tenant_path(path, tenant) / "memory.sqlite3"
        return SqliteRecords(file, terms=terms, query_terms=query_terms)

    def files_of(tenant: str) -> Iterator[bytes]:
        for file in tenant_path(path, tenant).iterdir():
            yield file.read_bytes()

    return Lab(store_of, audit=FileAudit(path), files_of=files_of)


@pytest.mark.parametrize("make", [in_memory, on_disk])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_nothing_leaks(case: Case, make: Callable[[Path], Lab], tmp_path: Path) -> None:
    """The case's docstring states the promise."""
    case(make(tmp_path))


# A local Qdrant reads every memory for every question, so that some cases take minutes there.
IN_MEM0 = ("nothing_is_listed_that_is_not_the_callers", "an_audit_has_no_words", "a_purge_reaches_its_own")


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[] if case.__name__ in IN_MEM0 else pytest.mark.long) for case in CASES],
    ids=lambda case: case.__name__,
)
def test_nothing_leaks_in_mem0(case: Case, tmp_path: Path) -> None:
    """All tenants in one collection of one mem0. The case's docstring states the promise."""
    need_mem0()
    with (
        Embedder() as embedder,
        quick_directory(tmp_path) as path,
        open_mem0(embedder.config(), path) as home,
    ):
        case(Lab(lambda tenant, lane: home.records(tenant)))


# --- the suite finds what it is for ---


def failing(make: Callable[[], Lab]) -> set[str]:
    """The cases that fail on this."""
    found = set()
    for case in CASES:
        try:
            case(make())
        except (AssertionError, StratalogError):
            found.add(case.__name__)
    return found


class Leaky:
    """A store whose questions are changed on their way by `bend`."""

    def __init__(self, bend: Callable[[Where], Where], only: tuple[str, ...]) -> None:
        self._store = new_store()
        self._bend = bend
        self._only = only

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._store, name)
        if name not in self._only:
            return act
        return lambda where, *given, **named: act(self._bend(where), *given, **named)


SCOPES = (Scope("user", "a"), Scope("user", "ab"), Scope("user", "ana"), Scope("session", "a/bot:cli:1"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("bend", "only"),
    [
        pytest.param(
            lambda where: replace(where, scopes=(*where.scopes, *SCOPES)), name, id=f"scopes in {name}"
        )
        for name in ("find", "search", "history", "purge")
    ]
    + [
        pytest.param(
            lambda where: replace(where, environment="production"), name, id=f"environment in {name}"
        )
        for name in ("find", "search", "history")
    ],
)
def test_a_store_that_looks_too_far_is_found_out(bend: Callable[[Where], Where], only: str) -> None:
    """A store that answers one kind of question for more scopes, or another environment, fails."""
    store_of = cache(lambda tenant, lane: Leaky(bend, (only,)))
    expected = "a_purge_reaches_its_own" if only == "purge" else "nothing_is_listed_that_is_not_the_callers"
    assert expected in failing(lambda: Lab(store_of))


def test_tenants_in_one_store_are_found_out() -> None:
    """A store that takes a tenant for another whose name begins, folds or strips alike fails."""
    for fold in (str.strip, str.casefold, lambda name: name[:1], lambda name: name.replace("%", "_")):
        made: dict[str, RecordStore] = {}
        store_of = lambda tenant, lane, fold=fold, made=made: made.setdefault(fold(tenant), new_store())  # noqa: E731 # one a fold
        case = next(case for case in CASES if case.__name__ == "nothing_is_listed_that_is_not_the_callers")
        with pytest.raises(AssertionError):
            case(Lab(store_of))


class Chatty(MemoryAudit):
    """An audit that writes down what was said."""

    def write(self, tenant: str, line: AuditLine) -> None:
        super().write(tenant, replace(line, reason="everybodyhasthisword"))


def test_an_audit_that_tells_is_found_out() -> None:
    """Words of a record in the audit fail the case for it."""
    assert "an_audit_has_no_words" in failing(
        lambda: Lab(cache(lambda tenant, lane: new_store()), audit=Chatty())
    )


def test_files_of_another_are_found_out(tmp_path: Path) -> None:
    """A tenant's files that have another's words fail the case for it."""

    def make() -> Lab:
        lab = on_disk(tmp_path)
        real = lab.files_of
        lab.files_of = lambda tenant: [*real(tenant), *real("ab")]
        return lab

    case = next(case for case in CASES if case.__name__ == "files_are_apart")
    with pytest.raises(AssertionError):
        case(make())


def test_a_service_that_is_generous_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that lets everybody read one user's scope fails several cases."""

    def generous(who: Caller) -> Scopes:
        real = callers.scopes_of(who)
        return Scopes((*real.read, Scope("user", "ana")), real.write)

    monkeypatch.setattr(service, "scopes_of", generous)
    found = failing(lambda: Lab(cache(lambda tenant, lane: new_store())))
    assert {"nothing_is_listed_that_is_not_the_callers", "anothers_id_is_like_no_id"} <= found


def test_a_late_refusal_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that asks a store before it refuses fails."""
    real = service.MemoryService._scopes

    def late(self: Any, who: Any, *given: Any, **named: Any) -> Any:
        if type(who) is Caller:
            self._store_of(who.tenant, "native").find(Where(environment="", scopes=()))
        return real(self, who, *given, **named)

    monkeypatch.setattr(service.MemoryService, "_scopes", late)
    found = failing(lambda: Lab(cache(lambda tenant, lane: new_store())))
    assert "naming_anothers_scope_is_refused_before_any_store" in found
