"""Images, sounds and files as providers take them: bytes in base64, or the address of something they fetch.

What cannot be given is told in words, so that a model knows that something was there.
"""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

from stratalog.types import Audio, Data, File, Image

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
PDF = "application/pdf"
_WORDS = re.compile(r"text/.*|application/(json|xml|yaml|toml|javascript|x-ndjson)")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,(.+)\Z", re.DOTALL)
_ADDRESS = re.compile(r"https?://\S+\Z")
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


class Inline(NamedTuple):
    """Bytes in base64."""

    media_type: str
    data: str

    @property
    def url(self) -> str:
        return f"data:{self.media_type};base64,{self.data}"


def inline(part: Image | Audio | File) -> Inline | None:
    """The part's bytes, whether it holds them or names them by a data: URL; None when it does neither."""
    if part.data:
        return Inline(part.media_type, base64.b64encode(part.data).decode())
    found = _DATA_URL.match(part.url)
    return Inline(found.group(1) or part.media_type, found.group(2)) if found else None


def image(part: Image) -> Inline | None:
    """An image's bytes, of a type that providers take. Its first bytes tell the type better than its name."""
    found = inline(part)
    if found is None:
        return None
    beginning = part.data[:16] or _decoded(found.data[:24])
    told = next((kind for mark, kind in _BEGINNINGS if beginning.startswith(mark)), "")
    if beginning.startswith(b"RIFF") and beginning[8:12] == b"WEBP":
        told = "image/webp"
    kind = told or {"": "image/png", "image/jpg": "image/jpeg"}.get(found.media_type, found.media_type)
    return Inline(kind, found.data) if kind in IMAGES else None


def link(part: Image | Audio | File) -> str:
    """The address of the part, if a provider can fetch it; "" otherwise."""
    return part.url if _ADDRESS.match(part.url) else ""


def words_in(part: File) -> str:
    """The text of a file that is text; "" for any other."""
    if not part.data or not _WORDS.match(part.media_type):
        return ""
    try:
        return part.data.decode()
    except UnicodeDecodeError:
        return ""


def not_shown(part: Image | Audio | File | Data) -> str:
    """The words that stand for a part which cannot be given."""
    if isinstance(part, Data):
        return f"[{part.kind or 'data'} not shown]"
    if isinstance(part, Image) and not part.data and not part.url:
        return "[image not available]"
    name = part.name if isinstance(part, File) else ""
    address = link(part)
    told = " ".join(filter(None, (name, part.media_type, address)))
    return f"[{told or type(part).__name__.lower()} not shown]"


def _decoded(beginning: str) -> bytes:
    try:
        return base64.b64decode(beginning, validate=True)
    except ValueError:
        return b""
