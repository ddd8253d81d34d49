"""The web console: one page of plain modules, handed out as they stand beside this file.

There is no build step. `static/index.html` names `app.js`, which imports the views; what is not ours is in
`static/vendor`. The page asks the HTTP service as any other client does, and has no other way to the data.

`asset` knows the files by a list that is made once, so a path from a request names one of them or nothing;
it never reaches the file system.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec

INDEX: Final = "index.html"
_TYPES: Final = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "mjs": "text/javascript",
    "svg": "image/svg+xml",
    "txt": "text/plain",
    "md": "text/plain",
}
_INLINE: Final = re.compile(rb"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.DOTALL)


class Asset(msgspec.Struct, frozen=True):
    """A file of the console; text is UTF-8. `etag` is the hash of its bytes, quoted as a header has it."""

    content: bytes
    media_type: str
    etag: str


def asset(path: str) -> Asset | None:
    """The file of this path below `static`, such as `views/memory.js`; "" is the page. None for no file."""
    return _assets().get(path or INDEX)


@cache
def policy() -> str:
    """The `Content-Security-Policy` of the page: nothing but its own files, and the one inline script of
    `index.html`, by its hash, which names the vendored modules."""
    own = " ".join(f"'sha256-{_hash(script)}'" for script in _INLINE.findall(_assets()[INDEX].content))
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' {own}",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src 'self' data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


@cache
def _assets() -> dict[str, Asset]:
    return dict(_found(files("stratalog.surfaces.console") / "static", ""))


def _found(folder: Traversable, prefix: str) -> Iterator[tuple[str, Asset]]:
    for each in folder.iterdir():
        name = prefix + each.name
        if each.is_dir():
            yield from _found(each, f"{name}/")
        elif (kind := _TYPES.get(each.name.rpartition(".")[2])) is not None:
            content = each.read_bytes()
            yield name, Asset(content, kind, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def _hash(script: bytes) -> str:
    return base64.b64encode(hashlib.sha256(script).digest()).decode()
