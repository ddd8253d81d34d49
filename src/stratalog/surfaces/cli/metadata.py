"""`metadata`: what is said of a session itself, such as where its records and its words may go."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import msgspec
import typer

from stratalog import Stratalog
from stratalog.engine.session import Session
from stratalog.errors import InvalidInput, InvalidKey, NotFound
from stratalog.surfaces.cli.keys import find
from stratalog.surfaces.cli.plain import counted, safe_json, unicode_text
from stratalog.surfaces.cli.state import KeyArgument, State


def metadata_command(
    state: State,
    key: KeyArgument,
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=VALUE]...",
            help="What to say: JSON where it is JSON, else text. Else all is shown.",
            show_default=False,
        ),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="NAME", help="Take this away; may be said again."),
    ] = None,
) -> None:
    """Show or set what is said of a session itself, such as its residency. A restart keeps it."""
    told = changes(values or (), unset or ())
    with state.memory() as memory:
        session = _session(memory, key, new=bool(told))
        metadata = (session.set_metadata(**told) if told else session.meta).metadata
        out = state.output
        for name, value in metadata.items():
            out.print(out.line(f"{name} = {safe_json(msgspec.json.encode(value).decode(), out.encoding)}"))
        out.tell(f"{counted(len(metadata), 'value')} of {session.key.local}")
        state.finish({"key": str(session.key), "metadata": metadata})


def changes(values: list[str] | tuple[str, ...], unset: list[str] | tuple[str, ...]) -> dict[str, Any]:
    """What `set_metadata` is to be told. Raises `InvalidInput`."""
    told: dict[str, Any] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InvalidInput("a value is written NAME=VALUE", given=unicode_text(text))
        told[name.strip()] = _value(value)
    twice = sorted(set(told) & set(unset))
    if twice:
        raise InvalidInput("this is set and unset at once", names=twice)
    return told | dict.fromkeys(unset)


def _value(text: str) -> Any:
    """The text as JSON where it is that; null is a text too, for what takes a value away is `--unset`."""
    with suppress(msgspec.DecodeError, UnicodeEncodeError):
        value = msgspec.json.decode(text)
        return text if value is None else value
    return unicode_text(text)


def _session(memory: Stratalog, text: str, *, new: bool) -> Session:
    """The session that `text` names; of a `new` one its whole key."""
    try:
        return find(memory, text)
    except NotFound:
        if new:
            with suppress(InvalidKey):
                return memory.session(text)
        raise
