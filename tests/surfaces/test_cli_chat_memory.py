"""`stratalog chat` remembers: what an agent writes in one chat it knows in the next, unless told not to."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from stratalog.testing.model_server import ModelServer, Received
from stratalog.testing.scripted import Call, Reply
from surfaces.terminals import COMMAND, cli, cli_json, environment

PATIENCE = 120
DRAWN = json.dumps(
    {
        "facts": [
            {"about": "user", "key": "home", "text": "Ana lives in Lisbon", "quote": "I live in Lisbon"}
        ],
        "summary": "They spoke of Lisbon.",
    }
)


def chat(data: Path, *args: str, said: str) -> None:
    done = subprocess.run(
        [*COMMAND, "--data", str(data), "chat", *args],
        env=environment(),
        input=said.encode(),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()


def system_of(request: Received) -> str:
    return "\n".join(m["content"] for m in request.body["messages"] if m["role"] in ("system", "developer"))


def tools_of(request: Received) -> set[str]:
    return {tool["function"]["name"] for tool in request.body.get("tools", [])}


def test_what_is_written_in_one_chat_is_known_in_the_next(data: Path) -> None:
    """By the same user alone, and not with `--no-memory`."""
    write = Reply(calls=(Call("write_memory", {"key": "home", "text": "Ana lives in Lisbon"}),))
    with ModelServer([write, "Noted.", "Lisbon.", "No idea.", "No idea either."]) as server:
        at = ["--model", "openai:gpt-4o", "--base-url", server.openai_url]
        chat(data, *at, "--user", "ana", said="I live in Lisbon.\n")
        chat(data, *at, "--user", "ana", said="Where do I live?\n")
        chat(data, *at, "--user", "ben", said="Where do I live?\n")
        chat(data, *at, "--user", "ana", "--no-memory", said="Where do I live?\n")
        knows = ["Ana lives in Lisbon" in system_of(request) for request in server.requests]
        assert knows == [False, False, True, False, False]
        assert {"search_memory", "read_memory", "write_memory"} <= tools_of(server.requests[0])
        assert not tools_of(server.requests[-1]) & {"search_memory", "read_memory", "write_memory"}
    listed = cli_json("memory", "list", "--user", "ana", data=data)["records"]
    assert [record["text"] for record in listed] == ["Ana lives in Lisbon"]


def test_the_settings_model_draws_from_what_was_said(data: Path) -> None:
    """In the background of the chat, or, where that ended too soon, when `jobs run` comes to it; for the user
    that the settings name."""

    def answer(request: Received) -> str:
        return DRAWN if "one turn of a conversation" in json.dumps(request.body) else "Nice."

    with ModelServer(answer) as server:
        (data / "stratalog.toml").write_text(
            f'model = "openai:gpt-4o"\nbase_url = "{server.openai_url}"\n[memory]\nuser = "ana"\n'
        )
        chat(data, said="I live in Lisbon.\n")
        cli("jobs", "run", data=data)
    (job,) = cli_json("jobs", "list", "--kind", "draw", data=data)["jobs"]
    assert (job["state"], job["user"]) == ("done", "ana")
    listed = cli_json("memory", "list", "--user", "ana", data=data)["records"]
    assert [record["text"] for record in listed] == ["Ana lives in Lisbon"]
