"""The tokens of a data directory: `access.sqlite3` beside the tenants.

A token is written `strata_<id>_<secret>`. Of the secret, 256 bits of chance, only its SHA-256 is kept, so the
file tells nobody how to get in; being random it needs no salt and no slow hash. What a token was made for is
never changed: another is made, and the first revoked, which is seen with the next request.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from stratalog.errors import InvalidInput, LogError, NotFound
from stratalog.ids import now_ms
from stratalog.memory.database import Database
from stratalog.surfaces.access.principals import Principal, Role, principal

FILE: Final = "access.sqlite3"
PREFIX: Final = "strata"
USED_EVERY_MS: Final = 3_600_000  # how exactly is known when a token was last used
_DAY_MS: Final = 86_400_000
_APPLICATION: Final = 0x5374_6C61  # "Stla"
_LONGEST: Final = 200
_MANY: Final = 500  # that are read at once
_AT: Final = re.compile(r"[0-9]{1,17}\Z")
_ID: Final = re.compile(r"[0-9a-f]{12}\Z")
_NONE: Final = bytes(32)
_FIRST: Final = """
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, digest BLOB NOT NULL, tenant TEXT NOT NULL, user TEXT NOT NULL, roles TEXT NOT NULL,
    name TEXT NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, revoked_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX tokens_by_tenant ON tokens (tenant, created_at)"""
_COLUMNS: Final = "id, tenant, user, roles, name, created_at, expires_at, revoked_at, used_at"


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a token, without its secret. Times are milliseconds UTC, 0 for none; `used_at` is
    exact to the hour."""

    id: str
    tenant: str
    user: str
    roles: tuple[Role, ...]
    name: str
    created_at: int
    expires_at: int = 0
    revoked_at: int = 0
    used_at: int = 0


class Made(NamedTuple):
    """A new token: what is kept of it, and its text, which is told this once."""

    token: Token
    text: str


Fault: TypeAlias = Literal["", "unknown", "revoked", "expired"]


class Seen(NamedTuple):
    """Whose token a text is, and why it lets nobody in ("": it does). Of an unknown one, which is every text
    without a right secret, nothing is told."""

    who: Principal | None
    fault: Fault = ""


class TokenPage(NamedTuple):
    """Some tokens; `next` goes on after them, "" at the end."""

    tokens: list[Token]
    next: str = ""


class Tokens:
    """The tokens of the data directory `data`. Safe to use from several threads and processes. `clock` gives
    milliseconds UTC."""

    def __init__(self, data: Path, *, clock: Callable[[], int] = now_ms) -> None:
        self._database = Database(data / FILE, "the list of tokens", _APPLICATION, (_FIRST,))
        self._clock = clock

    def make(
        self, tenant: str, *, roles: Iterable[str], user: str = "", name: str = "", days: float = 0
    ) -> Made:
        """A new token, which holds for so many days (0: until it is revoked). Raises as `principal` does, and
        `InvalidInput` for a name that is no line of at most 200 characters, or days below 0."""
        if len(name) > _LONGEST or not name.isprintable():
            raise InvalidInput("a token's name is one line of at most 200 characters", name=ascii(name[:80]))
        if not 0 <= days < 1_000_000:
            raise InvalidInput("a token holds for a number of days, or 0", days=days)
        who = principal(tenant, roles=roles, user=user, name=name)
        id, secret, now = secrets.token_hex(6), secrets.token_hex(32), self._clock()
        token = Token(
            id=id,
            tenant=who.tenant,
            user=who.user,
            roles=tuple(sorted(who.roles)),
            name=name,
            created_at=now,
            expires_at=now + int(days * _DAY_MS) if days else 0,
        )
        with self._database.writing() as database:
            database.execute(
                f"INSERT INTO tokens (digest, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0)",
                (
                    _digest(secret),
                    token.id,
                    token.tenant,
                    token.user,
                    " ".join(token.roles),
                    token.name,
                    token.created_at,
                    token.expires_at,
                ),
            )
        return Made(token, f"{PREFIX}_{id}_{secret}")

    def list(self, tenant: str) -> list[Token]:
        """The tenant's, the newest first, those that hold no more too."""
        found = self.page(tenant, limit=_MANY)
        tokens = found.tokens
        while found.next:
            found = self.page(tenant, limit=_MANY, after=found.next)
            tokens += found.tokens
        return tokens

    def page(self, tenant: str, *, limit: int, after: str = "") -> TokenPage:
        """At most so many of them, in the same order, after the `next` of the page before. Raises
        `InvalidInput` for a place that no page told."""
        at, id = _place(after)
        with self._database.reading() as database:
            if database is None:
                return TokenPage([])
            rows = database.execute(
                f"SELECT {_COLUMNS} FROM tokens WHERE tenant = ? AND (? = '' OR created_at < ? OR"
                " (created_at = ? AND id > ?)) ORDER BY created_at DESC, id LIMIT ?",
                (tenant, id, at, at, id, limit + 1),
            ).fetchall()
        found = [_token(row) for row in rows]
        last = found[limit - 1] if len(found) > limit else None
        return TokenPage(found[:limit], f"{last.created_at}:{last.id}" if last is not None else "")

    def revoke(self, tenant: str, id: str) -> Token:
        """Ends a token of the tenant at once; a second time changes nothing. Raises `NotFound`."""
        with self._database.writing() as database:
            database.execute(
                "UPDATE tokens SET revoked_at = ? WHERE id = ? AND tenant = ? AND revoked_at = 0",
                (self._clock(), id, tenant),
            )
            row = database.execute(
                f"SELECT {_COLUMNS} FROM tokens WHERE id = ? AND tenant = ?", (id, tenant)
            ).fetchone()
        if row is None:
            raise NotFound("there is no such token", token=id)
        return _token(row)

    def recognise(self, text: str) -> Principal | None:
        """Who the text proves its bearer to be; None for one that is no token, or holds no more."""
        seen = self.look(text)
        return None if seen.fault else seen.who

    def look(self, text: str) -> Seen:
        """The same, with whose token it was that holds no more."""
        prefix, _, rest = text.partition("_")
        id, _, secret = rest.partition("_")
        with self._database.reading() as database:
            query = f"SELECT digest, {_COLUMNS} FROM tokens WHERE id = ?"
            row = database.execute(query, (id,)).fetchone() if database is not None else None
        # An id that there is not takes as long as a secret that is wrong.
        same = hmac.compare_digest(_digest(secret), row[0] if row is not None else _NONE)
        if row is None or not same or prefix != PREFIX:
            return Seen(None, "unknown")
        token, now = _token(row[1:]), self._clock()
        fault = _fault(token, now)
        if not fault and now - token.used_at >= USED_EVERY_MS:
            with suppress(LogError):  # on a full disk a token holds as before
                self._used(token.id, now)
        who = Principal(
            tenant=token.tenant,
            user=token.user,
            roles=frozenset(token.roles),
            name=token.name,
            expires=token.expires_at,
            id=token.id,
        )
        return Seen(who, fault)

    def holds(self, id: str) -> bool:
        """Whether the token of this id is neither revoked nor expired, for one that was recognised before."""
        with self._database.reading() as database:
            query = "SELECT revoked_at, expires_at FROM tokens WHERE id = ?"
            row = database.execute(query, (id,)).fetchone() if database is not None else None
        return row is not None and not row[0] and (not row[1] or row[1] > self._clock())

    def close(self) -> None:
        """Closes the file. It may be used again."""
        self._database.close()

    def _used(self, id: str, now: int) -> None:
        with self._database.writing() as database:
            database.execute("UPDATE tokens SET used_at = ? WHERE id = ?", (now, id))


def _place(after: str) -> tuple[int, str]:
    """The place that was told: when the last token was made, and its id."""
    at, _, id = after.partition(":")
    if after and not (_AT.match(at) and _ID.match(id)):
        raise InvalidInput("this place was not given by a list of tokens", hint="begin without a cursor")
    return int(at or 0), id


def _fault(token: Token, now: int) -> Fault:
    if token.revoked_at:
        return "revoked"
    return "expired" if token.expires_at and token.expires_at <= now else ""


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _token(row: tuple[str, str, str, str, str, int, int, int, int]) -> Token:
    id, tenant, user, roles, name, created_at, expires_at, revoked_at, used_at = row
    return Token(
        id=id,
        tenant=tenant,
        user=user,
        roles=msgspec.convert(roles.split(), tuple[Role, ...]),
        name=name,
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        used_at=used_at,
    )
