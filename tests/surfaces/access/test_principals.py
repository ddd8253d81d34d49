"""What a principal may do, and which sessions are in its sight."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import AccessDenied, InvalidKey
from stratalog.surfaces.access.principals import Asker, asker, principal

ANA = principal("acme", roles=["user"], user="ana")
SERVICE = principal("acme", roles=["agent"])
ADMIN = principal("acme", roles=["admin"])
SAID = [
    {},
    {"users": []},
    {"users": ["ana"]},
    {"users": "ana"},
    {"users": ["ben"]},
    {"users": ["ana", "ben"]},
]


def _seen(who: Asker) -> list[int]:
    return [place for place, said in enumerate(SAID) if who.sees(said)]


def test_a_user_sees_its_own_sessions_alone() -> None:
    """Neither another's, nor one of several users, nor nobody's."""
    assert _seen(asker(ANA)) == [2, 3]
    assert _seen(asker(ANA, "ana")) == [2, 3]


def test_a_user_names_no_other() -> None:
    """A request that names another user is refused, not answered for one's own."""
    with pytest.raises(AccessDenied):
        asker(ANA, "ben")


def test_a_service_asks_for_the_user_it_names() -> None:
    """It sees that user's, and nobody's where it names none."""
    assert _seen(asker(SERVICE, "ben")) == [4]
    assert _seen(asker(SERVICE)) == [0, 1]


def test_an_admin_sees_all_until_it_names_a_user() -> None:
    """Everything of its tenant; for a named user what is that user's, with no more rights."""
    assert _seen(asker(ADMIN)) == list(range(len(SAID)))
    assert asker(ADMIN).record_roles == {"admin"}
    assert _seen(asker(ADMIN, "ana")) == [2, 3]
    assert asker(ADMIN, "ana").record_roles == frozenset()


def test_a_token_for_metrics_is_for_nothing_else() -> None:
    """It asks for nobody at all."""
    with pytest.raises(AccessDenied):
        asker(principal("acme", roles=["metrics"]))


def test_a_user_named_is_an_id() -> None:
    """What would be a path is refused."""
    with pytest.raises(InvalidKey):
        asker(SERVICE, "../ana")


@given(st.sampled_from([ANA, SERVICE, ADMIN]), st.sampled_from(["", "ana", "ben"]))
def test_what_one_begins_is_in_its_own_sight_alone(who: object, named: str) -> None:
    """A session signed by an asker is seen by it, and by no user of another name."""
    try:
        mine = asker(who, named)  # type: ignore[arg-type]  # a principal, which hypothesis does not know
    except AccessDenied:
        return
    signed = mine.signature()
    assert mine.sees(signed)
    other = asker(principal("acme", roles=["user"], user="eve"))
    assert not other.sees(signed)
