"""`stratalog serve`: what it refuses, and that it serves."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import httpx
import pytest

from stratalog.surfaces.access.wire import listening
from surfaces.http.conftest import configure
from surfaces.http.test_ending import process
from surfaces.terminals import cli


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--dev", "--host", "0.0.0.0"], 2),
        (["--dev", "--host", "a.example"], 2),
        (["--unfinished", "forget"], 2),
        (["--allow-origin", "a.example"], 2),
        (["--port", "65536"], 2),
        (["--grace", "-1"], 2),
        (["--host", "192.0.2.1"], 5),
    ],
)
def test_what_cannot_be_served_is_told(tmp_path: Path, options: list[str], code: int) -> None:
    """A wrong option, a door without a lock, or an address that is not this machine's: an error in words, and
    nothing is made."""
    data = tmp_path / "data"
    done = cli("serve", *options, data=data)
    assert done.exit_code == code, done.output
    assert "error:" in done.output.lower()
    assert "Traceback" not in done.output
    assert not data.exists()


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    """With the exit code of the disk and the system."""
    with listening("127.0.0.1", 0) as taken:
        done = cli("serve", "--port", taken.getsockname()[1], data=tmp_path / "data")
    assert done.exit_code == 5
    assert "listen" in done.output


def test_what_is_sent_is_sent_at_once() -> None:
    """The socket is TCP by name: for others asyncio leaves on what holds a small packet back for 40 ms."""
    with listening("127.0.0.1", 0) as made:
        assert made.proto == socket.IPPROTO_TCP


def test_wrong_settings_are_told_before_anything_is_opened(tmp_path: Path) -> None:
    """A slip in stratalog.toml is the error that any other command tells."""
    configure(tmp_path / "data", nonesuch="1")
    done = cli("serve", "--port", 0, data=tmp_path / "data")
    assert done.exit_code == 2
    assert "nonesuch" in done.output


@pytest.mark.crash
def test_a_developer_needs_no_token(tmp_path: Path) -> None:
    """With `--dev`, and a data directory that is not there yet, it is ready, answers without a token, and
    ends well on Ctrl-C."""
    data = tmp_path / "data"
    with process(data, 0, "--dev") as service:
        assert httpx.get(f"{service.url}/ready").json() == {"status": "ready"}
        said = httpx.post(f"{service.url}/v1/agents/a/sessions/c/messages", json={"content": "Hello."})
        assert (said.status_code, said.json()["title"]) == (500, "No model is configured")
        assert said.json()["hint"].startswith("set `model` in stratalog.toml")
        listed = httpx.get(f"{service.url}/v1/agents/a/sessions")
        assert listed.json()["sessions"] == []
        answer = httpx.get(f"{service.url}/v1/agents/a/sessions", headers={"origin": "https://evil.example"})
        assert answer.status_code == 403
        service.signal(signal.SIGINT)
        assert service.wait() == 0
        assert "no token is asked for" in service.told
        assert "no model answers: set `model`" in service.told


@pytest.mark.crash
def test_spans_go_where_opentelemetrys_variables_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The service sends them by itself, what is left when it ends."""
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "memory-of-mine")
    with process(tmp_path / "data", 0, "--dev") as service:
        assert httpx.get(f"{service.url}/v1/me").status_code == 200
        service.signal(signal.SIGTERM)
        assert service.wait() == 0
    told = capfd.readouterr().out
    assert '"name": "GET /v1/me"' in told
    assert '"service.name": "memory-of-mine"' in told
