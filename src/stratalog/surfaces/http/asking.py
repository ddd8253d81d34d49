"""Who asks: what every route of records has besides its own fields, which scopes are meant, and what is noted
of a change.

A scope is written `KIND`, which is the asker's own of that kind, or `KIND:ID`. A token with the role `user`
reaches its own user, its own sessions and, reading, what the tenant shares; an agent's records are for the
roles `agent` and `admin`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Any, Final, TypeAlias, cast, get_args

from litestar.di import NamedDependency, Provide
from litestar.params import QueryParameter

from stratalog import SessionKey, parse_key
from stratalog.engine.auditing import noted
from stratalog.engine.core import Stratalog
from stratalog.engine.remembering import PRODUCTION, Caller, MemoryService, Record, Records, Scope, ScopeKind
from stratalog.engine.session import Session
from stratalog.errors import AccessDenied, InvalidInput, NotFound
from stratalog.surfaces.http.service import Desk, FromDesk

_KINDS: Final = get_args(ScopeKind)
_SHARED: Final = ("agent", "tenant")

Agent: TypeAlias = Annotated[str, QueryParameter(description="The agent that asks.", max_length=1024)]
SessionKeyText: TypeAlias = Annotated[
    str,
    QueryParameter(
        description="The session in which is asked, as `agent:channel:chat`; it must exist.", max_length=4096
    ),
]
Run: TypeAlias = Annotated[str, QueryParameter(description="The run in which is asked.", max_length=1024)]
Environment: TypeAlias = Annotated[
    str, QueryParameter(description="The environment; else `production`.", max_length=1024)
]
ScopeName: TypeAlias = Annotated[
    str,
    QueryParameter(
        name="scope",
        description="Whose: `user`, `agent`, `session`, `run` or `tenant`, that of who asks; or `KIND:ID`.",
        max_length=4096,
    ),
]
ScopeNames: TypeAlias = Annotated[
    list[str] | None,
    QueryParameter(
        name="scope",
        description="Only these scopes: `user`, `agent`, `session`, `run` or `tenant`, those of who asks; "
        "or `KIND:ID`. Else all that who asks has.",
        max_items=20,
    ),
]


class Asking:
    """A desk, and who asks there. `service` looks at the caller's rights; `scopes` is what is asked for where
    nothing is named: None, all that the caller has."""

    def __init__(self, desk: Desk, records: Records, who: Caller) -> None:
        self.desk = desk
        self.records = records
        self.who = who
        self.confined = desk.asker.confined

    @property
    def service(self) -> MemoryService:
        return self.records.service

    @property
    def memory(self) -> Stratalog:
        return self.records.memory

    def scopes(self, named: Sequence[str] | None, *, everyone: bool = False) -> tuple[Scope, ...] | None:
        """The scopes that a request reads; None with `everyone`, which the service allows an admin alone.
        Raises `InvalidInput`, and `AccessDenied` for one that is not for this token; of all others the
        service decides."""
        if everyone and named:
            raise InvalidInput("`everyone` is every scope", hint="leave out `everyone`, or the scopes")
        if everyone:
            return None
        if named:
            return tuple(dict.fromkeys(self.scope(each) for each in named))
        if not self.confined:
            return None
        own = [Scope("session", self.who.session)] if self.who.session else []
        own += [Scope("user", self.who.user)] if self.who.user else []
        return (*own, Scope("tenant"))

    def scope(self, named: str) -> Scope:
        """One scope. Raises as `scopes` does."""
        kind, mark, id = named.partition(":")
        if kind not in _KINDS or (mark and not id) or (kind == "tenant" and id):
            raise InvalidInput(
                "this names no scope", scope=ascii(named)[:80], hint=f"kinds are {', '.join(_KINDS)}"
            )
        if self.confined and kind in ("agent", "run"):
            raise AccessDenied(f"what is the {kind}'s is not for this token", hint="use another scope")
        if kind == "tenant":
            return Scope("tenant")
        if kind == "session" and id:
            id = str(own_key(id, self.who.tenant))
        id = id or getattr(self.who, kind)
        if not id:
            raise InvalidInput(f"no {kind} was named", hint=f"name one, or write `{kind}:ID`")
        return Scope(cast(ScopeKind, kind), id)

    def shows(self, record: Record) -> bool:
        """Whether the record is for this token, which the service does not know of those of agents."""
        return not (self.confined and record.scope.kind == "agent")

    def private(self, record: Record) -> bool:
        """Whether who said it, and where, is for this token too."""
        return not (self.confined and record.scope.kind in _SHARED)

    def get(self, id: str) -> Record:
        """The record of this id. Raises `NotFound` where it is not the asker's, as where there is none."""
        record = self.service.get(self.who, id)
        if not self.shows(record):
            raise NotFound(
                "no such record", id=ascii(id), hint="ids come from `remember`, `recall` and `list`"
            )
        return record


async def asking(
    desk: FromDesk,
    agent: Agent = "",
    session: SessionKeyText = "",
    run: Run = "",
    environment: Environment = "",
) -> Asking:
    """The dependency `asking`. Raises `AccessDenied` for what a token may not name, `NotFound` for a session
    that is not in its sight, and `InvalidKey`."""
    more = agent or run or environment not in ("", PRODUCTION)
    if more and desk.asker.confined:
        raise AccessDenied(
            "this token asks for its user alone", hint="leave out `agent`, `run` and `environment`"
        )
    found = await session_in_sight(desk, session) if session else None
    return await desk.run(asking_of, desk, found, agent=agent, run=run, environment=environment)


async def session_in_sight(desk: Desk, text: str) -> Session:
    """The session that the text names. Raises `NotFound` where none is in sight, and `InvalidKey`."""
    key = own_key(text, desk.asker.tenant)
    return (await desk.session(key.agent, key.chat, key.channel)).sync


def own_key(text: str, tenant: str) -> SessionKey:
    """The key that the text writes, of this tenant. Raises `InvalidKey`, and for another tenant's `NotFound`,
    of which the cause is the refusal."""
    key = parse_key(text, tenant)
    if key.tenant != tenant:
        refused = AccessDenied("a session of another tenant was named")
        raise NotFound("there is no such session", key=ascii(text)[:80]) from refused
    return key


def asking_of(
    desk: Desk, session: Session | None, *, agent: str = "", run: str = "", environment: str = ""
) -> Asking:
    """Who asks, in a session in its sight or in none. For one who is in a thread. Raises `InvalidKey`."""
    records = desk.tenancy.records
    if session is not None and not environment:
        environment = str(session.meta.metadata.get("environment") or PRODUCTION)
    who = records.caller(
        user=desk.asker.user,
        agent=agent,
        session=str(session.key) if session is not None else "",
        run=run,
        environment=environment or PRODUCTION,
        roles=desk.asker.record_roles,
        token=desk.asker.principal.id,
    )
    return Asking(desk, records, who)


def changing(desk: Desk, call: str, **which: Any) -> AbstractContextManager[None]:
    """For a block that changes something else than records, or looks at everyone's: its line in the audit, as
    `auditing.noted` writes it, with who asks. For one who is in a thread."""
    who = desk.asker
    return noted(
        desk.front.sync, call, by=who.principal.id, user=who.user, roles=sorted(who.record_roles), **which
    )


Everyone: TypeAlias = Annotated[
    bool,
    QueryParameter(
        description="Every scope of the environment; for an admin that names no user, and the audit says so."
    ),
]
FromAsking: TypeAlias = NamedDependency[Asking]
ASKING: Final = {"asking": Provide(asking)}
