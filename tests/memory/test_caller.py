"""memory/caller.py: who asks, and which scopes follow from that."""

from __future__ import annotations

import msgspec
import pytest

from stratalog.errors import InvalidInput, InvalidKey
from stratalog.memory.caller import ADMIN, CURATOR, Caller, caller, scopes_of
from stratalog.memory.contract import Scope


def test_a_caller_is_normalised() -> None:
    """Ids are in NFC, a session is written in full and names its agent, the environment is production."""
    who = caller("acme", user="e\u0301", session="bot:cli:1", run="r:1")
    assert who == Caller(tenant="acme", user="é", agent="bot", session="acme/bot:cli:1", run="r:1")
    assert who.environment == "production"
    assert hash(who)


@pytest.mark.parametrize(
    "named",
    [
        {"tenant": ""},
        {"tenant": "a:b"},
        {"tenant": "../a"},
        {"user": "a/b"},
        {"user": "a\nb"},
        {"agent": "a:b"},
        {"run": "x" * 1025},
        {"environment": "a\\b"},
        {"session": "no key"},
        {"session": "other/bot:cli:1"},
        {"session": "bot:cli:1", "agent": "tob"},
        {"user": 7},
        {"token": "a/b"},
    ],
    ids=str,
)
def test_ids_that_cannot_be(named: dict[str, str]) -> None:
    """What `stratalog.keys` does not allow makes no caller, and the error says which part it was."""
    with pytest.raises(InvalidKey) as raised:
        caller(**{"tenant": "acme", **named})
    part = next(reversed(named))
    assert part in str(raised.value) or part in ("session", "agent")


@pytest.mark.parametrize("roles", [["root"], "admin", ["admin", ""]])
def test_there_are_two_roles(roles: list[str]) -> None:
    """A role that there is not is refused, and so is text instead of a list."""
    with pytest.raises(InvalidInput):
        caller("acme", roles=roles)


def test_a_copy_is_checked_too() -> None:
    """A caller cannot be made, copied or decoded with unchecked ids."""
    who = caller("acme", user="ana", session="bot:cli:1")
    with pytest.raises(InvalidKey):
        msgspec.structs.replace(who, tenant="other")
    with pytest.raises(InvalidKey):
        Caller(tenant="acme", session="bot:cli:1")
    with pytest.raises(InvalidKey):
        msgspec.json.decode(b'{"tenant": "acme", "user": "e\xcc\x81"}', type=Caller)
    with pytest.raises(AttributeError):
        who.tenant = "other"  # type: ignore[misc] # frozen


def test_scopes_are_the_callers_own() -> None:
    """Its run, session, user, agent and the tenant's, which it only reads."""
    who = caller("acme", user="ana", session="bot:cli:1", run="r1")
    own = (
        Scope("run", "r1"),
        Scope("session", "acme/bot:cli:1"),
        Scope("user", "ana"),
        Scope("agent", "bot"),
    )
    assert scopes_of(who).read == (*own, Scope("tenant"))
    assert scopes_of(who).write == own


def test_a_token_changes_nothing_but_who_is_named() -> None:
    """By which token it was recognised neither widens what a caller sees nor stands in a history."""
    who, other = caller("acme", user="ana", token="0a"), caller("acme", user="ana")
    assert (who.token, other.token) == ("0a", "")
    assert scopes_of(who) == scopes_of(other)
    assert who.actor == other.actor


def test_nobody_has_only_what_is_shared() -> None:
    """A caller of a tenant alone reads what the tenant shares, and writes nothing."""
    assert scopes_of(caller("acme")).read == (Scope("tenant"),)
    assert scopes_of(caller("acme")).write == ()


@pytest.mark.parametrize("role", [ADMIN, CURATOR])
def test_who_writes_what_is_shared(role: str) -> None:
    """Admins and curators write the tenant's scope."""
    assert Scope("tenant") in scopes_of(caller("acme", roles=[role])).write


def test_the_actor_tells_who_it_was() -> None:
    """The name in a history is JSON of the ids that there are, so that no id can feign another."""
    assert caller("acme", user='a","agent":"b').actor == '{"user":"a\\",\\"agent\\":\\"b"}'
    assert caller("acme").actor == "{}"
