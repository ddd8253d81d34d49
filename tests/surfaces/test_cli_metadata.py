"""`stratalog metadata`, and the commands that obey what it says."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from stratalog import Stratalog
from stratalog.testing.model_server import ModelServer
from stratalog.types import Compaction
from surfaces.terminals import COMMAND, cli, cli_json, environment

KEY = "helper:cli:beta"
SUMMARY = "They spoke of Lisbon and of parcels, and decided to ship on Friday."


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model that the settings say is far away."""
    with ModelServer(lambda request: SUMMARY) as made:
        yield made


def settings(data: Path, server: ModelServer, reach: str, **more: str) -> None:
    said = {"model": "openai:gpt-4o", "base_url": server.openai_url, "reach": reach, **more}
    text = "".join(f'{name} = "{value}"\n' for name, value in said.items() if value)
    (data / "stratalog.toml").write_text(text)


def chat(data: Path, *args: str, code: int = 0) -> tuple[str, str]:
    """What one message to the session is answered, on stdout and on stderr."""
    done = subprocess.run(
        [*COMMAND, "--data", str(data), "chat", KEY, *args],
        env=environment(),
        input=b"Hello.\n",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


def test_metadata_is_set_shown_and_taken_away(small: Path) -> None:
    """Values are JSON where they are, else text; what is not named stays; nothing named changes nothing."""
    told = cli_json("metadata", "beta", "residency=local_only", "memory_plugin=mem0", data=small)
    assert told == {
        "key": f"local/{KEY}",
        "metadata": {"residency": "local_only", "memory_plugin": "mem0"},
    }
    told = cli_json(
        "metadata", "beta", 'users=["ana"]', "n=1", "text=a = b", "no=null", "empty=", data=small
    )["metadata"]
    assert told == {
        "residency": "local_only",
        "memory_plugin": "mem0",
        "users": ["ana"],
        "n": 1,
        "text": "a = b",
        "no": "null",
        "empty": "",
    }
    left = ("--unset", "users", "--unset", "n", "--unset", "text", "--unset", "no", "--unset", "empty")
    cli("metadata", "beta", *left, "--unset", "nosuch", data=small)
    shown = cli("metadata", "beta", data=small)
    assert shown.stdout.splitlines() == ['residency = "local_only"', 'memory_plugin = "mem0"']
    with Stratalog(small) as memory:
        seq = memory.session(KEY).meta.seq
    cli("metadata", "beta", data=small)
    with Stratalog(small) as memory:
        assert memory.session(KEY).meta.seq == seq


def test_a_session_gets_its_residency_before_its_first_message(small: Path) -> None:
    """The whole key of a new session is taken when something is said of it, and only then."""
    assert cli("metadata", "helper:cli:new", data=small).exit_code == 3
    assert cli("metadata", "new", "residency=on_prem", data=small).exit_code == 3
    cli("metadata", "helper:cli:new", "residency=on_prem", data=small)
    assert cli_json("metadata", "new", data=small)["metadata"] == {"residency": "on_prem"}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["residency"], "NAME=VALUE"),
        (["=x"], "NAME=VALUE"),
        (["a=1", "--unset", "a"], "set and unset at once"),
        (["residency=5"], "is text"),
        (["a=" + "x" * 20_000], "too large"),
    ],
)
def test_what_cannot_be_said_is_refused(small: Path, args: list[str], words: str) -> None:
    """Exit code 2, and nothing of it is done."""
    result = cli("metadata", "beta", "b=1", *args, data=small)
    assert result.exit_code == 2, result.output
    assert words in result.output
    assert cli_json("metadata", "beta", data=small)["metadata"] == {}


def test_show_tells_the_residency(small: Path) -> None:
    """Where there is one."""
    assert "residency" not in cli("show", "beta", data=small).stdout
    cli("metadata", "beta", "residency=local_only", data=small)
    assert "residency local_only" in cli("show", "beta", data=small).stdout


def test_a_chat_obeys(small: Path, server: ModelServer) -> None:
    """A forbidden model is told of when the session is opened, and gets nothing; a near one answers."""
    settings(small, server, "premises")
    cli("metadata", "beta", "residency=local_only", data=small)
    out, err = chat(small, code=1)
    assert out == ""
    assert "warning: the session's residency forbids" in err
    assert "error: the session's residency forbids" in err
    assert "model.lane" not in err, "lines for programs are not shown"
    (line,) = chat(small, "--json", code=1)[0].splitlines()
    assert msgspec.json.decode(line)["kind"] == "LaneDenied"
    assert server.facts.requests == 0
    cli("metadata", "beta", "residency=on_prem", data=small)
    assert chat(small)[0].strip() == SUMMARY
    assert server.facts.requests == 1


def test_an_address_on_the_command_line_is_not_the_settings(small: Path, server: ModelServer) -> None:
    """What the settings say of their server is not believed of another; nor of another address for an
    agent."""
    settings(small, server, "world")
    cli("metadata", "beta", "residency=local_only", data=small)
    with ModelServer(["Told at home."]) as near:
        assert chat(small, "--base-url", near.openai_url)[0].strip() == "Told at home."
    assert server.facts.requests == 0
    settings(small, server, "machine")
    own = small / "local" / "agents" / "helper" / "agent.toml"
    own.write_text('base_url = "http://198.51.100.1:9/v1"\n')
    assert "residency" in chat(small, code=1)[1]


def test_compacting_and_continuing_obey(small: Path, server: ModelServer) -> None:
    """A summary of what may not leave is made without the far model, and it is told."""
    settings(small, server, "world")
    with Stratalog(small) as memory:
        for number in range(16):
            with memory.session(KEY).turn(f"{number}: " + "Ana lives in Lisbon. " * 60) as turn:
                turn.reply("I noted it. " * 60)
    cli("metadata", "beta", "residency=local_only", data=small)
    made = cli_json("compact", "beta", "--model", "openai:gpt-4o", "--window", 8_000, data=small)
    assert made["compacted"]
    assert made["by"] == "extractive"
    assert "residency" in made["stood_in"]
    cli("continue", "beta", "gamma", "--inherit", "summary", data=small)
    assert cli_json("metadata", "gamma", data=small)["metadata"] == {"residency": "local_only"}
    with Stratalog(small) as memory:
        session = memory.session("helper:cli:gamma")
        assert [each.by for each in session.entries() if isinstance(each, Compaction)] == ["extractive"]
    assert server.facts.requests == 0


def test_records_of_a_lane_that_is_not_there_are_denied(small: Path) -> None:
    """`memory` asks in the lane of the session; the command line has the native one alone."""
    cli("metadata", "beta", "memory_plugin=mem0", data=small)
    denied = cli("memory", "list", "--session", KEY, data=small)
    assert denied.exit_code == 6, denied.output
    cli("metadata", "beta", "residency=local_only", data=small)
    assert cli("memory", "list", "--session", KEY, data=small).exit_code == 0


def test_a_tenant_for_evaluations_is_not_asked_in_production(small: Path) -> None:
    """The settings name it; with an environment of its own it works."""
    who = ("--tenant", "eval-1", "--user", "ana")
    assert cli("memory", "list", *who, data=small).exit_code == 6
    assert cli("memory", "list", *who, "--environment", "eval:1", data=small).exit_code == 0
