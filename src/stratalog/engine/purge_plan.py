"""What a purge means: which sessions, records and lines of pages. Looking for it changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stratalog import osfiles
from stratalog.engine.core import Stratalog
from stratalog.engine.notes import users_in
from stratalog.engine.profiling import PageOf, page_files
from stratalog.errors import InvalidConfig, InvalidInput, LogError
from stratalog.keys import SessionKey, dir_name, parse_key, session_paths, tenant_path
from stratalog.log.contract import Problem
from stratalog.memory import policy
from stratalog.memory.caller import Caller
from stratalog.memory.contract import PRODUCTION, Record, RecordStore, Scope, Status, Where
from stratalog.memory.lanes import NATIVE, PLUGIN
from stratalog.memory.profiles import ProfileFiles
from stratalog.memory.service import Purging, Selector
from stratalog.sessions.meta import SessionMeta

BATCH: Final = 1_000
EVERY: Final[tuple[Status, ...]] = ("current", "superseded", "forgotten")
GONE: Final = "\x1fpurged"  # stands for the entries of purged sessions; no entry is called that
_PAGES: Final = ("MEMORY.md", "USER.md")
_SUFFIXES: Final = ("jsonl", "meta.json", "archive", "blobs", "quarantine", "deleted")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a selector means: records by their scopes, sessions by their keys, and `strays`, files of sessions
    without a log that says whose they are, by how their places in the tenant's directory begin. Beyond the
    scopes, `drawn` are the ids of the records that come from those sessions alone, and `repaired` of those
    that have other sources too."""

    selector: Selector
    where: Where
    sessions: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    forks: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()

    @property
    def keys(self) -> list[SessionKey]:
        return [parse_key(each) for each in self.sessions]


def planned(memory: Stratalog, purging: Purging, who: Caller, selector: Selector) -> Plan:
    """What the selector means now."""
    metas, unknown = _metas(memory)
    chosen, shared = _chosen(metas, purging.where, selector, who.environment)
    strays = _strays(memory, metas, purging.where.scopes[0].id if selector.kind == "agent" else "")
    # As a session of which nothing is said, they are of production.
    whole = selector.kind == "tenant" or who.environment == PRODUCTION
    mine = strays if whole and selector.kind in ("tenant", "environment", "agent") else ()
    gone = set(chosen)
    left = (*(key for key in unknown if key not in gone), *(each for each in strays if each not in mine))
    plan = Plan(
        selector=selector,
        where=purging.where,
        sessions=chosen,
        strays=mine,
        shared=shared,
        unread=left if selector.kind != "session" else (),
        closed=_closed([metas[key] for key in metas if str(key) in gone], purging),
    )
    forks = [str(key) for key, meta in metas.items() if meta.forked_from in gone and str(key) not in gone]
    plan = replace(plan, forks=tuple(sorted(forks)))
    if plan.where.whole:
        return plan
    agent = plan.where.scopes[0].id if selector.kind == "agent" else ""
    known = {str(key) for key in metas}
    orphans = selector.kind == "user"  # whose a session was that was deleted, nobody knows
    scopes = {Scope("session", each) for each in chosen}
    touched: list[Record] = []
    for store in purging.stores.values() if gone or agent or orphans else ():
        for record in _all_of(store, who.environment):
            own = record.scope.id if record.scope.kind == "session" else ""
            if own and ((agent and _agent_of(own) == agent) or (orphans and own not in known)):
                scopes.add(record.scope)
            elif any(source.session in gone for source in record.sources):
                touched.append(record)
    where = replace(plan.where, scopes=tuple(dict.fromkeys((*plan.where.scopes, *sorted(scopes)))))
    inside = set(where.scopes)
    touched = [each for each in touched if each.scope not in inside]
    drawn = frozenset(each.id for each in touched if _comes_from_alone(each, gone))
    pages = [(page, page.traces(drawn).kept) for page in pages_of(memory, plan)[1]] if drawn else []
    return replace(
        plan,
        where=where,
        drawn=tuple(sorted(drawn)),
        repaired=tuple(sorted({each.id for each in touched} - drawn)),
        kept=tuple([f"{_place(memory, page)}: {id}" for page, kept in pages for id in kept]),
    )


def merged(noted: Plan, now: Plan) -> Plan:
    """What was meant when it was noted, and what fits by now."""

    def both(name: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys((*getattr(noted, name), *getattr(now, name))))

    names = ("sessions", "strays", "drawn", "repaired", "kept", "shared", "forks", "unread", "closed")
    where = replace(now.where, scopes=tuple(dict.fromkeys((*noted.where.scopes, *now.where.scopes))))
    return replace(noted, where=where, **{name: both(name) for name in names})


def _closed(metas: Iterable[SessionMeta], purging: Purging) -> tuple[str, ...]:
    """The lanes of these sessions that are not open: what is there stays."""
    named = {str(meta.metadata.get(PLUGIN) or NATIVE) for meta in metas}
    return tuple(sorted(named - {*purging.stores, NATIVE}))


def _metas(memory: Stratalog) -> tuple[dict[SessionKey, SessionMeta], list[str]]:
    """What is known of each session; of those whose logs cannot be read, which come second, nothing."""
    metas: dict[SessionKey, SessionMeta] = {}
    unknown: list[str] = []
    for key in sorted({*memory.store.sessions(memory.tenant), *memory.strata.listed()}):
        try:
            metas[key] = memory.strata.meta_now(key)
        except (LogError, InvalidConfig) as error:
            path = str(error.where.get("path", ""))
            memory.note(Problem(f"whose it is is not known: {error}", path=path, key=str(key)))
            metas[key] = SessionMeta(key=str(key))
            unknown.append(str(key))
    return metas, unknown


def _strays(memory: Stratalog, known: Iterable[SessionKey], agent: str) -> tuple[str, ...]:
    """How the places of those files of sessions begin that are of no session that is known; of the agent's,
    where one is given."""
    root = tenant_path(memory.data, memory.tenant)
    stems = {stem_of(memory, key) for key in known}
    found = set()
    for directory in root.glob(f"agents/{dir_name(agent) if agent else '*'}/sessions"):
        for path in within(directory):
            stem, _, suffix = path.name.partition(".")
            place = f"{directory.relative_to(root).as_posix()}/{stem}"
            if stem and suffix.partition(osfiles.TEMPORARY)[0] in _SUFFIXES and place not in stems:
                found.add(place)
    return tuple(sorted(found))


def stem_of(memory: Stratalog, key: SessionKey) -> str:
    """How the places of a session's files begin."""
    log = session_paths(memory.data, key).log
    return log.with_suffix("").relative_to(tenant_path(memory.data, memory.tenant)).as_posix()


def _chosen(
    metas: dict[SessionKey, SessionMeta], where: Where, selector: Selector, environment: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The sessions that the selector means, and those of the user that are others' too. Raises `InvalidInput`
    for a session of another environment."""
    if selector.kind == "tenant":
        return tuple([str(key) for key in metas]), ()
    here = {
        key: meta.metadata
        for key, meta in metas.items()
        if (meta.metadata.get("environment") or PRODUCTION) == environment
    }
    if selector.kind == "environment":
        return tuple([str(key) for key in here]), ()
    (scope,) = where.scopes
    if scope.kind == "session":
        if parse_key(scope.id) in metas.keys() - here.keys():
            raise InvalidInput(
                "this session is of another environment", key=scope.id, hint="ask as a caller of that"
            )
        return (scope.id,), ()
    if scope.kind == "user":
        users = {key: set(users_in(metadata)) for key, metadata in here.items()}
        return (
            tuple([str(key) for key, names in users.items() if names == {scope.id}]),
            tuple([str(key) for key, names in users.items() if scope.id in names and len(names) > 1]),
        )
    if scope.kind == "agent":
        return tuple([str(key) for key in here if key.agent == scope.id]), ()
    return tuple([str(key) for key, metadata in here.items() if metadata.get("run") == scope.id]), ()


def _agent_of(session: str) -> str:
    return session.partition("/")[2].partition(":")[0]


def _all_of(store: RecordStore, environment: str) -> Iterator[Record]:
    where = Where(environment=environment, scopes=(), statuses=EVERY, whole="environment")
    after = ""
    while True:
        page = store.find(where, limit=BATCH, after=after)
        yield from page.records
        after = page.next
        if not after:
            return


def _comes_from_alone(record: Record, gone: set[str]) -> bool:
    """Whether nothing of the record is left without these sessions. One that is forgotten already has its
    words in its history still."""
    said = replace(record, status="superseded")
    return policy.repaired(marked(said, gone), frozenset((GONE,)), 0).status == "forgotten"


def marked(record: Record, gone: set[str]) -> Record:
    """The record with one name for all entries of these sessions. A fork's entries have the ids of those that
    they are copies of, and are not meant."""
    sources = [replace(each, entry=GONE) if each.session in gone else each for each in record.sources]
    return replace(record, sources=tuple(sources))


# --- pages and files ---


def pages_of(memory: Stratalog, plan: Plan) -> tuple[list[ProfileFiles], list[ProfileFiles]]:
    """The pages that go whole, and the others of the tenant, which may have lines that go."""
    tenant, where = memory.tenant, plan.where
    own = [PageOf(each, where.environment) for each in where.scopes if each.kind in ("agent", "user")]
    whole = {page_files(memory.data, tenant, page).path for page in own}
    root = tenant_path(memory.data, tenant)
    every: set[Path] = set()
    for found in (*root.glob("agents/*/memory/**/*"), *root.glob("users/*/**/*")):
        name = found.name.removesuffix(".history")
        if name in _PAGES:
            every.add(found.with_name(name))
    if where.whole == "tenant":
        whole = every
    elif where.whole:
        whole = {path for path in every if _is_page_of(path, root, where.environment)}
    return [ProfileFiles(path) for path in sorted(whole)], [ProfileFiles(p) for p in sorted(every - whole)]


def _is_page_of(path: Path, root: Path, environment: str) -> bool:
    """Whether the page is the environment's: only those of production have no directory of its name."""
    below = path.relative_to(root).parts[3 if path.name == "MEMORY.md" else 2 : -1]
    return below == (() if environment == PRODUCTION else (dir_name(environment),))


def _place(memory: Stratalog, page: ProfileFiles) -> str:
    return page.path.relative_to(tenant_path(memory.data, memory.tenant)).as_posix()


def within(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
