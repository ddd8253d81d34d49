"""Who was recognised, for whom it asks, and which sessions that are.

| role | may |
|---|---|
| `user` | what is its own user's: sessions, memory |
| `agent` | the same for any user of its tenant, one at a time, by naming one; without one what is nobody's |
| `admin` | everything of its tenant; by naming a user what is that user's |
| `metrics` | read the metrics of the service |

Nothing here names another tenant: the tenant is that of the token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from stratalog.engine.notes import is_whose
from stratalog.errors import AccessDenied, InvalidInput, InvalidKey
from stratalog.keys import session_key, tenant_id

Role: TypeAlias = Literal["user", "agent", "admin", "metrics"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
MCP: Final = "mcp"  # the channel of sessions that MCP clients begin
_TALKING: Final = frozenset(("user", "agent", "admin"))


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who was recognised. `user` is whom a token is for, "" for nobody in particular; `name` is what it is
    called for people; `expires` milliseconds UTC, 0 for never; `id` that of the token, "" for none."""

    tenant: str
    user: str = ""
    roles: frozenset[Role] = frozenset()
    name: str = ""
    expires: int = 0
    id: str = ""

    def has(self, *roles: Role) -> bool:
        """Whether it has one of these roles."""
        return not self.roles.isdisjoint(roles)


class Asker(msgspec.Struct, frozen=True, kw_only=True):
    """A principal, and the user it asks for in this request: "" for nobody in particular."""

    principal: Principal
    user: str = ""

    @property
    def tenant(self) -> str:
        return self.principal.tenant

    @property
    def sees_all(self) -> bool:
        """Whether everything of the tenant is in its sight: an admin that named no user."""
        return self.principal.has("admin") and not self.user

    @property
    def sight(self) -> str | None:
        """Whose sessions are in its sight, as `Stratalog.sessions` takes it: None, everybody's."""
        return None if self.sees_all else self.user

    @property
    def confined(self) -> bool:
        """Whether it is for one user alone, and nothing is for it that other users meet, as what an agent
        remembers of its work: who writes there speaks to them."""
        return not self.principal.has("agent", "admin")

    def may_begin(self, channel: str) -> bool:
        """Whether it may name a session of this channel that is not there yet. Those of MCP clients are named
        after users: who began another's would keep them out of it."""
        return channel != MCP or not self.confined

    @property
    def record_roles(self) -> frozenset[str]:
        """The roles of its `memory.caller.Caller`."""
        return frozenset(("admin",)) if self.sees_all else frozenset()

    def sees(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a session of which this was said is in its sight: the user's alone, or nobody's where none
        is asked for."""
        return self.sees_all or is_whose(metadata, self.user)

    def signature(self) -> dict[str, Any]:
        """What is said of a session that it begins."""
        return {"users": [self.user]} if self.user else {}


def principal(
    tenant: str,
    *,
    roles: Iterable[str],
    user: str = "",
    name: str = "",
    expires: int = 0,
    id: str = "",
) -> Principal:
    """The principal, checked. Raises `InvalidInput` for roles that there are not or none at all and a `user`
    role without a user, and `InvalidKey` for ids that `stratalog.keys` does not allow."""
    given = frozenset(roles)
    if not given or not given <= set(ROLES):
        raise InvalidInput("a token needs a role", hint=f"roles are {', '.join(ROLES)}")
    if "user" in given and not user:
        raise InvalidInput("a token with the role `user` is for one user", hint="name the user")
    return Principal(
        tenant=tenant_id(tenant),
        user=user_id(user),
        roles=frozenset(role for role in ROLES if role in given),
        name=name,
        expires=expires,
        id=id,
    )


def asker(who: Principal, named: str = "") -> Asker:
    """For whom it asks, where the request names a user. Raises `AccessDenied` where it may not ask for that
    one, or for nobody at all, and `InvalidKey`."""
    named = user_id(named)
    if not who.roles & _TALKING:
        raise AccessDenied("this token may not look at sessions or memory", hint="use one of another role")
    if who.has("agent", "admin"):
        return Asker(principal=who, user=named or who.user)
    if named not in ("", who.user):
        raise AccessDenied(
            "this token is for another user", hint="only the role `agent` or `admin` names one"
        )
    return Asker(principal=who, user=who.user)


def user_id(user: str) -> str:
    """The id of a user, checked as that of a chat is; "" is nobody's. Raises `InvalidKey`."""
    if not user:
        return ""
    try:
        return session_key("any", "any", user).chat
    except InvalidKey as error:
        raise InvalidKey("user" + error.what.removeprefix("chat")) from None
