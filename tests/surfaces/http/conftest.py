"""A real server over a data directory of its own, a scripted server of models, and a client for each role."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from stratalog.surfaces.access.tokens import Tokens
from stratalog.surfaces.access.wire import listening
from stratalog.surfaces.http.app import create_app
from stratalog.surfaces.http.running import Server
from stratalog.surfaces.http.service import Service
from stratalog.surfaces.http.settings import HttpSettings, http_settings
from stratalog.surfaces.http.tracing import Tracing
from stratalog.testing.model_server import ModelServer

PATIENCE = 30.0
TENANT = "acme"


class Running:
    """A server in a thread of this process, with clients that have tokens of the tenant `acme`."""

    def __init__(self, data: Path, settings: HttpSettings, traces: Tracing | None = None) -> None:
        self.data = data
        self.settings = settings
        self.tokens = Tokens(data)
        self._clients: list[httpx.Client] = []
        self._socket = listening(settings.host, settings.port)
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.app = create_app(data, settings, traces=traces)
        self.server = Server(self.app, settings)
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="service")
        self._thread.start()
        while not self.server.started and self._thread.is_alive():
            self._thread.join(0.01)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self.server.serve(sockets=[self._socket])

    @property
    def service(self) -> Service:
        return self.app.state.service

    def do(self, work: Any) -> Any:
        """What a coroutine comes to in the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def client(self, token: str = "") -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        made = httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE)
        self._clients.append(made)
        return made

    def of(self, *roles: str, user: str = "", tenant: str = TENANT) -> httpx.Client:
        """A client with a token of these roles."""
        return self.client(self.tokens.make(tenant, roles=roles, user=user).text)

    def stop(self) -> None:
        """Ends the server as SIGTERM does. The second time does nothing."""
        self.server.should_exit = True
        self._thread.join(PATIENCE * 2)
        assert not self._thread.is_alive()
        for client in self._clients:
            client.close()
        self.tokens.close()
        self._socket.close()


@contextmanager
def running(data: Path, traces: Tracing | None = None, **settings: Any) -> Iterator[Running]:
    """A server for a `with` block."""
    made = Running(data, http_settings(**{"port": 0, "background": False, "grace": 5.0, **settings}), traces)
    try:
        yield made
    finally:
        made.stop()


def configure(data: Path, more: str = "", **settings: str) -> None:
    """Writes the settings of a data directory."""
    data.mkdir(exist_ok=True)
    lines = [f'{name} = "{value}"' for name, value in settings.items()]
    (data / "stratalog.toml").write_text("\n".join([*lines, more]) + "\n")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory whose agents answer with what was said before, need no model and remember nothing."""
    made = tmp_path / "data"
    configure(made, "[memory]\nenabled = false", model="extractive")
    return made


@pytest.fixture
def service(data: Path) -> Iterator[Running]:
    """A server over it."""
    with running(data) as made:
        yield made


@pytest.fixture
def modelled(tmp_path: Path) -> Iterator[Callable[..., tuple[Running, ModelServer]]]:
    """Makes a server whose agents ask a scripted model: `modelled(script, **settings)`."""
    opened: list[Any] = []

    def make(script: Any, **settings: Any) -> tuple[Running, ModelServer]:
        model = ModelServer(script)
        model.__enter__()
        opened.append(lambda: model.__exit__(None, None, None))
        data = tmp_path / f"modelled-{len(opened)}"
        configure(data, settings.pop("toml", ""), model="openai:gpt-5", base_url=model.openai_url)
        made = running(data, **settings)
        opened.append(lambda: made.__exit__(None, None, None))
        return made.__enter__(), model

    yield make
    for close in reversed(opened):
        close()
