"""The prompts: what a person may ask a client to begin with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from stratalog.engine import consulting
from stratalog.errors import InvalidInput, NotFound
from stratalog.surfaces.mcp.desk import Desk

_TURNS: Final = 30
_FOUND: Final = 10  # of each source
_TOKENS: Final = 20_000  # characters, which no model counts as more
_LONGEST: Final = 4_000


class Prompt(NamedTuple):
    """A prompt: its name, what it is for, the one argument that it takes ("": none) and what that is."""

    name: str
    title: str
    about: str
    argument: str
    of: str
    run: Callable[[Desk, str], str]


def recall(desk: Desk, topic: str) -> str:
    sight = desk.sight()
    desk.prepare()
    pieces = consulting.matter(sight, desk.records, topic, most=_FOUND)
    found = consulting.block(sight, pieces, tokens=_TOKENS)
    asked = f"What do you know about this: {consulting.line(topic)}"
    return f"{asked}\n\n{found}" if found else f"{asked}\n\nNothing about it was remembered."


def resume(desk: Desk, key: str) -> str:
    sight = desk.sight()
    session = sight.find(key)
    said = consulting.closing(sight, session, limit=_TURNS, tokens=_TOKENS)
    if not said:
        raise NotFound("nothing was said in this session", key=session.key.local)
    return (
        f"Go on where the session {session.key.local} ended. Say in a few lines what it was about and what is"
        f" still open, then ask what to do.\n\n{said}"
    )


def keep(desk: Desk, nothing: str) -> str:
    return (
        "Look at this conversation for what will be worth knowing in later ones: facts about the user,"
        " decisions and their reasons, what was learnt about the work. For each, look with `recall`"
        " whether it is known. What is new, give to `remember` as one sentence that stands alone; what has"
        " changed, to `write_memory` under the key that it has. Keep no secrets, and nothing that only this"
        " conversation needs. Say at the end what you kept."
    )


PROMPTS: Final = (
    Prompt(
        "recall", "What is known", "Begin with what is known about a topic.", "topic", "The topic.", recall
    ),
    Prompt(
        "resume", "Go on", "Go on where an earlier session ended.", "session", "The session's key.", resume
    ),
    Prompt("keep", "Keep what matters", "Remember what of this conversation will matter.", "", "", keep),
)
BY_NAME: Final = {each.name: each for each in PROMPTS}


def given(prompt: Prompt, arguments: Mapping[str, str] | None) -> str:
    """The prompt's argument, "" for one that takes none. Raises `InvalidInput`."""
    named = dict(arguments or {})
    wanted = {prompt.argument} - {""}
    if set(named) != wanted or not all(each.strip() and len(each) <= _LONGEST for each in named.values()):
        takes = f"`{prompt.argument}` of at most {_LONGEST} characters" if wanted else "nothing"
        raise InvalidInput("the arguments of the prompt are wrong", hint=f"{prompt.name} takes {takes}")
    return named.get(prompt.argument, "")
