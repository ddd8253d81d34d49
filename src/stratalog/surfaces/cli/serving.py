"""`serve`: the HTTP service."""

from __future__ import annotations

from typing import Annotated

import typer

from stratalog.engine.core import default_data
from stratalog.errors import InvalidConfig
from stratalog.surfaces.cli.state import State


def serve_command(
    state: State,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65_535, help="At which port; 0: any free one.")
    ] = 8_420,
    dev: Annotated[
        bool,
        typer.Option(
            "--dev",
            metavar="",
            help="Ask for no token: everybody on this machine is an admin of the tenant `local`.",
        ),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME", help="A name it is asked by, besides the machine's own."
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin", metavar="URL", help="A page that may ask it, such as https://a.example."
        ),
    ] = None,
    rate: Annotated[
        float,
        typer.Option("--rate", metavar="N", min=1.0, help="How many requests a token may make in a minute."),
    ] = 600.0,
    burst: Annotated[
        int, typer.Option("--burst", metavar="N", min=1, help="How many of them at once.")
    ] = 120,
    grace: Annotated[
        float,
        typer.Option(
            "--grace", metavar="SECONDS", min=0.0, help="How long turns may go on when it is told to end."
        ),
    ] = 30.0,
    unfinished: Annotated[
        str,
        typer.Option(
            "--unfinished",
            metavar="resume|close",
            help="What becomes of turns that the service did not finish before.",
        ),
    ] = "resume",
    background: Annotated[
        bool, typer.Option("--background/--no-background", help="Whether it does what `jobs run` does.")
    ] = True,
) -> None:
    """Serve sessions, turns and memory over HTTP until SIGTERM or Ctrl-C. The extra `server` is needed."""
    try:
        from stratalog.surfaces.http.running import serve
        from stratalog.surfaces.http.settings import http_settings
    except ModuleNotFoundError as error:
        raise InvalidConfig(
            "the HTTP service is not installed", hint="pip install 'stratalog[server]'", missing=error.name
        ) from error
    settings = http_settings(
        host=host,
        port=port,
        dev=dev,
        hosts=allow_host or [],
        origins=allow_origin or [],
        rate=rate,
        burst=burst,
        grace=grace,
        unfinished=unfinished,
        background=background,
    )
    serve(state.data or default_data(), settings, told=state.output.tell)
