"""`token`: who may ask the services. Each token is told once, when it is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from stratalog.engine.core import default_data
from stratalog.surfaces.access.principals import ROLES
from stratalog.surfaces.access.tokens import Token, Tokens
from stratalog.surfaces.cli.loading import show_refused
from stratalog.surfaces.cli.output import plain_table
from stratalog.surfaces.cli.state import State
from stratalog.surfaces.cli.times import minute


def make_command(
    state: State,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called in lists.")] = "",
    role: Annotated[
        list[str] | None,
        typer.Option("--role", metavar="|".join(ROLES), help="What it may do; several times for several."),
    ] = None,
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="Whom it is for; the role `user` needs one.")
    ] = "",
    days: Annotated[
        int, typer.Option("--days", metavar="N", min=0, help="How long it holds; 0: until it is revoked.")
    ] = 90,
) -> None:
    """Make a token, and print it. It is shown this once, for only a hash of it is kept."""
    with _opened(state) as tokens:
        made = tokens.make(_tenant(state), roles=role or ["user"], user=user, name=name, days=days)
    state.output.print(made.text)
    until = f"until {minute(made.token.expires_at)}" if made.token.expires_at else "until it is revoked"
    state.output.tell(
        f"token {made.token.id} ({', '.join(made.token.roles)}) holds {until}; it is shown this once"
    )
    state.finish({"token": made.text, **_value(made.token)})


def list_command(state: State) -> None:
    """List the tenant's tokens, the newest first."""
    with _opened(state) as tokens:
        found = tokens.list(_tenant(state))
    out = state.output
    if not out.json:
        if not found:
            out.tell("no tokens yet: `stratalog token make --user NAME` makes one")
        else:
            table = plain_table()
            for head in ("id", "roles", "user", "name", "state", "last used"):
                table.add_column(head, no_wrap=True)
            now = int(datetime.now(UTC).timestamp() * 1000)
            for each in found:
                used = minute(each.used_at) if each.used_at else ""
                words = (", ".join(each.roles), each.user, each.name, _state(each, now), used)
                table.add_row(each.id, *(out.line(word) for word in words))
            out.table(table)
    state.finish({"tokens": [_value(each) for each in found]})


def revoke_command(
    state: State,
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of the token.", show_default=False)],
) -> None:
    """End a token. The next request with it is refused."""
    with _opened(state) as tokens:
        token = tokens.revoke(_tenant(state), id)
    state.output.tell(f"token {token.id} is revoked")
    state.finish(_value(token))


def refused_command(
    state: State,
    last: Annotated[int, typer.Option("--last", metavar="N", min=1, help="How many lines.")] = 50,
) -> None:
    """List what was refused for a token that nobody has, of whatever tenant; the last line is the newest.
    What was refused for a token of a tenant is in `stratalog memory audit`."""
    show_refused(state, state.data or default_data(), last)


ABOUT = "Tokens: who may ask the HTTP and MCP services. Without a command, the list."
COMMANDS = (
    ("make", make_command),
    ("list", list_command),
    ("revoke", revoke_command),
    ("refused", refused_command),
)


@contextmanager
def _opened(state: State) -> Iterator[Tokens]:
    tokens = Tokens(state.data or default_data())
    try:
        yield tokens
    finally:
        tokens.close()


def _tenant(state: State) -> str:
    return state.tenant or "local"


def _value(token: Token) -> dict[str, Any]:
    return msgspec.structs.asdict(token)


def _state(token: Token, now: int) -> str:
    if token.revoked_at:
        return f"revoked {minute(token.revoked_at)}"
    if token.expires_at:
        return f"{'expired' if token.expires_at <= now else 'until'} {minute(token.expires_at)}"
    return "holds"
