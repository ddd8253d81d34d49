"""Every Python and console block of README.md and docs/*.md runs; of the others, what can be read is."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from docs.blocks import Block, blocks, pages, run, shim
from stratalog.config import load_settings
from stratalog.demo import transcript_path
from stratalog.surfaces.cli.app import app

_SHELL = set("|<>;&$`*")
_INCLUDED = re.compile(r"--8<--").match  # a file of examples/, which has a test of its own
# Pages whose Python blocks go on from one another: they are run together.
GO_ON = ("README.md", "tutorial.md", "migration.md")
PYTHON = [
    pytest.param([block], id=f"{page.name}:{block.line}")
    for page in pages()
    for block in blocks(page)
    if block.language == "python" and page.name not in GO_ON and not _INCLUDED(block.text)
] + [
    pytest.param([block for block in blocks(page) if block.language == "python"], id=page.name)
    for page in pages()
    if page.name in GO_ON
]
CONSOLE = [
    pytest.param(page, id=page.name) for page in pages() if any(b.language == "console" for b in blocks(page))
]

SHELL = [
    pytest.param(line, id=f"{page.name}:{block.line}:{number}")
    for page in pages()
    for block in blocks(page)
    if block.language == "sh"
    for number, line in enumerate(block.text.splitlines())
    if line.startswith("stratalog ")
]
SETTINGS = [
    pytest.param(block, id=f"{page.name}:{block.line}")
    for page in pages()
    for block in blocks(page)
    if block.language in ("toml", "json")
]


@pytest.mark.parametrize("together", PYTHON)
def test_python_blocks_run(together: list[Block], tmp_path: Path) -> None:
    """A Python block runs by itself in an empty directory, or with the others of its page, in their order."""
    text = "\n".join(block.text for block in together)
    done = run([sys.executable, "-c", text], tmp_path, STRATALOG_DATA=str(tmp_path / "elsewhere"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", CONSOLE)
def test_the_console_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The `$ stratalog` lines of a page run in order on the demo's transcript, each with success. Those of
    the README, and those that need a shell, in a process of their own."""
    path = f"{shim(tmp_path / 'bin')}:/usr/bin:/bin"
    data = str(tmp_path / "data")
    start = f"stratalog import {transcript_path()}"
    lines = [
        line.removeprefix("$ ")
        for block in blocks(page)
        if block.language == "console"
        for line in block.text.splitlines()
        if line.startswith("$ ")
    ]
    assert all(line.startswith("stratalog ") for line in lines), (
        "what is not to be run belongs in a `sh` block"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("STRATALOG_DATA", data)
    for line in (start, *lines):
        words = list(itertools.takewhile(lambda word: not word.startswith("#"), shlex.split(line)))
        if page.name == "README.md" or _SHELL & set(line):
            done = run(["sh", "-c", line], tmp_path, STRATALOG_DATA=data, PATH=path)
            code, told = done.returncode, done.stderr
        else:
            result = CliRunner().invoke(app, words[1:])
            code, told = result.exit_code, result.stderr
        assert code == 0, f"{line}\n{told}"
        assert "Traceback" not in told, f"{line}\n{told}"


@pytest.mark.parametrize("line", SHELL)
def test_a_command_that_is_not_run_is_one_that_there_is(line: str) -> None:
    """A `stratalog` line of a `sh` block, which needs a key, a port or an id, has the names of a command and
    of its options, and values that these take."""
    words = shlex.split(line, comments=True)[1:]
    words = list(itertools.takewhile(lambda word: word not in (">", ">>", "|"), words))
    command = typer.main.get_command(app)
    context = command.make_context("stratalog", words)
    while isinstance(command, typer.core.TyperGroup):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)


@pytest.mark.parametrize("block", SETTINGS)
def test_settings_are_read(block: Block, tmp_path: Path) -> None:
    """A block of settings is as the program takes it; those of other programs are well formed."""
    if block.language == "json":
        assert json.loads(block.text)
    elif "mcp_servers" not in tomllib.loads(block.text):
        (tmp_path / "stratalog.toml").write_text(block.text)
        load_settings(tmp_path)


def test_there_are_blocks_to_run() -> None:
    """The README shows the library three times and the command line once."""
    languages = [block.language for block in blocks(pages()[0])]
    assert languages.count("python") == 3
    assert languages.count("console") == 1
