"""SessionKey: the only place where an id becomes a key, a directory or a file name.

A key is written `tenant/agent:channel:chat`. Names on disk are injective (two keys never share one), the same
under any case folding, and safe on every platform: letters a-z, digits, `-` and `_` stand for themselves,
every other byte of the UTF-8 form is `=` and two hexadecimal digits, `~` separates channel and chat. A name
that would be too long ends in `~~` and 32 digits of its SHA-256; the log's first line has the true key.

Ids are normalised to NFC, so that the same letters typed two ways are one session. Letters that only look
alike (Latin a, Cyrillic а) stay different.
"""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata
from pathlib import Path
from typing import NamedTuple

from stratalog.errors import InvalidKey

_MAX_ID = 1024
_MAX_NAME = 120
_MAX_DIR = 64
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])\Z")
_FORM = "a key is written tenant/agent:channel:chat, or agent:channel:chat for the tenant `local`"


class SessionKey(NamedTuple):
    """Names one conversation. Make it with `session_key` or `parse_key`, which check every part."""

    tenant: str
    agent: str
    channel: str
    chat: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.agent}:{self.channel}:{self.chat}"

    @property
    def local(self) -> str:
        """The key without its tenant."""
        return f"{self.agent}:{self.channel}:{self.chat}"

    @property
    def file_name(self) -> str:
        """The stem of the session's files within its agent's directory."""
        return _shorten(f"{_encode(self.channel)}~{_encode(self.chat)}", _MAX_NAME)


def session_key(agent: str, channel: str, chat: str, tenant: str = "local") -> SessionKey:
    """The key for these ids, each checked and normalised.

    Raises `InvalidKey` for an id that is empty, not a string, longer than 1,024 characters, has a control
    character, a lone surrogate, `/` or a backslash, is `.` or `..`, or (all but `chat`) a colon.
    """
    return SessionKey(
        tenant_id(tenant),
        _checked("agent", agent, colon=False),
        _checked("channel", channel, colon=False),
        _checked("chat", chat, colon=True),
    )


def tenant_id(tenant: str) -> str:
    """The tenant's id, checked and normalised as by `session_key`."""
    return _checked("tenant", tenant, colon=False)


def parse_key(text: str | SessionKey, tenant: str = "local") -> SessionKey:
    """The key that `text` writes; `tenant` is used where it names none. Raises `InvalidKey`."""
    if isinstance(text, SessionKey):
        return session_key(text.agent, text.channel, text.chat, text.tenant)
    if not isinstance(text, str):
        raise InvalidKey(f"a session key is text, not {type(text).__name__}", hint=_FORM)
    head, slash, rest = text.partition("/")
    parts = (rest if slash else text).split(":", 2)
    if len(parts) != 3:
        raise InvalidKey("this is not a session key", key=ascii(text), hint=_FORM)
    agent, channel, chat = parts
    return session_key(agent, channel, chat, head if slash else tenant)


def dir_name(value: str) -> str:
    """The directory for a tenant or an agent."""
    encoded = _encode(value)
    if _RESERVED.match(encoded):
        encoded = f"={ord(encoded[0]):02x}{encoded[1:]}"
    return _shorten(encoded, _MAX_DIR)


def _checked(part: str, value: str, *, colon: bool) -> str:
    if not isinstance(value, str):
        raise InvalidKey(f"{part} must be text, not {type(value).__name__}", hint=_FORM)
    value = unicodedata.normalize("NFC", value)
    shown = ascii(value[:80])
    if not value:
        raise InvalidKey(f"{part} is empty", hint=_FORM)
    if len(value) > _MAX_ID:
        raise InvalidKey(f"{part} has {len(value)} characters; {_MAX_ID} are allowed", **{part: shown})
    if value in (".", ".."):
        raise InvalidKey(f"{part} cannot be a relative path", **{part: shown})
    for char in value:
        if char in "/\\" or (char == ":" and not colon):
            raise InvalidKey(f"{part} cannot contain {char!r}", **{part: shown})
        if unicodedata.category(char) in ("Cc", "Cs"):
            raise InvalidKey(f"{part} has a control character or a lone surrogate", **{part: shown})
    if _escapes(value):
        raise InvalidKey(f"{part} cannot contain an encoded path separator", **{part: shown})
    return value


def _escapes(value: str) -> bool:
    """Whether a later percent-decoding would make a path of it."""
    return re.search(r"%(25)*(2f|5c|00)", value, re.IGNORECASE) is not None


_ENCODED = re.compile("=([0-9a-f]{2})")
_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")


def _encode(value: str) -> str:
    return "".join(chr(byte) if byte in _SAFE else f"={byte:02x}" for byte in value.encode())


def _shorten(name: str, limit: int) -> str:
    if len(name) <= limit:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return f"{name[: limit - 34]}~~{digest}"


class SessionPaths(NamedTuple):
    """Where one session's files are. All share the stem, so that a person can see what belongs together."""

    log: Path
    meta: Path
    lock: Path
    archive: Path
    blobs: Path
    quarantine: Path


@functools.lru_cache(4096)
def session_paths(root: Path, key: SessionKey) -> SessionPaths:
    """The files of a session under the data directory `root`; nothing is created."""
    return paths_of_stem(sessions_dir(root, key.tenant, key.agent) / key.file_name)


def paths_of_stem(stem: Path) -> SessionPaths:
    """The files that share the stem `stem`."""
    suffixes = (".jsonl", ".meta.json", ".lock", ".archive", ".blobs", ".quarantine")
    return SessionPaths(*(stem.with_name(stem.name + suffix) for suffix in suffixes))


def tenant_path(root: Path, tenant: str) -> Path:
    """The directory that holds everything of one tenant."""
    return root / dir_name(tenant_id(tenant))


def tenant_named(directory: str) -> str | None:
    """The tenant whose directory has this name; None where the name does not tell, for it was too long."""
    try:
        tenant = tenant_id(
            _ENCODED.sub(lambda byte: chr(int(byte[1], 16)), directory).encode("latin-1").decode()
        )
    except (InvalidKey, UnicodeError):
        return None
    return tenant if dir_name(tenant) == directory else None


def purge_note_path(root: Path, tenant: str) -> Path:
    """The file that is there while a purge of the tenant is not finished."""
    return tenant_path(root, tenant) / "purge.json"


def sessions_dir(root: Path, tenant: str, agent: str) -> Path:
    """The directory of one agent's sessions."""
    return tenant_path(root, tenant) / "agents" / dir_name(agent) / "sessions"


def agent_memory_path(root: Path, tenant: str, agent: str, environment: str = "production") -> Path:
    """The file of what an agent knows."""
    directory = tenant_path(root, tenant) / "agents" / dir_name(agent) / "memory"
    return _within(directory, environment) / "MEMORY.md"


def user_memory_path(root: Path, tenant: str, user: str, environment: str = "production") -> Path:
    """The file of what is known of a user."""
    return _within(tenant_path(root, tenant) / "users" / dir_name(user), environment) / "USER.md"


def _within(directory: Path, environment: str) -> Path:
    return directory if environment == "production" else directory / dir_name(environment)
