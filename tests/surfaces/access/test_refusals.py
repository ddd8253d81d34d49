"""Who was turned away has a line in the audit, and no attacker makes it a flood."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.engine.auditing import nobodys_audit
from stratalog.errors import AccessDenied, InvalidInput, InvalidKey, NotFound
from stratalog.memory.audit import FILE, AuditLine, FileAudit
from stratalog.memory.contract import Scope
from stratalog.surfaces.access.principals import Principal
from stratalog.surfaces.access.refusals import Refusals, Tally
from stratalog.surfaces.access.tokens import Tokens
from surfaces.terminals import cli

NOW = 1_800_000_000_000
DAY = 86_400_000
ANA = Principal(tenant="acme", user="ana", roles=frozenset(("user",)), id="0a")
BACKEND = Principal(tenant="acme", roles=frozenset(("agent",)), id="0b")


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[Tokens]:
    made = Tokens(tmp_path, clock=lambda: NOW)
    yield made
    made.close()


def lines(data: Path, tenant: str = "acme") -> list[AuditLine]:
    return list(FileAudit(data).read(tenant))


@given(st.lists(st.sampled_from(["a", "b"]), max_size=300))
def test_of_what_is_alike_the_1st_10th_and_100th_are_told(happened: list[str]) -> None:
    """Each kind is counted by itself, and what is told is how many there were of it."""
    tally = Tally(lambda: 0.0)
    told = [(each, tally.told((each,))) for each in happened]
    for kind in "ab":
        times = [number for each, number in told if each == kind]
        assert times == [at if at in (1, 10, 100) else 0 for at in range(1, len(times) + 1)]


def test_it_is_counted_anew_each_hour() -> None:
    """The first after an hour is the 1st again."""
    now = [0.0]
    tally = Tally(lambda: now[0])
    assert [tally.told(("a",)) for _ in range(3)] == [1, 0, 0]
    now[0] = 3_599.0
    assert tally.told(("a",)) == 0
    now[0] = 3_600.0
    assert tally.told(("a",)) == 1


def test_a_token_that_holds_no_more_is_told_in_its_tenants_audit(tokens: Tokens, tmp_path: Path) -> None:
    """Whose it was, what was asked and why it was refused; a good one leaves no line."""
    refusals = Refusals(tmp_path)
    revoked = tokens.make("acme", roles=["user"], user="ana")
    tokens.revoke("acme", revoked.token.id)
    expired = tokens.make("zeta", roles=["admin"], days=1)
    good = tokens.make("acme", roles=["admin"])
    later = Tokens(tmp_path, clock=lambda: NOW + DAY)
    for made in (revoked, expired, good):
        who = refusals.recognised(later, made.text, "GET /v1/audit", "10.0.0.1")
        assert (who is not None) == (made is good)
    later.close()
    (line,) = lines(tmp_path)
    assert (line.token, line.user, line.roles) == (revoked.token.id, "ana", ("user",))
    assert (line.call, line.ending, line.reason) == ("GET /v1/audit", "refused", "the token is revoked")
    (other,) = lines(tmp_path, "zeta")
    assert (other.token, other.reason) == (expired.token.id, "the token is expired")


def test_an_unknown_token_is_told_in_nobodys_audit(tokens: Tokens, tmp_path: Path) -> None:
    """Also one with a wrong secret, so that nobody learns which ids there are; no word of it is kept, and a
    thousand leave four lines."""
    refusals = Refusals(tmp_path)
    made = tokens.make("acme", roles=["admin"])
    wrong = f"strata_{made.token.id}_{'0' * 64}"
    for number in range(1000):
        text = wrong if number % 2 else f"strata_{number:012x}_beef"
        assert refusals.recognised(tokens, text, f"GET /{'x' * 999}", f"10.0.0.{number % 200}") is None
    found = list(nobodys_audit(tmp_path))
    assert [each.counts for each in found] == [{"times": 10**power} for power in range(4)]
    assert found[0].reason == "no such token, from 10.0.0.0"
    assert len(found[0].call) == 200
    kept = (tmp_path / FILE).read_bytes()
    assert b"beef" not in kept
    assert b"0" * 64 not in kept
    assert made.token.id.encode() not in kept
    assert lines(tmp_path) == []
    shown = cli("--data", str(tmp_path), "token", "refused", "--last", "1").stdout
    assert "no such token" in shown
    assert "times 1,000" in shown


def test_what_a_good_token_may_not_is_told_once(tmp_path: Path) -> None:
    """With whom it named; an error that is no refusal, and one that has its line already, leave none."""
    refusals = Refusals(tmp_path)
    error = AccessDenied("this token is for another user")
    refusals.denied(ANA, error, "GET /v1/me", "ben")
    refusals.denied(ANA, error, "GET /v1/me", "ben")  # it has its line
    refusals.denied(ANA, AccessDenied("this token is for another user"), "GET /v1/me", "zoe")  # the 2nd
    refusals.denied(ANA, InvalidInput("no"), "GET /v1/me")
    refusals.denied(BACKEND, AccessDenied("this needs the role admin"), "GET /v1/audit", "ben")
    refusals.denied(BACKEND, AccessDenied("this needs the role admin"), "GET /v1/jobs", "../x")
    one, two, three = lines(tmp_path)
    assert (one.token, one.user, one.scopes, one.counts) == (
        "0a",
        "ana",
        (Scope("user", "ben"),),
        {"times": 1},
    )
    assert (two.call, two.user, two.scopes) == ("GET /v1/audit", "ben", ())
    assert (three.call, three.user) == ("GET /v1/jobs", "")


def test_what_must_not_be_told_is_told_to_the_audit(tmp_path: Path) -> None:
    """An answer that there is no such thing has the refusal as its cause."""
    refusals = Refusals(tmp_path)
    for kind in (NotFound, InvalidKey):
        error = kind("there is no such session")
        error.__cause__ = AccessDenied("a session of another tenant was named")
        refusals.denied(ANA, error, f"GET /{kind.__name__}")
    assert [each.reason for each in lines(tmp_path)] == ["a session of another tenant was named"] * 2


def test_without_a_line_it_is_refused_all_the_same(
    tokens: Tokens, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An audit that cannot be written is an error in the log, and lets nobody in."""
    (tmp_path / FILE).mkdir()
    assert Refusals(tmp_path).recognised(tokens, "strata_0_0", "GET /", "10.0.0.1") is None
    assert "no line in the audit" in caplog.text
