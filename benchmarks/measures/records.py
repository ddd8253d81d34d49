"""Memory records: one durable `remember`, one `recall` of a tenant among many, and both opened cold."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count as counting
from itertools import islice
from pathlib import Path
from typing import Literal

from lab import Lab
from loads import LINE, timed
from sayings import question, saying
from spec import Block, Goal, Opener, Row, Size, Spec, System, pick

from measures.append import bare
from stratalog import Stratalog
from stratalog.engine.remembering import Caller, Draft, Event, Layer, Record, Records, Scope, Source
from stratalog.ids import new_ulid
from stratalog.keys import tenant_path
from stratalog.memory.contract import Change
from stratalog.memory.sqlite import FILE, SqliteRecords
from stratalog.recall.terms import query_terms, terms

Peer = Literal["langgraph", "mem0"]
LANGGRAPH: Peer = "langgraph"
MEM0: Peer = "mem0"
OWNER = Scope("user", "ana")
SESSION = "assistant:cli:main"
REMEMBER = "remember"
REMEMBER_LARGE = "remember, in a large file"
BARE = "bare, 401 bytes"
INSERT = "one INSERT of our row's bytes"
PUT = "SqliteStore.put"
ADD = "Memory.add"
RECALL = "recall"
RECALL_LARGE = "recall, in a large file"
SEARCH = "SqliteStore.search"
SEARCH_MEM0 = "Memory.search"
OPEN = "open and recall"
OPEN_LANGGRAPH = "SqliteStore, open and search"
OPEN_MEM0 = "Memory, open and search"


def spec(size: Size) -> Spec:
    count = pick(size, 20, 10, 2)
    tenants, each = pick(size, (100, 1_000), (20, 200), (2, 20))
    for_mem0 = pick(size, (100, 100), (20, 50), (2, 20))
    all_of_them = tenants * each
    return Spec(
        "records",
        f"memory records: {tenants} tenants with {each:,} each",
        "disk",
        pick(size, 40, 15, 2),
        (
            System(REMEMBER, remember(count, each)),
            System(REMEMBER_LARGE, remember(count, all_of_them)),
            System(BARE, bare(count, len(LINE))),
            System(INSERT, insert(count)),
            System(PUT, peer(LANGGRAPH, "add", (1, each), count=count), peer=True),
            System(ADD, peer(MEM0, "add", (1, each), count=count), peer=True),
            System(RECALL, recall(count, tenants, each)),
            System(RECALL_LARGE, recall(count, 1, all_of_them)),
            System(SEARCH, peer(LANGGRAPH, "find", (tenants, each), tenants=tenants, count=count), peer=True),
            System(SEARCH_MEM0, peer(MEM0, "find", for_mem0, tenants=for_mem0[0], count=1), peer=True),
            System(OPEN, cold(tenants, each)),
            System(OPEN_LANGGRAPH, peer(LANGGRAPH, "cold", (tenants, each), tenants=tenants), peer=True),
            System(OPEN_MEM0, peer(MEM0, "cold", for_mem0, tenants=for_mem0[0]), peer=True),
        ),
        (
            Row("remember beside write + fdatasync of 401 bytes", REMEMBER, BARE, goal=Goal("at most", 1.76)),
            Row("remember beside one INSERT of as many bytes", REMEMBER, INSERT),
            Row("remember itself", REMEMBER, how="cost"),
            Row(f"remember, {all_of_them:,} in the file, beside {each:,}", REMEMBER_LARGE, REMEMBER),
            Row("remember beside LangGraph SqliteStore.put", REMEMBER, PUT, goal=Goal("under", 1)),
            Row("remember beside mem0 Memory.add", REMEMBER, ADD, goal=Goal("under", 1)),
            Row("recall of one tenant", RECALL, how="cost", goal=Goal("at most", 1e-3)),
            Row(f"recall, {all_of_them:,} in one tenant's file, beside {each:,}", RECALL_LARGE, RECALL),
            Row("recall beside LangGraph SqliteStore.search", RECALL, SEARCH, goal=Goal("under", 1)),
            Row("recall beside mem0 Memory.search", RECALL, SEARCH_MEM0, goal=Goal("under", 1)),
            Row("cold open and one recall", OPEN, how="cost", goal=Goal("at most", 10e-3)),
            Row("cold, beside LangGraph SqliteStore", OPEN, OPEN_LANGGRAPH),
            Row("cold, beside mem0", OPEN, OPEN_MEM0),
        ),
        "The goal of 300 µs for `remember` is told as 1.76 times a flush of 170 µs. Tenants' files have the"
        " same records; the large file has as many as all of them, a thousand for each of its users."
        " SqliteStore (with its index) and mem0 (local Qdrant, `infer=False`) find by vectors of 384"
        " dimensions, made in about 20 µs; ours by words. Their writes are as durable as ours:"
        " synchronous=FULL, but with a rollback journal, which flushes several times, and mem0 writes two"
        f" databases. mem0 is asked with {for_mem0[0]} × {for_mem0[1]:,} records, for its time follows all of"
        " them.",
    )


def remember(count: int, length: int) -> Opener:
    """One call each, of a key that is new, by a tenant that has so many records."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        root = filled(lab, lab.disk, 1, length)
        with Stratalog(root, tenant=name(0)) as memory, Records(memory) as records:
            who = asking(records)
            numbers = counting(length)

            def block() -> list[float]:
                drafts = iter([draft(next(numbers)) for _ in range(count)])
                return timed(lambda: records.service.remember(who, next(drafts)), count)

            yield block

    return opened


def insert(count: int) -> Opener:
    """One row of as many bytes as a record's and its event's, as SQLite writes it by itself."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        said = saying(0)
        row = ("x" * (3 * len(said) + 400),)  # its payload, text and terms, and the event's copy
        with closing(sqlite3.connect(lab.disk / "bare.sqlite3", isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("CREATE TABLE bare (data TEXT)")
            yield lambda: timed(lambda: database.execute("INSERT INTO bare VALUES (?)", row), count)

    return opened


def recall(count: int, tenants: int, length: int) -> Opener:
    """One query each, of the tenants in turn."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        root = filled(lab, lab.disk, tenants, length)
        with Stratalog(root) as memory, ExitStack() as stack:
            each = [stack.enter_context(Records(memory.as_tenant(name(at)))) for at in range(tenants)]
            asks = [(records.service, asking(records)) for records in each]
            numbers = counting()

            def ask(number: int, query: str) -> None:
                service, who = asks[number % tenants]
                assert service.recall(who, query).found

            def block() -> list[float]:
                queries = iter([(number, question(number)) for number in islice(numbers, count)])
                return timed(lambda: ask(*next(queries)), count)

            yield block

    return opened


def cold(tenants: int, length: int) -> Opener:
    """A new process would do the same, once its imports are done."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        root = filled(lab, lab.disk, tenants, length)
        numbers = counting()

        def block() -> list[float]:
            number = next(numbers)
            query = question(number)
            used: list[tuple[Records, Stratalog]] = []
            costs = timed(lambda: used.append(recalled(root, name(number % tenants), query)), 1)
            for records, memory in used:
                records.close()
                memory.close()
            return costs

        yield block

    return opened


def recalled(root: Path, tenant: str, query: str) -> tuple[Records, Stratalog]:
    """Opens the tenant's records, asks once, and returns what is open."""
    memory = Stratalog(root, tenant=tenant)
    records = Records(memory)
    assert records.service.recall(asking(records), query).found
    return records, memory


def peer(kind: Peer, what: str, filling: tuple[int, int], **how: int) -> Opener:
    """A peer's store with so many tenants of so many records, told to do `what` in each block."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        assert lab.peers is not None
        with closing(lab.peers.worker("records_worker.py")) as worker:
            worker.ask("open", kind=kind, path=str(lab.disk / "peer"), tenants=filling[0], count=filling[1])
            yield lambda: worker.ask(what, **how)

    return opened


def name(number: int) -> str:
    return f"tenant-{number}"


def asking(records: Records) -> Caller:
    return records.caller(user=OWNER.id, agent="assistant", session=SESSION)


def draft(number: int) -> Draft:
    """What is said about a slot of its own."""
    source = Source(SESSION, new_ulid())
    return Draft(layer=Layer.LONG, scope=OWNER, key=f"key {number}", text=saying(number), sources=(source,))


def filled(lab: Lab, root: Path, tenants: int, length: int) -> Path:
    """`root` with the records of so many tenants in it: one file, made once in a lab, then copied."""

    def make() -> Path:
        path = lab.memory / FILE
        with closing(SqliteRecords(path, terms=terms, query_terms=query_terms)) as store:
            for at in range(0, length, 1_000):
                numbers = range(at, min(at + 1_000, length))
                with store.writing() as writing:
                    writing.write(Change(events=tuple([remembered(number) for number in numbers])))
        return path

    source = lab.once(f"{length} records", make)
    for number in range(tenants):
        target = tenant_path(root, name(number)) / FILE
        target.parent.mkdir(parents=True)
        shutil.copyfile(source, target)
        with target.open("rb+") as file:  # so that no later flush has to write it
            os.fsync(file.fileno())
    return root


def remembered(number: int) -> Event:
    """The event of a record as `remember` writes it; those past a thousand are of other users."""
    said = draft(number)
    scope = OWNER if number < 1_000 else Scope("user", f"user {number // 1_000}")
    record = Record(
        id=new_ulid(),
        layer=said.layer,
        scope=scope,
        key=said.key,
        payload=said.text,
        text=said.text,
        sources=said.sources,
        created_at=1,
        updated_at=1,
    )
    return Event(at=1, action="remember", actor='{"user":"ana","agent":"assistant"}', record=record)
