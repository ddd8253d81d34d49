"""Tokens: what they prove, and when they do not."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import ForeignFile, InvalidInput, InvalidKey, NewerFormat, NotFound
from stratalog.surfaces.access.tokens import FILE, USED_EVERY_MS, Tokens
from surfaces.terminals import cli

NOW = 1_800_000_000_000
DAY = 86_400_000


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(tmp_path: Path, clock: Clock) -> Tokens:
    return Tokens(tmp_path, clock=clock)


def test_a_token_proves_what_it_was_made_for(tokens: Tokens) -> None:
    """Tenant, user, roles, name and end are those it was made with."""
    made = tokens.make("acme", roles=["user"], user="ana", name="Ana's phone", days=2)
    who = tokens.recognise(made.text)
    assert who is not None
    assert (who.tenant, who.user, who.roles, who.name) == ("acme", "ana", {"user"}, "Ana's phone")
    assert who.expires == NOW + 2 * DAY
    assert who.id == made.token.id
    assert made.text.startswith(f"strata_{made.token.id}_")


def test_only_a_hash_of_the_secret_is_kept(tokens: Tokens, tmp_path: Path) -> None:
    """The secret is in none of the files, its SHA-256 is, and the files are their owner's alone."""
    made = tokens.make("acme", roles=["admin"])
    secret = made.text.rpartition("_")[2]
    assert len(secret) == 64
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert secret.encode() not in kept
    assert hashlib.sha256(secret.encode()).digest() in kept
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_what_is_no_token_proves_nothing(tokens: Tokens) -> None:
    """A wrong secret, id or prefix, a piece of a token, and another's secret are nobody's."""
    one, other = (tokens.make("acme", roles=["admin"]) for _ in range(2))
    prefix, id, secret = one.text.split("_")
    wrong = [
        "",
        "_",
        one.text[:-1],
        one.text + "0",
        one.text.upper(),
        f"{prefix}_{id}_",
        f"{prefix}_{id}",
        f"other_{id}_{secret}",
        f"{prefix}_{other.token.id}_{secret}",
        f"{prefix}_{'0' * 12}_{secret}",
        f"{prefix}_' OR 1=1 --_{secret}",
    ]
    assert [tokens.recognise(text) for text in wrong] == [None] * len(wrong)
    assert tokens.recognise(one.text) is not None


@given(st.text())
def test_no_text_makes_it_fail(text: str) -> None:
    """Whatever is sent as a token, the answer is that it is none."""
    assert Tokens(Path("/nowhere")).recognise(text) is None


def test_a_token_holds_until_its_end(tokens: Tokens, clock: Clock) -> None:
    """A millisecond before its end it holds, at its end it does not."""
    made = tokens.make("acme", roles=["agent"], days=1)
    forever = tokens.make("acme", roles=["agent"])
    clock.now = NOW + DAY - 1
    assert tokens.recognise(made.text) is not None
    clock.now += 1
    assert tokens.recognise(made.text) is None
    clock.now += 1000 * DAY
    assert tokens.recognise(forever.text) is not None


def test_a_revoked_token_holds_no_more(tokens: Tokens, tmp_path: Path, clock: Clock) -> None:
    """Revoking is seen at once, in another process's eyes too, and a second time keeps the first time."""
    made = tokens.make("acme", roles=["agent"])
    elsewhere = Tokens(tmp_path, clock=clock)
    assert elsewhere.recognise(made.text) is not None
    assert tokens.revoke("acme", made.token.id).revoked_at == NOW
    assert elsewhere.recognise(made.text) is None
    clock.now += 5
    assert tokens.revoke("acme", made.token.id).revoked_at == NOW


def test_a_tenant_has_its_own_tokens(tokens: Tokens) -> None:
    """Another tenant's token is neither listed nor revoked."""
    made = tokens.make("acme", roles=["admin"])
    other = tokens.make("zeta", roles=["admin"])
    assert [each.id for each in tokens.list("zeta")] == [other.token.id]
    with pytest.raises(NotFound):
        tokens.revoke("zeta", made.token.id)
    assert tokens.recognise(made.text) is not None


def test_when_it_was_used_is_known_to_the_hour(tokens: Tokens, clock: Clock) -> None:
    """The first use is noted, those within the hour after it are not, the one after that is."""
    made = tokens.make("acme", roles=["admin"])
    for after, noted in ((0, 0), (USED_EVERY_MS - 1, 0), (USED_EVERY_MS, USED_EVERY_MS)):
        clock.now = NOW + after
        tokens.recognise(made.text)
        (found,) = tokens.list("acme")
        assert found.used_at == NOW + noted


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"roles": []}, InvalidInput),
        ({"roles": ["root"]}, InvalidInput),
        ({"roles": ["user"]}, InvalidInput),
        ({"roles": ["admin"], "user": "a/b"}, InvalidKey),
        ({"roles": ["admin"], "name": "two\nlines"}, InvalidInput),
        ({"roles": ["admin"], "name": "x" * 201}, InvalidInput),
        ({"roles": ["admin"], "days": -1}, InvalidInput),
    ],
)
def test_what_cannot_be_a_token_is_refused(
    tokens: Tokens, tmp_path: Path, given: dict[str, object], error: type[Exception]
) -> None:
    """Unknown roles or none, a user's token without a user, and ids that are none make nothing."""
    with pytest.raises(error):
        tokens.make("acme", **given)  # type: ignore[arg-type]  # wrong on purpose
    assert tokens.list("acme") == []


def test_another_programs_file_is_left_alone(tmp_path: Path) -> None:
    """A file of another application, or of a later version, is refused and untouched."""
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute("CREATE TABLE other (x)")
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(ForeignFile):
        Tokens(tmp_path).make("acme", roles=["admin"])
    assert (tmp_path / FILE).read_bytes() == before
    later = tmp_path / "later"
    later.mkdir()
    Tokens(later).make("acme", roles=["admin"])
    with sqlite3.connect(later / FILE) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(NewerFormat):
        Tokens(later).list("acme")


def test_the_command_line_makes_lists_and_revokes(tmp_path: Path) -> None:
    """The token is printed once and proves its bearer; the list has it without its secret; revoked it is
    nobody's."""
    data = tmp_path / "data"
    made = cli("token", "make", "phone", "--user", "ana", "--days", "3", "--json", data=data)
    assert made.exit_code == 0, made.output
    value = json.loads(made.stdout)
    who = Tokens(data).recognise(value["token"])
    assert who is not None
    assert (who.tenant, who.user, who.roles) == ("local", "ana", {"user"})
    listed = cli("token", "list", data=data)
    assert value["id"] in listed.stdout
    assert value["token"].rpartition("_")[2] not in listed.stdout
    assert cli("token", "revoke", value["id"], data=data).exit_code == 0
    assert Tokens(data).recognise(value["token"]) is None
    assert cli("token", "revoke", "nonesuch", data=data).exit_code == 3
