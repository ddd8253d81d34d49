"""The formats of documents, by name and content, and the one door to their readers.

Readers take bytes and open nothing: whoever names a file reads it.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final, Literal, TypeAlias, get_args

from stratalog.errors import InvalidInput
from stratalog.recall.reading.code import read_code
from stratalog.recall.reading.contract import Parsed
from stratalog.recall.reading.html import read_html
from stratalog.recall.reading.markdown import read_markdown
from stratalog.recall.reading.pdf import read_pdf
from stratalog.recall.reading.text import decoded, is_binary, read_text

Format: TypeAlias = Literal["text", "markdown", "html", "pdf", "code"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
# Raised when the same bytes are read otherwise than before, so that they are read again.
READING: Final = 3

_ENDINGS: Final[dict[Format, str]] = {
    "text": "txt text log rst adoc org csv tsv srt vtt",
    "markdown": "md markdown mdown mkd mdx qmd rmd",
    "html": "html htm xhtml xht",
    "pdf": "pdf",
    "code": "py pyi pyw js mjs cjs jsx ts mts cts tsx java kt kts scala groovy go rs c h cc cpp cxx hh hpp"
    " hxx m mm cs fs vb swift rb php pl pm lua r jl dart ex exs erl hs elm clj cljs ml mli nim zig v sol sql"
    " sh bash zsh fish ps1 bat cmd asm s f f90 pas json jsonl json5 yaml yml toml ini cfg conf properties env"
    " xml xsd svg css scss sass less vue svelte graphql gql proto thrift tf hcl nix cmake make mk gradle"
    " dockerfile makefile",
}
_BY_ENDING: Final[dict[str, Format]] = {
    ending: format for format, endings in _ENDINGS.items() for ending in endings.split()
}
_PYTHON: Final = frozenset(("py", "pyi", "pyw"))
_HTML: Final = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html)\b", re.I | re.S
)
_PYTHON_SHEBANG: Final = re.compile(rb"#!.*\bpython")
_LOOK: Final = 1024
_MEDIA: Final[dict[Format, str]] = {
    "text": "text/plain",
    "markdown": "text/markdown",
    "html": "text/html",
    "pdf": "application/pdf",
    "code": "text/x-source",
}


def format_of(name: str, data: bytes) -> Format:
    """The format of a document by how it begins and how its name ends; text when neither says. Raises
    `InvalidInput` for what is no text and in no format that is read."""
    if data[:_LOOK].lstrip().startswith(b"%PDF-"):
        return "pdf"
    if is_binary(data):
        raise InvalidInput(
            "this is no text, and no format that is read", hint=f"formats are {', '.join(FORMATS)}"
        )
    known = _BY_ENDING.get(_ending(name))
    if known == "pdf":
        raise InvalidInput("this is named like a PDF and is none", hint="say its format")
    if known is not None:
        return known
    if _HTML.match(data[:_LOOK]):
        return "html"
    return "code" if data.startswith(b"#!") else "text"


def media_type_of(format: Format, name: str) -> str:
    """The media type to tell of a document."""
    if format == "code" and _ending(name) in _PYTHON:
        return "text/x-python"
    return _MEDIA[format]


def read(name: str, data: bytes, format: Format) -> Parsed:
    """Reads a document. Raises `InvalidInput` for one that is not in this format, damaged or encrypted, and
    `InvalidConfig` when the package that reads it is not installed."""
    match format:
        case "html":
            return read_html(data)
        case "pdf":
            return read_pdf(data)
        case "markdown":
            return read_markdown(decoded(data))
        case "code":
            python = _ending(name) in _PYTHON or _PYTHON_SHEBANG.match(data) is not None
            return read_code(decoded(data), python=python)
        case "text":
            return read_text(decoded(data))


def _ending(name: str) -> str:
    """What the name ends in, or a name without an ending, when it says a format; "" otherwise."""
    path = PurePosixPath(name.replace("\\", "/").partition("?")[0])
    ending = (path.suffix.removeprefix(".") or path.name).lower()
    return ending if ending in _BY_ENDING else ""
