"""The formats of an export by their names: the door of exporting, beside `detect` for importing.

for chunk in exported("html", session.key, session.meta.title, session.entries()): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from stratalog.errors import InvalidInput
from stratalog.interop.export import to_jsonl, to_markdown
from stratalog.interop.export_html import to_html
from stratalog.interop.export_messages import to_anthropic, to_openai, to_sharegpt
from stratalog.interop.export_style import POLICY
from stratalog.keys import SessionKey
from stratalog.types import AnyEntry


class Export(NamedTuple):
    """A format: the media type of what it gives, in UTF-8, and its writer, of bytes or of text. That of
    `jsonl` takes the session's metadata too. `headers` are what goes with it over HTTP."""

    media_type: str
    write: Callable[..., Iterator[bytes] | Iterator[str]]
    headers: Mapping[str, str] = {}


EXPORTS: Final[dict[str, Export]] = {
    "jsonl": Export("application/x-ndjson", to_jsonl),
    "markdown": Export("text/markdown", to_markdown),
    "html": Export(
        "text/html",
        to_html,
        {"content-security-policy": f"{POLICY}; frame-ancestors 'none'; sandbox"},
    ),
    "openai": Export("application/json", to_openai),
    "anthropic": Export("application/json", to_anthropic),
    "sharegpt": Export("application/x-ndjson", to_sharegpt),
}


def exported(
    format: str,
    key: SessionKey,
    title: str,
    entries: Iterable[AnyEntry],
    metadata: Mapping[str, Any] | None = None,
) -> Iterator[bytes]:
    """The session in this format, in pieces. `metadata` goes with `jsonl` alone, the others have no place for
    it. Raises `InvalidInput` for a format that is not one of `EXPORTS`."""
    found = EXPORTS.get(format)
    if found is None:
        raise InvalidInput(
            "there is no such format to export", format=format, hint=f"the formats are {', '.join(EXPORTS)}"
        )
    if format == "jsonl":
        return to_jsonl(entries, key=key, title=title, metadata=metadata)
    pieces = found.write(key, title, entries)
    return (piece if isinstance(piece, bytes) else piece.encode("utf-8", "replace") for piece in pieces)
