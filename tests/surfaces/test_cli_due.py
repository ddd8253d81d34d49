"""`stratalog jobs run`: what is due is done, once or until it is ended."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from stratalog import Stratalog
from stratalog.engine.remembering import Draft, Layer, Records, Scope
from surfaces.terminals import COMMAND, cli, cli_json, environment

PATIENCE = 60


def know(data: Path, tenant: str = "local") -> None:
    with Stratalog(data, tenant=tenant) as memory, Records(memory) as records:
        draft = Draft(layer=Layer.LONG, scope=Scope("user", "ana"), key="home", text="Ana lives in Lisbon")
        records.service.remember(records.caller(user="ana"), draft)


def test_what_is_due_is_done(data: Path) -> None:
    """Of every tenant, each job a line; a second time nothing is due, and the list shows them."""
    know(data)
    know(data, "acme")
    first = cli("jobs", "run", data=data)
    assert first.exit_code == 0, first.output
    assert first.stdout.splitlines().count("profiles: done, 1 watermark") == 2
    assert (data / "acme/users/ana/USER.md").exists()
    again = cli("jobs", "run", data=data)
    assert (again.stdout, again.stderr) == ("", "nothing is due\n")
    listed = cli_json("jobs", data=data)["jobs"]
    assert {job["state"] for job in listed} == {"done"}
    assert {job["kind"] for job in listed} == {"remember", "consolidate", "profiles", "compact_idle", "purge"}


def test_it_goes_on_until_it_is_ended(data: Path) -> None:
    """By SIGTERM as by Ctrl-C, in good order; meanwhile no other does the same."""
    know(data)
    for end in (signal.SIGTERM, signal.SIGINT):
        page = data / "local/users/ana/USER.md"
        done = subprocess.Popen(
            [*COMMAND, "--data", str(data), "jobs", "run", "--forever"],
            env=environment(),
            stderr=subprocess.PIPE,
        )
        assert done.stderr is not None
        assert b"Ctrl-C ends it" in done.stderr.readline()
        deadline = time.monotonic() + PATIENCE
        while not page.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert "Lisbon" in page.read_text()
        other = cli("jobs", "run", data=data)
        assert "another process does the background work" in other.stderr
        assert other.exit_code != 0
        done.send_signal(end)
        assert done.wait(PATIENCE) == 0
        done.stderr.close()
