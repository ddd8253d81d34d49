"""Anthropic's memory tool with Stratalog behind it: what Claude keeps in `/memories` lasts, in all versions.

    memory = Stratalog("data")
    tool = MemoryTool(memory, agent="assistant", user="ana")
    client.beta.messages.tool_runner(model=…, max_tokens=…, tools=[tool], messages=[…]).until_done()

The files of one user of one agent are the working memory of the session `agent:memory:user`: a file is a key,
its path, and each change an appended entry, so `versions` has every text that a file ever had. Nothing is on
the file system under a name that a model chose: a path is a list of names below `/memories`, compared letter
by letter, and one that looks as if it led elsewhere is refused. Folders are there as long as files are in
them. Several processes may use one user's files: a change is made while no other one is.

What is answered is as short as what the SDK's own tool for local files answers, and in its words; what is
refused is a `ToolError`, which the runner gives the model as an error. A result that context management
clears is lost to nobody: the file is read again by `view`.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import msgspec
from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaCacheControlEphemeralParam,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from stratalog.engine.aio import AsyncStratalog
from stratalog.engine.core import Stratalog
from stratalog.engine.session import Session
from stratalog.errors import SessionBusy
from stratalog.interop.build import chat_id
from stratalog.keys import session_key
from stratalog.types import AnyEntry, WorkingMemory

CHANNEL: Final = "memory"
LARGEST_FILE: Final = 262_144
"""Bytes of UTF-8 that one file may have."""
LARGEST_MEMORY: Final = 4_194_304
"""Bytes of UTF-8 that a user's files may have together."""
MOST_FILES: Final = 1_000
LONGEST_PATH: Final = 512
"""Characters of a path."""

_ROOT = "/memories"
_DEEPEST = 16
_PATIENCE = 10.0  # seconds, until another process's change is done
_TOLD = 500  # characters of a model's own words in an error
_LISTED = 50  # lines that an error names
_NUMBERS = 6  # columns of a line's number, as the SDK's own tool has them
# What decodes to a dot, a slash, a backslash, NUL or a percent sign.
_ENCODED = re.compile(r"%(2e|2f|5c|00|25)", re.IGNORECASE)
_HIDDEN = ("Cc", "Cs", "Zl", "Zp")


class Version(msgspec.Struct, frozen=True):
    """A text that a file had, or None where it was taken away then. `seq` is the entry's number in the
    session, `ts` its time in milliseconds UTC."""

    seq: int
    ts: int
    text: str | None


class MemoryTool(BetaAbstractMemoryTool):
    """The memory tool of one user, whose id may be any text. Its methods raise `ToolError` for what a model
    can do better, and errors of Stratalog's own for what it cannot, such as a full disk."""

    def __init__(
        self,
        memory: Stratalog,
        *,
        agent: str,
        user: str,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        """Raises `InvalidKey` for an agent's name that cannot stand in a key."""
        super().__init__(cache_control=cache_control)
        self.session: Session = memory.session(session_key(agent, CHANNEL, chat_id(user), memory.tenant))

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        path = _path(command, "path")
        files = self._files()
        if path not in files:
            if path != _ROOT and not _below(files, path):
                raise _missing(path)
            return _listed(files, path)
        lines = files[path].split("\n")
        first, last = _range(getattr(command, "view_range", None), len(lines))
        shown = [_numbered(number, lines[number - 1]) for number in range(first, last + 1)]
        return f"Here's the content of {path} with line numbers:\n" + "\n".join(shown)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        path, words = _path(command, "path"), _words(command, "file_text")
        with self._changing() as files:
            if path in files:
                raise ToolError(f"File {path} already exists")
            _check_place(files, path)
            self._write(files, {path: words})
        return f"File created successfully at: {path}"

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        path, old, new = _path(command, "path"), _words(command, "old_str"), _words(command, "new_str", "")
        with self._changing() as files:
            before = _file(files, path)
            place = _only_place(before, old, path)
            after = before[:place] + new + before[place + len(old) :]
            self._write(files, {path: after})
        lines = after.split("\n")
        changed = before.count("\n", 0, place) + 1
        near = range(max(1, changed - 2), min(len(lines), changed + 2) + 1)
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            + "\n".join(_numbered(number, lines[number - 1]) for number in near)
        )

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        path, words = _path(command, "path"), _words(command, "insert_text")
        line = getattr(command, "insert_line", None)
        with self._changing() as files:
            lines = _file(files, path).removesuffix("\n").split("\n") if _file(files, path) else []
            if not isinstance(line, int) or not 0 <= line <= len(lines):
                may = f"It should be within the range [0, {len(lines)}]."
                raise ToolError(f"Invalid `insert_line` parameter: {line}. {may}")
            lines.insert(line, words.rstrip("\n"))
            self._write(files, {path: "\n".join(lines).removesuffix("\n") + "\n"})
        return f"The file {path} has been edited."

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        path = _path(command, "path")
        if path == _ROOT:
            raise ToolError("Cannot delete the /memories directory itself")
        with self._changing() as files:
            gone = [path] if path in files else _below(files, path)
            if not gone:
                raise ToolError(f"The path {path} does not exist")
            self._write(files, dict.fromkeys(gone))
        return f"Successfully deleted {path}"

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        old, new = _path(command, "old_path"), _path(command, "new_path")
        if old == _ROOT:
            raise ToolError("Cannot rename the /memories directory itself")
        with self._changing() as files:
            moved = [old] if old in files else _below(files, old)
            if not moved:
                raise ToolError(f"The path {old} does not exist")
            if new == _ROOT or new in files or _below(files, new):
                raise ToolError(f"The destination {new} already exists")
            if new.startswith(f"{old}/"):
                raise ToolError(f"{old} cannot be moved into itself")
            _check_place(files, new)
            for path in moved:
                _check_length(new + path.removeprefix(old))
            there: dict[str, str | None] = {new + path.removeprefix(old): files[path] for path in moved}
            self._write(files, dict.fromkeys(moved) | there)
        return f"Successfully renamed {old} to {new}"

    def clear_all_memory(self) -> str:
        """Takes every file away; the versions stay."""
        with self._changing() as files:
            if files:
                self.session.append(WorkingMemory(op="clear"))
        return "All memory cleared"

    def versions(self, path: str) -> list[Version]:
        """Every text that the file had, oldest first, and when it was taken away."""
        found: list[Version] = []
        there = False
        for entry in self.session.entries():
            if not isinstance(entry, WorkingMemory) or (entry.op != "clear" and entry.key != path):
                continue
            if entry.op == "set" or there:
                text = str(entry.value) if entry.op == "set" else None
                found.append(Version(entry.seq, entry.ts, text))
            there = entry.op == "set"
        return found

    def _files(self) -> dict[str, str]:
        """The texts by their paths, as the log has them now."""
        return {
            path: words for path, words in self.session.meta.working_memory.items() if _is_file(path, words)
        }

    @contextmanager
    def _changing(self) -> Iterator[dict[str, str]]:
        """The files, while nobody else changes them. Raises `SessionBusy`."""
        deadline = time.monotonic() + _PATIENCE
        with ExitStack() as held:
            while True:
                try:
                    held.enter_context(self.session.held())
                    break
                except SessionBusy:
                    if time.monotonic() >= deadline:
                        raise
                time.sleep(0.01)
            yield self._files()

    def _write(self, files: Mapping[str, str], changes: Mapping[str, str | None]) -> None:
        """Appends the changes, all or none; None takes a file away. Raises `ToolError` over a limit."""
        for path, words in changes.items():
            size = len((words or "").encode())
            if size > LARGEST_FILE:
                raise ToolError(
                    f"{path} would have {size:,} bytes; {LARGEST_FILE:,} are allowed. Keep less in one file."
                )
        after = {path: words for path, words in {**files, **changes}.items() if words is not None}
        whole = sum(len(words.encode()) for words in after.values())
        grows = any(words is not None for words in changes.values())
        if grows and (whole > LARGEST_MEMORY or len(after) > MOST_FILES):
            raise ToolError(
                f"/memories would have {len(after):,} files with {whole:,} bytes; {MOST_FILES:,} with"
                f" {LARGEST_MEMORY:,} are allowed. Delete what is no longer needed."
            )
        entries: list[AnyEntry] = [
            WorkingMemory(op="delete", key=path)
            if words is None
            else WorkingMemory(op="set", key=path, value=words)
            for path, words in changes.items()
            if files.get(path) != words
        ]
        if entries:
            self.session.append(*entries)


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for the asynchronous client: each call runs in a thread of the memory's own."""

    def __init__(
        self,
        memory: AsyncStratalog,
        *,
        agent: str,
        user: str,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self.sync = MemoryTool(memory.sync, agent=agent, user=user)
        self._run = memory.run

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return await self._run(self.sync.view, command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return await self._run(self.sync.create, command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await self._run(self.sync.str_replace, command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return await self._run(self.sync.insert, command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return await self._run(self.sync.delete, command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return await self._run(self.sync.rename, command)

    async def clear_all_memory(self) -> str:
        return await self._run(self.sync.clear_all_memory)


# --- paths ---


def _path(command: Any, field: str) -> str:
    """The path in its one form, `/memories/name/name`. The runner does not check what a model gave."""
    given = getattr(command, field, None)
    if not isinstance(given, str):
        raise ToolError(f"`{field}` is missing: it is a path such as /memories/notes.md")
    path = unicodedata.normalize("NFC", given)
    if path != _ROOT and not path.startswith(f"{_ROOT}/"):
        raise ToolError(f"Path must start with /memories, got: {ascii(given)[1:-1][:200]}")
    names = [name for name in path.split("/") if name]
    if any(_is_strange(name) for name in names):
        raise ToolError(f"Path {ascii(given)[1:-1][:200]} would escape /memories directory")
    found = "/" + "/".join(names)
    _check_length(found)
    return found


def _is_strange(name: str) -> bool:
    """Whether the name might lead elsewhere, were it one of a file system, or cannot be seen."""
    strange = name in (".", "..") or "\\" in name or _ENCODED.search(name) is not None
    return strange or any(unicodedata.category(char) in _HIDDEN for char in name)


def _check_length(path: str) -> None:
    if len(path) > LONGEST_PATH or path.count("/") > _DEEPEST:
        may = f"{LONGEST_PATH} characters and {_DEEPEST - 1} names below /memories are allowed"
        raise ToolError(f"The path is too long: {may}")


def _check_place(files: Mapping[str, str], path: str) -> None:
    """Raises `ToolError` where a new file cannot be: at a folder, or below a file."""
    if path == _ROOT or _below(files, path):
        raise ToolError(f"File {path} already exists as a directory")
    names = path.split("/")
    for count in range(3, len(names)):
        parent = "/".join(names[:count])
        if parent in files:
            raise ToolError(f"The path {parent} is a file, not a directory")


def _below(files: Mapping[str, str], folder: str) -> list[str]:
    return [path for path in files if path.startswith(f"{folder}/")]


def _file(files: Mapping[str, str], path: str) -> str:
    if path in files:
        return files[path]
    if path == _ROOT or _below(files, path):
        raise ToolError(f"The path {path} is not a file.")
    raise _missing(path)


def _is_file(path: str, words: object) -> bool:
    """Whether this of a session's working memory is a file: the session may hold other things too."""
    return path.startswith(f"{_ROOT}/") and isinstance(words, str)


def _missing(path: str) -> ToolError:
    return ToolError(f"The path {path} does not exist. Please provide a valid path.")


# --- words ---


def _words(command: Any, field: str, default: str | None = None) -> str:
    given = getattr(command, field, None)
    given = default if given is None else given
    if not isinstance(given, str):
        raise ToolError(f"`{field}` is missing: it is text")
    if any("\ud800" <= char <= "\udfff" for char in given):
        raise ToolError(f"`{field}` has a half of a surrogate pair, which is no character")
    return given


def _only_place(text: str, words: str, path: str) -> int:
    """Where the words begin, which are there once. Raises `ToolError`."""
    count = text.count(words)
    told = words if len(words) <= _TOLD else f"{words[:_TOLD]}…"
    if count == 0:
        raise ToolError(f"No replacement was performed, old_str `{told}` did not appear verbatim in {path}.")
    place = text.find(words)
    if count == 1:
        return place
    lines: list[str] = []
    while place >= 0 and len(lines) < _LISTED:
        lines.append(str(text.count("\n", 0, place) + 1))
        place = text.find(words, place + 1)
    raise ToolError(
        f"No replacement was performed. Multiple occurrences of old_str `{told}` in lines:"
        f" {', '.join(lines)}. Please ensure it is unique"
    )


def _range(given: object, count: int) -> tuple[int, int]:
    """The first and last line to show, of `count`; -1 is the last one."""
    if not isinstance(given, list) or len(given) != 2 or not all(isinstance(each, int) for each in given):
        return 1, count
    return max(1, given[0]), count if given[1] == -1 else min(given[1], count)


def _numbered(number: int, line: str) -> str:
    return f"{number:>{_NUMBERS}}\t{line}"


def _listed(files: Mapping[str, str], folder: str) -> str:
    """The folder and what is in it up to two levels, each with its size; names with a dot before them are
    not shown."""
    sizes: dict[tuple[str, ...], int] = {}
    kinds: dict[tuple[str, ...], str] = {}
    whole = 0
    for path in _below(files, folder):
        size = len(files[path].encode())
        whole += size
        names = tuple(path.removeprefix(f"{folder}/").split("/"))
        if any(name.startswith(".") for name in names[:2]):
            continue
        for depth in range(1, min(2, len(names)) + 1):
            sizes[names[:depth]] = sizes.get(names[:depth], 0) + size
            kinds[names[:depth]] = "" if depth == len(names) else "/"
    lines = [f"{_size(whole)}\t{folder}"]
    lines += [f"{_size(sizes[names])}\t{folder}/{'/'.join(names)}{kinds[names]}" for names in sorted(sizes)]
    header = f"Here're the files and directories up to 2 levels deep in {folder}, excluding hidden items:"
    return "\n".join([header, *lines])


def _size(count: int) -> str:
    """Bytes as the SDK's own tool says them: `0B`, `900B`, `1.5K`."""
    units = "BKMG"
    power = min(max(0, count.bit_length() - 1) // 10, len(units) - 1)
    size = count / 1024**power
    return f"{size:.0f}{units[power]}" if size == int(size) else f"{size:.1f}{units[power]}"
