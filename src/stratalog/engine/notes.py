"""What notes in a log say of what a mind knows; see docs/decisions/0012."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from stratalog.sessions.catalog import whose
from stratalog.sessions.meta import BLOCKS, REMEMBERED
from stratalog.types import AnyEntry, Note, User

RECALLED: Final = "recalled"
_TAG: Final = 16  # hex digits
ASKER: Final = "user_id"  # in the meta of a message: who said it, as the records know them


class Blocks(msgspec.Struct, frozen=True):
    """Texts that stand before the conversation, the ids of the records that they tell of, and for whom they
    are: a session of several users has others for each."""

    texts: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    whose: str = ""


def blocks_note(blocks: Blocks) -> Note:
    return Note(
        kind=BLOCKS,
        data={"blocks": list(blocks.texts), "ids": list(blocks.ids), "whose": blocks.whose},
    )


def blocks_of(note: Note) -> Blocks:
    """What a note of the kind `memory_blocks` says; of one that somebody else wrote what can be read."""
    data = note.data if isinstance(note.data, dict) else {}
    return Blocks(_texts(data.get("blocks")), _texts(data.get("ids")), str(data.get("whose", "")))


def users_in(metadata: Mapping[str, Any]) -> list[str]:
    """Whose a session is of which this is said."""
    told = metadata.get("users")
    listed = [told] if isinstance(told, str) else told if isinstance(told, list | tuple) else []
    return [each for each in listed if isinstance(each, str) and each]


def is_whose(metadata: Mapping[str, Any], user: str) -> bool:
    """Whether a session of which this is said is this user's alone, or nobody's where `user` is "", as
    `catalog.whose` tells."""
    return whose(metadata) == user


def asker_of(message: AnyEntry | None, users: Sequence[str]) -> str:
    """Who said the message, of a session of these users; "" where that is not known."""
    said = (message.meta or {}).get(ASKER) if isinstance(message, User) else None
    if isinstance(said, str) and said:
        return said
    return users[0] if len(users) == 1 else ""


def remembered_note(seq: int) -> Note:
    """Turns that ended up to the entry `seq` are in the records, or are not to be."""
    return Note(kind=REMEMBERED, data={"seq": seq})


def tag_of(id: str) -> str:
    """What a note says of a text that was recalled: a hash of its id, which may name another session."""
    return hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:_TAG]


def recalled_note(tags: Iterable[str]) -> Note:
    """What the turn is shown of what is remembered."""
    return Note(kind=RECALLED, data={"shown": list(tags)})


def tags_in(note: Note) -> frozenset[str]:
    """What a note of the kind `recalled` says; of one that somebody else wrote what can be read."""
    data = note.data if isinstance(note.data, dict) else {}
    return frozenset(_texts(data.get("shown")))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list | tuple) else ()
