"""The terms of scopes: which documents a filter's condition holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stratalog.keys import session_key
from stratalog.recall.scopes import named, role_terms, scope_terms, session_term, time_terms
from stratalog.recall.terms import terms

KEY = session_key("helper", "web", "1")
DAY = 86_400_000
_TIME = st.integers(-5 * DAY, 40_000 * DAY) | st.integers(-(2**63), 2**63)


@given(ts=_TIME, after=st.none() | _TIME, before=st.none() | _TIME)
def test_time_terms_hold_every_day_of_the_time(ts: int, after: int | None, before: int | None) -> None:
    """What is of the time has one of the terms; what has one is of a day that the time touches; they are
    few."""
    asked = time_terms(after, before)
    has = not set(asked).isdisjoint(scope_terms(1, KEY, "user", ts))
    if (after is None or ts >= after) and (before is None or ts < before):
        assert has
    elif has and 0 <= ts < 40_000 * DAY:
        assert after is None or ts // DAY >= after // DAY
        assert before is None or ts // DAY <= max(before - 1, 0) // DAY
    assert len(asked) <= 280
    assert len(set(asked)) == len(asked)


def test_a_month_takes_few_terms() -> None:
    """Days that fill a longer span are asked for as that."""
    assert time_terms(32 * DAY, 64 * DAY) == ["=t1.1"]
    assert time_terms(31 * DAY, 65 * DAY) == ["=t0.31", "=t1.1", "=t0.64"]
    assert time_terms(5 * DAY, 5 * DAY) == []


@given(st.text(), st.integers(0, 10**6))
def test_no_word_is_a_scope(name: str, sid: int) -> None:
    """No text has a term of a scope, and no id of a session makes a term of another kind."""
    key = KEY._replace(agent=name)
    scope = scope_terms(sid, key, "user", 0)
    assert set(scope).isdisjoint(terms(f"{' '.join(scope)} {name}"))
    assert set(scope) >= {session_term(sid), *named("a", name), *named("c", "web"), *role_terms(["user"])}
    assert all(" " not in term and '"' not in term for term in scope)


def test_roles_are_tags() -> None:
    """What can be no entry's type has no term, so nothing is found by it."""
    assert role_terms(["user", "user", "", 'x"', "\ud800", "a b"]) == ["=ruser"]
