"""The server over stdin and stdout, as a client starts it: what comes out, how it ends, several at once."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stratalog import Stratalog
from stratalog.engine.remembering import Records
from surfaces.mcp.clients import ERAS, call, command, over_stdio, refused, run

HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def asking(id: int, tool: str, **arguments: Any) -> dict[str, Any]:
    """A call of a tool as it is written on the wire."""
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def exchange(data: Path, *lines: str | dict[str, Any], options: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """What a server says on stdout, which is JSON alone, when these lines are all that it is sent."""
    sent = "".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in lines)
    done = subprocess.run(
        command(data, *options), input=sent.encode(), capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("era", ERAS)
def test_a_client_of_either_era_uses_the_memory(era: str, tmp_path: Path) -> None:
    """A started server answers a client of the handshake and one of the newest protocol alike; its user is
    that of the settings, unless another is named."""
    (tmp_path / "stratalog.toml").write_text('[memory]\nuser = "ana"\n')

    async def body() -> None:
        async with over_stdio(tmp_path, era=era) as client:
            assert client.server_info.name == "stratalog"
            assert "recall" in client.instructions
            done = await call(client, "remember", key="tea", text="Ana drinks tea")
            assert done["outcome"] == "stored"
            found = (await call(client, "recall", query="tea"))["found"]
            assert [each["text"] for each in found] == ["Ana drinks tea"]
            assert (await call(client, "working_memory_keys"))["session"] == "assistant:mcp:ana"
        async with over_stdio(tmp_path, "--user", "ben", "--agent", "helper", era=era) as client:
            assert (await call(client, "recall", query="tea"))["found"] == []
            assert (await call(client, "working_memory_keys"))["session"] == "helper:mcp:ben"
        async with over_stdio(tmp_path, "--session", "helper:cli:mine", era=era) as client:
            assert (await call(client, "working_memory_keys"))["session"] == "helper:cli:mine"

    run(body)


def test_what_was_asked_before_the_end_of_stdin_is_answered(tmp_path: Path) -> None:
    """A client that writes its requests and closes stdin gets every answer, and stdout has nothing else."""
    said = exchange(
        tmp_path,
        HELLO,
        READY,
        *(asking(each, "remember", key=f"key {each}", text=f"Fact {each}") for each in range(1, 9)),
    )
    answered = {each["id"]: each["result"] for each in said}
    assert sorted(answered) == list(range(9))
    assert {each["structuredContent"]["outcome"] for id, each in answered.items() if id} == {"stored"}


def test_a_line_that_cannot_be_read_is_answered(tmp_path: Path) -> None:
    """A line that is no JSON, and one that is no message, get an error; a lone surrogate, which is JSON but
    no text, is read as U+FFFD, and its request answered."""
    lone = json.dumps(asking(7, "remember", key="odd", text="half \ud800 here"))
    assert "\\ud800" in lone
    said = exchange(tmp_path, HELLO, READY, "not json", '{"id": 5, "method": 3}', lone)
    errors = [(each["id"], each["error"]["code"]) for each in said if "error" in each]
    assert errors == [(None, -32700), (5, -32600)]
    assert {each["id"] for each in said if "result" in each} == {0, 7}
    with Stratalog(tmp_path) as memory, Records(memory) as records:
        (record,) = records.service.current(records.caller(agent="assistant")).records
        assert record.text == "half \ufffd here"


def test_nothing_but_the_protocol_is_on_stdout(tmp_path: Path) -> None:
    """What goes wrong with a log is told on stderr and in the answer, and stdout stays the protocol's."""
    with Stratalog(tmp_path) as memory:
        memory.session("helper:cli:one").turn("The harbour").end()
    (log,) = (tmp_path / "local" / "agents" / "helper" / "sessions").glob("*.jsonl")
    log.write_bytes(log.read_bytes() + b"\x00" * 300 + b"\n{broken\n")
    said = exchange(tmp_path, HELLO, READY, asking(1, "search_sessions", query="harbour"))
    assert [each["id"] for each in said] == [0, 1]
    assert len(said[1]["result"]["structuredContent"]["hits"]) == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--agent", "no agent / at all"),
        ("--session", "nonsense"),
        ("--session", "other/a:b:c"),
        ("--user", "\x00"),
        ("--dev",),
        ("--port", "1"),
        ("--http", "--user", "ana"),
    ],
    ids=str,
)
def test_a_wrong_option_ends_it_before_anything_is_served(options: tuple[str, ...], tmp_path: Path) -> None:
    """It ends with exit code 2, in words on stderr, and says nothing on stdout."""
    if "\x00" in options[-1]:
        options = (options[0], "a\nb")
    done = subprocess.run(
        command(tmp_path, *options), input=b"", capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 2, done.stderr.decode()
    assert done.stdout == b""
    assert b"error: " in done.stderr
    assert b"Traceback" not in done.stderr


def test_other_commands_do_not_load_it() -> None:
    """The command line has the command without the SDK, until it is run; without the SDK it says what to
    install."""
    seen = (
        "print(sorted({'mcp', 'mcp_types', 'anyio', 'pydantic', 'starlette', 'uvicorn'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, stratalog.surfaces.cli.app; {seen}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "[]\n"
    missing = "import sys; sys.modules['mcp'] = None; from stratalog.surfaces.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", missing, "mcp"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "pip install 'stratalog[mcp]'" in done.stderr


def test_with_json_it_does_not_start(tmp_path: Path) -> None:
    """stdout cannot be the protocol's and one value's at once."""
    done = subprocess.run(
        [*command(tmp_path), "--json"], input=b"", capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert b"--json" in done.stderr


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once(sent: signal.Signals, tmp_path: Path) -> None:
    """While it waits for its client, a signal ends it, and what was acknowledged is there."""
    process = subprocess.Popen(command(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    for each in (HELLO, READY, asking(1, "remember", key="tea", text="There is tea")):
        process.stdin.write(json.dumps(each).encode() + b"\n")
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline())["id"] for _ in range(2)]
    process.send_signal(sent)
    assert process.wait(30) == -sent
    process.stdin.close()
    process.stdout.close()
    assert answers == [0, 1]
    with Stratalog(tmp_path) as memory, Records(memory) as records:
        assert len(records.service.current(records.caller(agent="assistant")).records) == 1


def test_several_clients_on_one_data_directory(tmp_path: Path) -> None:
    """Four servers write and read at once: everything that was acknowledged is there, once, and each sees
    what the others wrote."""
    each_writes = 12

    async def one(name: str) -> None:
        async with over_stdio(tmp_path, "--user", "ana") as client:
            for number in range(each_writes):
                done = await call(
                    client, "remember", key=f"{name} {number}", text=f"Fact {number} that {name} told"
                )
                assert done["outcome"] == "stored"
                await call(client, "working_memory_set", key=f"{name} {number}", value=number)
                assert (await call(client, "recall", query=f"fact {number} {name}"))["found"]

    async def body() -> None:
        await asyncio.gather(*(one(name) for name in ("north", "south", "east", "west")))
        async with over_stdio(tmp_path, "--user", "ana") as client:
            keys = (await call(client, "working_memory_keys"))["keys"]
            assert len(keys) == len(set(keys)) == 4 * each_writes

    run(body, 300)
    with Stratalog(tmp_path) as memory, Records(memory) as records:
        found = records.service.current(records.caller(user="ana"), limit=1_000).records
        assert len(found) == 4 * each_writes
        assert {each.evidence for each in found} == {1}
        assert memory.doctor().healthy


@pytest.mark.crash
def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    """A server that is killed while it remembers one fact after the other has every fact whose answer came,
    and nothing in half: the next server reads and writes on."""
    for killed_after in (1, 5, 17):
        server = subprocess.Popen(
            command(tmp_path, "--user", f"u{killed_after}"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert server.stdin is not None
        assert server.stdout is not None
        facts = (asking(at, "remember", key=f"key {at}", text=f"Fact {at}") for at in range(1, 41))
        for each in (HELLO, READY, *facts):  # more than are answered before the kill
            server.stdin.write(json.dumps(each).encode() + b"\n")
        server.stdin.flush()
        acknowledged = set()
        while len(acknowledged) < killed_after:
            told = json.loads(server.stdout.readline())
            if told["id"]:
                assert told["result"]["structuredContent"]["outcome"] == "stored"
                acknowledged.add(f"key {told['id']}")
        server.kill()
        server.wait()
        acknowledged |= {f"key {json.loads(line)['id']}" for line in server.stdout if line.endswith(b"\n")}
        server.stdin.close()
        server.stdout.close()
        with Stratalog(tmp_path) as memory, Records(memory) as records:
            caller = records.caller(user=f"u{killed_after}")
            found = {each.key: each for each in records.service.current(caller, limit=1_000).records}
            assert acknowledged <= set(found)
            assert all(each.text == f"Fact {each.key.removeprefix('key ')}" for each in found.values())
            # A file that was being written when the kill came may be left, unfinished and read by nothing.
            assert memory.doctor(repair=True).healthy

    async def body() -> None:
        async with over_stdio(tmp_path, "--user", "u17") as client:
            again = await call(client, "remember", key="after", text="It goes on")
            assert again["outcome"] == "stored"
            assert "no such key" in await refused(client, "working_memory_get", key="nothing")

    run(body)
