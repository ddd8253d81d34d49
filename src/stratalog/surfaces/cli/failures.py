"""How a run ends: exit codes, and one clear message for each error that is meant for a person.

    0   done
    1   something is wrong (doctor, import), or nothing was found (search)
    2   what was given cannot be used
    3   no such session, entry or record
    4   somebody else's state is in the way
    5   the log or the disk
    6   who asks may not, or a session's residency forbids it
    130 interrupted
    141 the reader of our output has gone

An error that is none of these is a defect, and ends with a traceback.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO

import typer
from rich.text import Text

from stratalog.errors import (
    AccessDenied,
    Conflict,
    ContextOverflow,
    InvalidInput,
    LaneDenied,
    LogBusy,
    LogError,
    NotFound,
    StoreBusy,
    StratalogError,
)
from stratalog.surfaces.cli.output import Output, ReaderGone
from stratalog.surfaces.cli.plain import one_line, unicode_text

OK, WRONG, UNUSABLE, MISSING, CONFLICT, STORAGE, DENIED, INTERRUPTED, NO_READER = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    130,
    141,
)

_CODES: tuple[tuple[type[StratalogError], int], ...] = (
    (InvalidInput, UNUSABLE),
    (ContextOverflow, UNUSABLE),
    (NotFound, MISSING),
    (Conflict, CONFLICT),
    (LogBusy, CONFLICT),
    (StoreBusy, CONFLICT),
    (LogError, STORAGE),
    (AccessDenied, DENIED),
    (LaneDenied, DENIED),
)
# The base of typer's errors of usage, which it does not export.
_Usage: type[Any] = typer.BadParameter.__mro__[2]


# What typer passes on from the library that checks values for it, and what we say instead.
_PLAIN_WORDS = (
    (re.compile(r"(?<=: )Value error, "), ""),
    (re.compile(r"(?<=: )Input should be greater than or equal to (\S+)$"), r"it must be at least \1"),
    (re.compile(r"(?<=: )Input should be less than or equal to (\S+)$"), r"it must be at most \1"),
    (re.compile(r"(?<=: )Input should be a valid integer.*$", re.DOTALL), "a whole number is needed"),
    (
        re.compile(r"(?<=: )Unable to parse input string as an integer.*$", re.DOTALL),
        "the number is too large",
    ),
    (re.compile(r"(?<=: )Input should be "), "it must be "),
    (re.compile(r"^Got unexpected extra argument(?:\(s\)|s)? \((.*)\)$", re.DOTALL), r"Too many words: \1"),
)


def exit_code(error: StratalogError) -> int:
    """The exit code for an error of the tree."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), WRONG)


def plain_words(message: str) -> str:
    """A message of a wrong use without the words of the library that made it."""
    for pattern, words in _PLAIN_WORDS:
        message = pattern.sub(words, message)
    return message


def guarded(run: Callable[[], Any], json: bool) -> int:
    """Runs the command line and returns its exit code, with what went wrong told on stderr.

    With `json` the error is an object on stdout too, so that there always is exactly one value.
    """
    _open_streams()
    output = Output(json)
    try:
        try:
            code = run()
            code = code if isinstance(code, int) else OK
            if code == INTERRUPTED:
                _tell(output, "interrupted", INTERRUPTED, "what was done before is kept")
        except StratalogError as error:
            code = exit_code(error)
            _tell(output, error.what, code, error.hint, error.where, type(error).__name__)
        except SystemExit as error:
            # Typer, and Rich within it, end the process themselves when nobody reads their help.
            if isinstance(error.__context__, BrokenPipeError):
                raise ReaderGone from error
            raise
        except typer.Abort:
            code = INTERRUPTED
            _tell(output, "interrupted", INTERRUPTED)
        except _Usage as error:
            code = UNUSABLE
            path = error.ctx.command_path if getattr(error, "ctx", None) is not None else "stratalog"
            _tell(
                output,
                plain_words(error.format_message()),
                code,
                f"`{path} --help` says what it takes",
                {},
                "Usage",
            )
        output.flush()
    except ReaderGone:
        _drop_streams()
        return NO_READER
    except StratalogError as error:  # the output itself could not be written
        with suppress(StratalogError, ReaderGone):
            _tell(Output(), error.what, STORAGE, error.hint)
        _drop_streams()
        return STORAGE
    return code


def _tell(
    output: Output,
    what: str,
    code: int,
    hint: str = "",
    where: dict[str, object] | None = None,
    kind: str = "Interrupted",
) -> None:
    facts = where or {}
    lines = [Text.assemble(("error: ", "bold red"), one_line(what, output.err.encoding))]
    for name, value in facts.items():
        if isinstance(value, list | tuple):
            lines += [Text("    " + one_line(str(each), output.err.encoding)) for each in value]
        else:
            lines.append(Text(f"  {name}: {one_line(str(value), output.err.encoding)}"))
    if hint:
        lines.append(Text(f"  hint: {one_line(hint, output.err.encoding)}", "dim"))
    for line in lines:
        output.tell(line)
    if output.json:
        output.value(
            {
                "error": unicode_text(what),
                "kind": kind,
                "hint": unicode_text(hint),
                "where": {name: _value(value) for name, value in facts.items()},
                "exit_code": code,
            }
        )


def _value(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_value(each) for each in value]
    return value if isinstance(value, int | float | bool) else unicode_text(value)


def _open_streams() -> None:
    """Makes sure that both streams are there and that no character can make them fail."""
    for name, mode in (("stdout", "w"), ("stderr", "w")):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # it is open until the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _drop_streams() -> None:
    """Sends what is still buffered nowhere, so that the end of the process does not fail over it."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
