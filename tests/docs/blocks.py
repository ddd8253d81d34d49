"""The code blocks of a Markdown page, and running them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROOT = Path(__file__).parents[2]


class Block(NamedTuple):
    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of the page, in order, with the lines where they begin."""
    text = page.read_text("utf-8")
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in _FENCE.finditer(text)]


def pages() -> list[Path]:
    """README.md and the pages of docs/, without the decisions."""
    told = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", *(page for page in told if page.parent.name != "decisions")]


def shim(folder: Path) -> Path:
    """A folder with a `stratalog` that this very Python runs."""
    folder.mkdir()
    script = folder / "stratalog"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stratalog "$@"\n')
    script.chmod(0o755)
    return folder


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in the folder, with the data directory and all else that it might touch below it."""
    env = {**os.environ, "HOME": str(folder), "PYTHONIOENCODING": "utf-8", **environment}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )
