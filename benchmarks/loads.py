"""What the benchmarks write and how they take the time: messages of 400 bytes, and logs of many."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from lab import Lab

from stratalog import osfiles, session_key
from stratalog.engine.session import Session
from stratalog.ids import new_ulid
from stratalog.keys import session_paths
from stratalog.log.jsonl import JsonlStore
from stratalog.types import AnyEntry, Assistant, TurnEnd, TurnStart, User

Fill = Callable[[int], Iterator[AnyEntry]]
BYTES: Final = 400
KEY: Final = session_key("bench", "cli", "main")
_WORDS = "The harbour ferry to the outer islands leaves at seven in the morning and comes back after dark. "


def _content() -> str:
    empty = json.dumps({"role": "user", "content": ""}, separators=(",", ":"))
    return (_WORDS * 10)[: BYTES - len(empty)]


CONTENT: Final = _content()
"""The text of a message whose dictionary of role and content is `BYTES` bytes of compact JSON."""

MESSAGE: Final = {"role": "user", "content": CONTENT}
LINE: Final = json.dumps(MESSAGE, separators=(",", ":")).encode() + b"\n"


def timed(act: Callable[[], object], count: int) -> list[float]:
    """The seconds of each of `count` calls."""
    costs = []
    for _ in range(count):
        start = time.perf_counter()
        act()
        costs.append(time.perf_counter() - start)
    return costs


def messages(count: int) -> Iterator[AnyEntry]:
    """`count` messages of user and assistant in turn, each pair with an id of its turn, and nothing else."""
    turn = ""
    for number in range(count):
        if number % 2 == 0:
            turn = new_ulid()
            yield User(content=CONTENT, turn=turn)
        else:
            yield Assistant(content=CONTENT, turn=turn)


def turns(count: int) -> Iterator[AnyEntry]:
    """`count` entries of turns as the engine writes them: message, start, reply, end."""
    for number in range(0, count, 4):
        turn = new_ulid()
        whole = (
            User(content=CONTENT, turn=turn),
            TurnStart(turn=turn, holder="bench"),
            Assistant(content=CONTENT, turn=turn),
            TurnEnd(turn=turn, status="answered"),
        )
        yield from whole[: count - number]


def whole_turn(chat: Session) -> None:
    """A turn as an agent without tools has it: three appends."""
    with chat.turn(CONTENT) as turn:
        turn.reply(CONTENT)


def filled(lab: Lab, root: Path, fill: Fill, count: int) -> Path:
    """`root` with the log of `KEY` of so many entries in it. It is made once in a lab, then copied."""

    def make() -> Path:
        made = lab.memory
        with closing(JsonlStore(made)) as store:
            store.replace(KEY, fill(count))
        return session_paths(made, KEY).log

    source = lab.once(f"{fill.__name__} {count}", make)
    target = session_paths(root, KEY).log
    osfiles.make_dir(target.parent)
    shutil.copyfile(source, target)
    with target.open("rb+") as file:  # so that no later flush has to write it
        os.fsync(file.fileno())
    return root


def size_of(path: Path) -> int:
    """The bytes of the files below `path`."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
