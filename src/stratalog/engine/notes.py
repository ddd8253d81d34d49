"""What notes in a log say of what a mind knows; see docs/decisions/0012."""

from __future__ import annotations

import msgspec

from stratalog.sessions.meta import BLOCKS, REMEMBERED
from stratalog.types import Note


class Blocks(msgspec.Struct, frozen=True):
    """Texts that stand before the conversation, and the ids of the records that they tell of."""

    texts: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


def blocks_note(blocks: Blocks) -> Note:
    return Note(kind=BLOCKS, data={"blocks": list(blocks.texts), "ids": list(blocks.ids)})


def blocks_of(note: Note) -> Blocks:
    """What a note of the kind `memory_blocks` says; of one that somebody else wrote what can be read."""
    data = note.data if isinstance(note.data, dict) else {}
    return Blocks(_texts(data.get("blocks")), _texts(data.get("ids")))


def remembered_note(seq: int) -> Note:
    """Turns that ended up to the entry `seq` are in the records, or are not to be."""
    return Note(kind=REMEMBERED, data={"seq": seq})


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list | tuple) else ()
