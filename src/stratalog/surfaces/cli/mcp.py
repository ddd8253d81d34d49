"""`mcp`: the MCP server, for one client over stdio or for several over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from stratalog.engine.core import default_data
from stratalog.errors import InvalidConfig, InvalidInput
from stratalog.surfaces.cli.state import State

_HOST, _PORT = "127.0.0.1", 8_421
_RATE, _BURST, _CLIENTS = 600.0, 120, 100


def mcp_command(
    state: State,
    user: Annotated[
        str,
        typer.Option(
            "--user",
            metavar="NAME",
            help="Whose memory it is. Else the setting `memory.user`; over HTTP the token says it.",
        ),
    ] = "",
    agent: Annotated[
        str, typer.Option("--agent", metavar="NAME", help="The agent that the clients are.")
    ] = "assistant",
    session: Annotated[
        str,
        typer.Option(
            "--session",
            metavar="KEY",
            help="The session of a client that names none, as agent:channel:chat. Else AGENT:mcp:USER.",
        ),
    ] = "",
    http: Annotated[
        bool, typer.Option("--http", metavar="", help="Over streamable HTTP instead of stdin and stdout.")
    ] = False,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where to listen, with --http.")
    ] = _HOST,
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="N", min=0, max=65_535, help="At which port, with --http; 0: any free one."
        ),
    ] = _PORT,
    dev: Annotated[
        bool,
        typer.Option(
            "--dev",
            metavar="",
            help="Ask for no token, with --http: everybody on this machine asks as --user of --tenant.",
        ),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="A name that it is asked by, besides the machine's own; may be said again.",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="URL",
            help="A page that may ask it, such as https://a.example; may be said again.",
        ),
    ] = None,
    rate: Annotated[
        float,
        typer.Option(
            "--rate",
            metavar="N",
            min=1.0,
            help="With --http: how many requests a token may make in a minute.",
        ),
    ] = _RATE,
    burst: Annotated[
        int, typer.Option("--burst", metavar="N", min=1, help="With --http: how many of them at once.")
    ] = _BURST,
    clients: Annotated[
        int,
        typer.Option(
            "--clients",
            metavar="N",
            min=1,
            help="With --http: how many clients a token may have, each a session of the transport.",
        ),
    ] = _CLIENTS,
) -> None:
    """Serve memory and sessions to MCP clients: over stdio until stdin ends, or over HTTP until SIGTERM or
    Ctrl-C. The extra `mcp` is needed."""
    if state.json:
        raise InvalidInput("stdout is the protocol's here", hint="leave out --json")
    data, tenant = state.data or default_data(), state.tenant or "local"
    if http and not dev and (user or session or state.tenant):
        raise InvalidInput(
            "who asks over HTTP the token says", hint="leave out --tenant, --user and --session"
        )
    if not http:
        told = (host, port, rate, burst, clients) != (_HOST, _PORT, _RATE, _BURST, _CLIENTS)
        if dev or allow_host or allow_origin or told:
            raise InvalidInput("this is said of a server over HTTP", hint="add --http")
        with _installed():
            from stratalog.surfaces.mcp import stdio
        stdio.serve(data, tenant, user=user, agent=agent, session=session)
        return
    with _installed():
        from stratalog.surfaces.mcp import http as over_http
    how = over_http.settings(
        host=host,
        port=port,
        dev=dev,
        hosts=allow_host or [],
        origins=allow_origin or [],
        rate=rate,
        burst=burst,
        clients=clients,
    )
    over_http.serve(data, how, tenant=tenant, user=user, agent=agent, session=session, told=state.output.tell)


@contextmanager
def _installed() -> Iterator[None]:
    """Raises `InvalidConfig` where a package is missing that is imported in the block."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidConfig(
            "the MCP server is not installed", hint="pip install 'stratalog[mcp]'", missing=error.name
        ) from error
