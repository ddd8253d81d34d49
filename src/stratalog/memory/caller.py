"""Who asks: a capability that is made once, where a request comes in, from what was proved there.

No call of the memory service takes a tenant or a user as an argument. It takes a `Caller`, and what that may
see follows from it alone: its own session and run, its user, its agent, and what the tenant shares. It never
sees another tenant or another environment, whatever its roles.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from stratalog.errors import InvalidInput, InvalidKey
from stratalog.keys import parse_key, session_key, tenant_id
from stratalog.memory.contract import PRODUCTION, Scope, ScopeKind

ADMIN: Final = "admin"  # may list and purge over the tenant's environment, and write what is shared
CURATOR: Final = "curator"  # may write what the tenant shares
ROLES: Final = frozenset((ADMIN, CURATOR))


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Make it with `caller`. `session` is a session's key in writing; "" is none. `token` is the id of the
    token by which it was recognised, for the audit; nothing that it may see follows from it."""

    tenant: str
    user: str = ""
    agent: str = ""
    session: str = ""
    run: str = ""
    environment: str = PRODUCTION
    roles: frozenset[str] = frozenset()
    token: str = ""

    def __post_init__(self) -> None:
        # However it was made, nothing unchecked is a caller.
        given = msgspec.structs.asdict(self)
        if given != _checked(**given):
            raise InvalidKey("a caller's ids are not in their normal form", hint="make it with `caller(...)`")

    @property
    def actor(self) -> str:
        """Who it is in a history and an audit, in JSON."""
        told = {"user": self.user, "agent": self.agent, "session": self.session, "run": self.run}
        return msgspec.json.encode({name: value for name, value in told.items() if value}).decode()


def caller(
    tenant: str,
    *,
    user: str = "",
    agent: str = "",
    session: str = "",
    run: str = "",
    environment: str = PRODUCTION,
    roles: Iterable[str] = (),
    token: str = "",
) -> Caller:
    """The capability of who was recognised. A session names its agent.

    Raises `InvalidKey` for an id that `stratalog.keys` does not allow (all but the tenant and the agent may
    have colons) and for a session of another tenant or agent; `InvalidInput` for a role that there is not.
    """
    return Caller(
        **_checked(
            tenant=tenant,
            user=user,
            agent=agent,
            session=session,
            run=run,
            environment=environment,
            roles=roles,
            token=token,
        )
    )


def _checked(
    *,
    tenant: str,
    user: str,
    agent: str,
    session: str,
    run: str,
    environment: str,
    roles: Iterable[str],
    token: str,
) -> dict[str, Any]:
    tenant = tenant_id(tenant)
    agent = _agent(agent) if agent else ""
    if session:
        key = parse_key(session, tenant)
        if key.tenant != tenant or agent not in ("", key.agent):
            raise InvalidKey("this session is not the caller's", hint="it is of another tenant or agent")
        session, agent = str(key), key.agent
    if isinstance(roles, str) or not ROLES.issuperset(roles := frozenset(roles)):
        raise InvalidInput("there is no such role", hint=f"roles are {', '.join(sorted(ROLES))}")
    return {
        "tenant": tenant,
        "user": _id("user", user),
        "agent": agent,
        "session": session,
        "run": _id("run", run),
        "environment": _id("environment", environment) or PRODUCTION,
        "roles": roles,
        "token": _id("token", token),
    }


def _agent(value: str) -> str:
    return session_key(value, "any", "any").agent


def _id(part: str, value: str) -> str:
    """The id, checked as that of a chat is, which may have colons; "" is none."""
    if value == "":
        return ""
    try:
        return session_key("any", "any", value).chat
    except InvalidKey as error:
        what = part + error.what.removeprefix("chat")
        raise InvalidKey(what, hint="see stratalog.keys for what an id may be") from None


class Scopes(msgspec.Struct, frozen=True):
    """What a caller may read, and what of it it may write."""

    read: tuple[Scope, ...]
    write: tuple[Scope, ...]


def scopes_of(caller: Caller) -> Scopes:
    """The caller's own scopes, tightest first: run, session, user, agent, tenant. The tenant's is read by
    all and written by admins and curators."""
    named: tuple[tuple[ScopeKind, str], ...] = (
        ("run", caller.run),
        ("session", caller.session),
        ("user", caller.user),
        ("agent", caller.agent),
    )
    own = [Scope(kind, name) for kind, name in named if name]
    shared = Scope("tenant")
    may = bool(caller.roles & {ADMIN, CURATOR})
    return Scopes((*own, shared), (*own, shared) if may else tuple(own))
