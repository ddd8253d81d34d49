"""Where the command line writes: results on stdout, all else on stderr.

With `--json` stdout gets one JSON value and nothing besides. Colour, bars and shortened columns are for a
terminal; into a pipe or a file goes the whole text, a line a thing, without either.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, TextIO

import msgspec
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from stratalog.errors import StorageFailed
from stratalog.surfaces.cli.plain import clipped, one_line, plain, safe_json, wrapped

_PAGE = 100
_ENDLESS = 100_000
_TITLE = 80  # graphemes
Told = Callable[[int, int], None]


class Glyphs(NamedTuple):
    """The signs of our own that are drawn. Their plain forms are for an encoding without the others."""

    call: str = "→"
    result: str = "←"
    failed: str = "✗"
    dot: str = "·"
    more: str = "…"
    pin: str = "★"
    rule: str = "─"
    full: str = "█"
    free: str = "░"
    ok: str = "✓"


ASCII = Glyphs(">", "<", "x", "-", "...", "*", "-", "#", ".", "ok")


class ReaderGone(Exception):
    """Whoever read our output, or our messages, has closed the pipe."""


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        # Rich would end the process here, with a code that means something else to us.
        self.quiet = True
        raise ReaderGone


class Output:
    """The two streams of one run. `json` says that stdout is for one JSON value alone."""

    def __init__(self, json: bool = False) -> None:
        self.json = json
        self.out = _console(sys.stdout)
        self.err = _console(sys.stderr)
        self.tty = self.out.is_terminal
        self.encoding = self.out.encoding
        self.glyphs = Glyphs() if self.encoding.startswith("utf") else ASCII
        self.colour = self.out.color_system is not None and not self.out.no_color

    @property
    def width(self) -> int:
        """The cells in a line; a page's where there is no terminal."""
        return self.out.width if self.tty else _PAGE

    def text(self, text: str) -> str:
        """Text from a log, safe to show."""
        return plain(text, self.encoding)

    def line(self, text: str) -> str:
        """Text from a log, on one line and safe to show."""
        return one_line(text, self.encoding)

    def title(self, text: str) -> str:
        """A session's title, on one line, safe to show and of at most 80 graphemes."""
        return self.line(clipped(" ".join(text.split()), _TITLE, self.glyphs.more))

    def wrap(self, text: str, indent: int = 0) -> str:
        """Safe text in lines that fit a terminal; as it is where there is none."""
        return wrapped(text, max(8, self.width - indent)) if self.tty else text

    def clip(self, text: str, cells: int) -> str:
        """A line of at most `cells` cells of a terminal; whole where there is none."""
        if not self.tty:
            return text
        cut = Text(text)
        cut.truncate(max(1, cells), overflow="crop")
        if len(cut.plain) == len(text):
            return text
        cut.truncate(max(1, cells - len(self.glyphs.more)), overflow="crop")
        return cut.plain.rstrip() + self.glyphs.more

    def print(self, text: Text | str = "", *, indent: int = 0) -> None:
        """A result for a person, on stdout; nothing with `--json`."""
        if self.json:
            return
        shown = Text(text) if isinstance(text, str) else text
        with _written():
            if self.tty and indent:
                self.out.print(Padding(shown, (0, 0, 0, indent)))
            elif self.tty:
                self.out.print(shown)
            else:
                lines = shown.split("\n", allow_blank=True)
                for each in lines:
                    self.out.print(Text(" " * indent + each.plain).plain.rstrip(), soft_wrap=True)

    def table(self, table: Table) -> None:
        """A table on stdout; in full, whatever its width, where that is no terminal."""
        if self.json:
            return
        with _written():
            if self.tty:
                self.out.print(table)
                return
            with self.out.capture() as caught:
                self.out.print(table)
            self.out.print("\n".join(each.rstrip() for each in caught.get().splitlines()), soft_wrap=True)

    def value(self, value: Any) -> None:
        """The one JSON value of a run with `--json`."""
        data = msgspec.json.encode(value)
        if self.tty:
            data = msgspec.json.format(data, indent=2)
        text = safe_json(data.decode(), self.encoding) + "\n"
        _write(text.encode(self.encoding, "backslashreplace"))

    def raw(self, chunks: Iterable[bytes]) -> None:
        """A file's content on stdout: its very bytes, but on a terminal made safe to show."""
        for chunk in chunks:
            if self.tty:
                chunk = self.text(chunk.decode("utf-8", "replace")).encode(self.encoding, "backslashreplace")
            _write(chunk)

    def tell(self, text: Text | str, style: str = "dim") -> None:
        """A message for a person, on stderr."""
        shown = Text(plain(text, self.err.encoding), style) if isinstance(text, str) else text
        with _written():
            self.err.print(shown, soft_wrap=True)

    def warn(self, text: str) -> None:
        self.tell(Text.assemble(("warning: ", "bold yellow"), plain(text, self.err.encoding)))

    @contextmanager
    def progress(self, what: str) -> Iterator[Told | None]:
        """A bar on stderr while the block runs, told (done, all); None where nobody would see it."""
        if not self.err.is_terminal:
            yield None
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TaskProgressColumn("{task.percentage:>3.0f}%", markup=False),
            TimeRemainingColumn(compact=True),
        )
        with Progress(*columns, console=self.err, transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)

    def flush(self) -> None:
        """Writes what is still due, so that a full disk or a reader gone is known now."""
        with _written():
            sys.stdout.flush()
            sys.stderr.flush()


def plain_table(*columns: str) -> Table:
    """A table without walls; columns are added with their headings."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.header_style = "bold"
    for column in columns:
        table.add_column(column)
    return table


def _console(file: TextIO) -> Console:
    # Without a terminal only tables have a width, and they get as much as they want.
    width = None if file.isatty() else _ENDLESS
    return _Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def _write(data: bytes) -> None:
    with _written():
        sys.stdout.flush()
        left = memoryview(data)
        while left:
            # Without a buffer (PYTHONUNBUFFERED) a write may take only a part.
            left = left[sys.stdout.buffer.write(left) :]


@contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGone from error
    except OSError as error:
        raise StorageFailed(
            f"the output cannot be written: {error.strerror}", hint="check where it goes"
        ) from error
