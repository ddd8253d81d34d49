"""Who asks, by how the server was reached: the owner of the data directory, or the bearer of a token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stratalog.keys import SessionKey, session_key
from stratalog.surfaces.access.principals import MCP, Asker, Principal


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and the agent that does it for them. `session` is the key of the session in which it asks
    where it names none. An `owner` has the data directory: it sees sessions of which no user is known too."""

    asker: Asker
    agent: str
    session: str
    owner: bool = False

    def sees(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a session of which this was said is in its sight."""
        nobodys = Asker(principal=self.asker.principal)
        return self.asker.sees(metadata) or (self.owner and nobodys.sees(metadata))

    def may_begin(self, key: SessionKey) -> bool:
        """Whether a session of this key that it names may be made as its own."""
        return self.owner or key.channel != MCP


def owner(tenant: str, *, user: str = "", agent: str, session: str = "") -> Identity:
    """The one who has the data directory, asking for a user or for nobody in particular. Raises
    `InvalidKey`."""
    who = Principal(tenant=tenant, user=user, roles=frozenset(("agent",)))
    return identity(Asker(principal=who, user=user), agent=agent, session=session, owner=True)


def identity(asker: Asker, *, agent: str, session: str = "", owner: bool = False) -> Identity:
    """The identity, with a session of its own where none is named: each user has another. Raises
    `InvalidKey` for an agent that cannot be one."""
    own = session or session_key(agent, MCP, asker.user or "local").local
    return Identity(asker=asker, agent=agent, session=own, owner=owner)
