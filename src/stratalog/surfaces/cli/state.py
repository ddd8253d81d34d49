"""What every command shares: which memory, whose, and in what form the answer is wanted.

`command` gives a function the common options. They are taken before the command's name and after it; what
stands nearer to the end counts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, Protocol

import typer

from stratalog import Stratalog
from stratalog.keys import SessionKey
from stratalog.surfaces.cli.keys import complete, shortener
from stratalog.surfaces.cli.output import Output

P = ParamSpec("P")
_SHARED = "Common options"


def _directory(text: str) -> Path:
    if not text.strip():
        raise typer.BadParameter("the name of the data directory is empty")
    return Path(text).expanduser()


DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        parser=_directory,
        metavar="DIR",
        help="The data directory. Else $STRATALOG_DATA, else the platform's place for data.",
        rich_help_panel=_SHARED,
    ),
]
TenantOption = Annotated[
    str | None,
    typer.Option("--tenant", metavar="NAME", help="Whose memory. Else `local`.", rich_help_panel=_SHARED),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        metavar="",
        help="One JSON value on stdout, nothing else.",
        rich_help_panel=_SHARED,
    ),
]
KeyArgument = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        autocompletion=complete,
        help="The session: its key, its chat, or how its chat or its title begins.",
        show_default=False,
    ),
]


class State:
    """One run of the command line."""

    def __init__(self, data: Path | None = None, tenant: str | None = None, json: bool = False) -> None:
        self.data = data
        self.tenant = tenant
        self.json = json
        self.output = Output(json)

    def or_else(self, data: Path | None, tenant: str | None, json: bool) -> State:
        """This state with what was said once more after the command's name."""
        return State(data or self.data, tenant or self.tenant, json or self.json)

    @contextmanager
    def memory(self, data: Path | None = None, *, warn: bool = True) -> Iterator[Stratalog]:
        """The memory that the options name. Tells at the end what its logs had to mend or leave aside,
        unless the command tells it itself (`warn`)."""
        with Stratalog(data or self.data, tenant=self.tenant or "local") as memory:
            try:
                yield memory
            finally:
                for problem in dict.fromkeys(memory.problems if warn else ()):
                    self.output.warn(f"{problem.reason} [{place_of(problem)}]")

    def finish(self, value: Any) -> None:
        """Prints the result of the command, where it is wanted as JSON."""
        if self.json:
            self.output.value(value)

    def named(self, memory: Stratalog) -> Callable[[SessionKey], str]:
        """What to call a session: its key, or on a terminal the shortest text that names it."""
        if not self.output.tty:
            return lambda key: key.local
        return shortener(memory.sessions().sessions)


class Problem(Protocol):
    """What is wrong in a log, and where."""

    @property
    def reason(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> str: ...


def place_of(problem: Problem) -> str:
    """Where the problem is, in words."""
    if not problem.path:
        return problem.key
    line = f"line {problem.line}" if problem.line else ""
    offset = f"byte {problem.offset:,}" if problem.offset else ""
    return ", ".join(filter(None, (problem.path, line, offset)))


def command(run: Callable[Concatenate[State, P], None]) -> Callable[..., None]:
    """`run` for typer: the common options after its own, and the state as its first argument."""
    own = list(inspect.signature(run, eval_str=True).parameters.values())[1:]
    shared = list(inspect.signature(_shared, eval_str=True).parameters.values())

    def call(context: typer.Context, **given: Any) -> None:
        state = _state(context).or_else(given.pop("data"), given.pop("tenant"), given.pop("json"))
        run(state, **given)  # type: ignore[call-arg]  # typer fills in what the signature below says

    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [first, *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shared))]
    call.__dict__["__signature__"] = inspect.Signature(parameters)
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    call.__name__, call.__doc__ = run.__name__, run.__doc__
    return call


def _shared(data: DataOption = None, tenant: TenantOption = None, json: JsonOption = False) -> None:
    """The signature of the common options."""


def _state(context: typer.Context) -> State:
    state = context.find_root().obj
    return state if isinstance(state, State) else State()
