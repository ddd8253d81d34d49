"""A data directory with everything that a purge has to do with, and what can be seen of it."""

from __future__ import annotations

import shutil
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec

from stratalog.config import Settings
from stratalog.engine.core import Stratalog
from stratalog.engine.graphs import Put, items_of
from stratalog.engine.profiling import refresh
from stratalog.engine.remembering import ADMIN, PRODUCTION, Draft, Layer, Record, Records, Scope, Source
from stratalog.keys import tenant_path
from stratalog.memory.contract import Where
from stratalog.memory.sqlite import SqliteRecords

EVAL = "eval:1"


class Names(NamedTuple):
    """Who there is."""

    ana: str = "ana"
    bo: str = "bo"
    bot: str = "bot"
    helper: str = "helper"
    run: str = "r1"


PLAIN = Names()
HOSTILE = Names('안나:con "x" %2e<b>\'; --', "..安娜", "nul", "CON.", "~~=41")


class Chat(NamedTuple):
    """A session: its agent, its users, its run, its environment."""

    agent: str
    users: tuple[str, ...] = ()
    run: str = ""
    environment: str = PRODUCTION


def chats(who: Names) -> dict[str, Chat]:
    """The sessions by the names of their chats."""
    return {
        "ana1": Chat(who.bot, (who.ana,)),
        "bo1": Chat(who.bot, (who.bo,)),
        "both": Chat(who.bot, (who.ana, who.bo)),
        "ana2": Chat(who.helper, (who.ana,), who.run),
        "e1": Chat(who.bot, (who.ana,), "", EVAL),
        "nobody": Chat(who.helper),
    }


def marker(chat: str) -> str:
    """A word that was said in this session alone."""
    return f"zq{chat.translate(str.maketrans('12', 'iu'))}xq"


def key_of(who: Names, chat: str, tenant: str = "local") -> str:
    return f"{tenant}/{chats(who)[chat].agent}:cli:{chat}"


def settings(store: str) -> Settings:
    return Settings(store=store, sync="never", blob_threshold=600)  # type: ignore[arg-type]


def opened(data: Path, store: str = "jsonl", tenant: str = "local") -> Stratalog:
    return Stratalog(data, tenant=tenant, settings=settings(store))


def build(data: Path, store: str = "jsonl", who: Names = PLAIN, tenant: str = "local") -> None:
    """Makes it: sessions with earlier generations and payloads of their own, records drawn from them into
    every scope, some that a person wrote, pages with kept versions, jobs, the list and the index."""
    made = Path(_made(store, who, tenant).name)
    shutil.copytree(tenant_path(made, tenant), tenant_path(data, tenant))


@cache
def _made(store: str, who: Names, tenant: str) -> TemporaryDirectory[str]:
    """One that is made once in a run of tests, to be copied."""
    made = TemporaryDirectory(prefix="estate-")
    _build(Path(made.name), store, who, tenant)
    return made


def _build(data: Path, store: str, who: Names, tenant: str) -> None:
    with opened(data, store, tenant) as memory, Records(memory) as records:
        for chat, about in chats(who).items():
            _talk(memory, who, chat, about)
            _draw(memory, records, who, chat, about)
        refresh(records.store, data, tenant)  # a first version of each page
        for user in (who.ana, who.bo):
            _by_hand(records, user)
            _as_graphs_keep(memory, user)
        _shared(memory, records, who)
        refresh(records.store, data, tenant)
        memory.sessions()
        memory.search("anything")


def _talk(memory: Stratalog, who: Names, chat: str, about: Chat) -> None:
    session = memory.session(key_of(who, chat, memory.tenant))
    with session.turn(f"before {marker(chat)} {'and so on ' * 100}") as turn:
        turn.reply("indeed")
    session.restart(force=True)
    told = {"users": list(about.users), "run": about.run}
    session.set_metadata(**{name: value for name, value in told.items() if value})
    if about.environment != PRODUCTION:
        session.set_metadata(environment=about.environment)
    with session.turn(f"I like {marker(chat)}") as turn:
        turn.reply(f"so it is {marker(chat)}")
    session.working_memory.set("fruit", marker(chat))


def _draw(memory: Stratalog, records: Records, who: Names, chat: str, about: Chat) -> None:
    session = memory.session(key_of(who, chat, memory.tenant))
    me = records.caller(
        user=about.users[0] if about.users else "",
        session=str(session.key),
        run=about.run,
        environment=about.environment,
        roles=(ADMIN,),
    )
    scopes = [Scope("session", str(session.key)), Scope("agent", about.agent), Scope("tenant")]
    scopes += [Scope("user", user) for user in about.users[:1]]
    scopes += [Scope("run", about.run)] if about.run else []
    source = Source(str(session.key), session.entry(session.end - 2).id)
    for scope in scopes:
        draft = Draft(
            layer=Layer.LONG,
            scope=scope,
            key=f"about {chat}",
            text=f"likes {marker(chat)}",
            origin="model",
            sources=(source,),
        )
        records.service.remember(me, draft, idempotency=f"{chat} {scope}")
    records.jobs.put(
        "draw",
        str(session.key),
        session=str(session.key),
        user=about.users[0] if about.users else "",
        environment=about.environment,
    )


def _as_graphs_keep(memory: Stratalog, user: str) -> None:
    with closing(items_of(memory)) as items:
        items.write([Put(("users", user), "fruit", f'"zqgraph {user}"'.encode())], now=1)


def _by_hand(records: Records, user: str) -> None:
    me = records.caller(user=user)
    draft = Draft(layer=Layer.LONG, scope=Scope("user", user), key="name", text=f"zqhand {user}")
    records.service.remember(me, draft)


def _shared(memory: Stratalog, records: Records, who: Names) -> None:
    """One that two sessions said, and one that closed what another session had said."""
    admin = records.caller(roles=(ADMIN,))
    for chat, key, text in (
        ("ana1", "capital", "the capital is Porto"),
        ("bo1", "capital", "the capital is Porto"),
        ("bo1", "season", "it is spring"),
        ("ana2", "season", f"it is {marker('ana2')} autumn"),
    ):
        session = memory.session(key_of(who, chat, memory.tenant))
        source = Source(str(session.key), session.entry(session.end - 2).id)
        draft = Draft(
            layer=Layer.LONG,
            scope=Scope("tenant"),
            key=key,
            text=text,
            origin="model",
            replaces=True,
            sources=(source,),
        )
        records.service.remember(admin, draft)


def holding(data: Path, word: str) -> list[str]:
    """The files in which the bytes of the word stand."""
    files = (path for path in sorted(data.rglob("*")) if path.is_file())
    return [path.relative_to(data).as_posix() for path in files if word.encode() in path.read_bytes()]


def every_byte(data: Path) -> dict[str, bytes]:
    """Each file with its content; of audits, which every call adds to, nothing."""
    return {
        path.relative_to(data).as_posix(): path.read_bytes()
        for path in sorted(data.rglob("*"))
        if path.is_file() and path.name != "audit.jsonl"
    }


def every_record(records: Records) -> list[Record]:
    assert isinstance(records.store, SqliteRecords)
    statuses = ("current", "superseded", "forgotten")
    where = Where(environment=PRODUCTION, scopes=(), statuses=statuses, whole="tenant")
    return list(records.store.find(where, limit=10_000).records)


def seen(data: Path, store: str = "jsonl", tenant: str = "local") -> dict[str, Any]:
    """All that can be seen of the tenant, by names that say what it is."""
    found: dict[str, Any] = {}
    with opened(data, store, tenant) as memory, Records(memory) as records:
        for key in memory.store.sessions(tenant):
            found[f"log {key}"] = list(memory.store.read(key, generations="all"))
        for meta in memory.sessions().sessions:
            found[f"listed {meta.key}"] = (meta.messages, meta.metadata, meta.title)
        for chat in chats(Names()):
            found[f"search {chat}"] = [hit.hit.entry_id for hit in memory.search(marker(chat), limit=50)]
        for record in every_record(records):
            where = Where(environment=record.environment, scopes=(record.scope,), ids=(record.id,))
            steps = [event.action for event in records.store.history(where)]
            found[f"record {record.id}"] = (record, steps)
        for job in records.jobs.list().jobs:
            found[f"job {job.id}"] = msgspec.structs.asdict(job)
    root = tenant_path(data, tenant)
    for page in (*root.rglob("MEMORY.md"), *root.rglob("USER.md")):
        found[f"page {page.relative_to(root).as_posix()}"] = page.read_text()
    return found
