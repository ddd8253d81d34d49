"""Anthropic's memory tool over a session: the answers of the SDK's own tool, no way out, every version kept,
several processes at once, and the official client's runner against a real server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("anthropic", reason="the SDK `anthropic` is not installed")

from anthropic import Anthropic, AsyncAnthropic, omit
from anthropic.lib.tools import ToolError
from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool

from interop.samples import read
from stratalog import Stratalog
from stratalog.engine.aio import AsyncStratalog
from stratalog.interop.anthropic_memory import (
    LARGEST_FILE,
    LARGEST_MEMORY,
    AsyncMemoryTool,
    MemoryTool,
    Version,
)
from stratalog.interop.export_messages import to_anthropic
from stratalog.models.replies.anthropic import MessagesReply
from stratalog.testing.model_server import ModelServer
from stratalog.testing.scripted import Call, Reply
from stratalog.types import WorkingMemory

Tool = MemoryTool | BetaLocalFilesystemMemoryTool
A, B = "/memories/a.md", "/memories/notes/b.md"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Stratalog]:
    with Stratalog(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def tool(memory: Stratalog) -> MemoryTool:
    return MemoryTool(memory, agent="helper", user="ana")


def ask(tool: Tool, command: str, **given: Any) -> str:
    """What the tool answers to the input of a model's call; an error begins with `! `."""
    try:
        return str(tool.call({"command": command, **given}))
    except ToolError as error:
        return f"! {error}"


STEPS: list[dict[str, Any]] = [
    {"command": "create", "path": A, "file_text": "one\ntwo\nthree\nfour\nfive\nsix"},
    {"command": "create", "path": A, "file_text": "again"},
    {"command": "view", "path": A},
    {"command": "view", "path": A, "view_range": [2, 3]},
    {"command": "view", "path": A, "view_range": [5, -1]},
    {"command": "view", "path": A, "view_range": [0, 99]},
    {"command": "view", "path": "/memories/none"},
    {"command": "str_replace", "path": A, "old_str": "four", "new_str": "4\n4b"},
    {"command": "str_replace", "path": A, "old_str": "nowhere", "new_str": "x"},
    {"command": "str_replace", "path": A, "old_str": "o", "new_str": "x"},
    {"command": "str_replace", "path": "/memories/none", "old_str": "o", "new_str": "x"},
    {"command": "insert", "path": A, "insert_line": 0, "insert_text": "zero\n"},
    {"command": "insert", "path": A, "insert_line": 8, "insert_text": "end"},
    {"command": "insert", "path": A, "insert_line": 99, "insert_text": "far"},
    {"command": "insert", "path": A, "insert_line": -1, "insert_text": "far"},
    {"command": "view", "path": A},
    {"command": "create", "path": B, "file_text": ""},
    {"command": "insert", "path": B, "insert_line": 0, "insert_text": "first"},
    {"command": "str_replace", "path": "/memories/notes", "old_str": "o", "new_str": "x"},
    {"command": "rename", "old_path": B, "new_path": A},
    {"command": "rename", "old_path": B, "new_path": "/memories/deep/er/c.md"},
    {"command": "rename", "old_path": "/memories/none", "new_path": "/memories/other"},
    {"command": "view", "path": "/memories/deep/er/c.md"},
    {"command": "rename", "old_path": "/memories/deep", "new_path": "/memories/flat"},
    {"command": "view", "path": "/memories/flat/er/c.md"},
    {"command": "delete", "path": "/memories/flat"},
    {"command": "delete", "path": "/memories/flat"},
    {"command": "delete", "path": "/memories"},
    {"command": "rename", "old_path": "/memories", "new_path": "/memories/x"},
    {"command": "view", "path": "/etc/passwd"},
    {"command": "delete", "path": A},
    {"command": "view", "path": A},
]


def test_the_answers_are_those_of_the_sdks_own_tool(tool: MemoryTool, tmp_path: Path) -> None:
    """For the same calls, in words: all that is done, shown and refused."""
    local = BetaLocalFilesystemMemoryTool(str(tmp_path / "files"))
    for step in STEPS:
        assert ask(tool, **step) == ask(local, **step), step


def test_a_folder_is_listed_two_levels_deep(tool: MemoryTool) -> None:
    """Folders first named, sizes of what is in them, no hidden names, the root when nothing is there."""
    header = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:\n"
    assert ask(tool, "view", path="/memories") == f"{header}0B\t/memories"
    for path, words in (
        ("/memories/z.md", "z" * 1536),
        ("/memories/b/deep/er/x.md", "xx"),
        ("/memories/b/a.md", "é"),
        ("/memories/.hidden", "h"),
        ("/memories/b/.git/config", "h"),
    ):
        ask(tool, "create", path=path, file_text=words)
    assert ask(tool, "view", path="/memories/") == header + "\n".join(
        (
            "1.5K\t/memories",
            "4B\t/memories/b/",
            "2B\t/memories/b/a.md",
            "2B\t/memories/b/deep/",
            "1.5K\t/memories/z.md",
        )
    )
    assert ask(tool, "view", path="/memories/b/deep").endswith(
        "in /memories/b/deep, excluding hidden items:\n"
        "2B\t/memories/b/deep\n2B\t/memories/b/deep/er/\n2B\t/memories/b/deep/er/x.md"
    )


ESCAPES = (
    *("", "/", "memories/a", "/memoriesx/a", "/etc/passwd", "/memories/../etc/passwd", "/memories/.."),
    *(
        "/memories/./a",
        "/memories/a/../../b",
        "/memories/%2e%2e/x",
        "/memories/%2E%2E%2Fx",
        "/memories/..%2fx",
    ),
    *("/memories/%252e%252e/x", "/memories/a\\..\\b", "/memories/a\0b", "/memories/a%00"),
    *(
        "/memories/a%5cb",
        "/memories/a\nb",
        "/memories/\u2028",
        "/memories/\ud800",
        "C:\\memories\\a",
        "//memories/a",
    ),
)


@pytest.mark.parametrize("path", ESCAPES, ids=ascii)
def test_no_path_leads_out(tool: MemoryTool, path: str) -> None:
    """Whatever it is asked with, it is refused in every place, and nothing is written."""
    for step in (
        {"command": "view", "path": path},
        {"command": "create", "path": path, "file_text": "x"},
        {"command": "str_replace", "path": path, "old_str": "x", "new_str": "y"},
        {"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"},
        {"command": "delete", "path": path},
        {"command": "rename", "old_path": path, "new_path": A},
        {"command": "rename", "old_path": A, "new_path": path},
    ):
        assert ask(tool, **step).startswith("! Path ")
    assert not tool.session.exists


@given(st.text(max_size=30))
def test_any_path_is_a_name_or_refused(tail: str) -> None:
    """What a model may come up with is a name below /memories, or an error; nothing else."""
    from stratalog.interop.anthropic_memory import _path

    class Given:
        path = f"/memories/{tail}"

    try:
        found = _path(Given, "path")
    except ToolError:
        return
    assert found == "/memories" or found.startswith("/memories/")
    assert not {"", ".", ".."} & set(found.split("/")[1:])


def test_what_a_model_leaves_out_is_an_error(tool: MemoryTool) -> None:
    """A call without its fields, or with others than text, is refused in words."""
    assert ask(tool, "view") == "! `path` is missing: it is a path such as /memories/notes.md"
    assert ask(tool, "create", path=A) == "! `file_text` is missing: it is text"
    assert ask(tool, "create", path=A, file_text=5) == "! `file_text` is missing: it is text"
    assert ask(tool, "create", path=A, file_text="\ud800").startswith("! `file_text` has a half")
    assert ask(tool, "create", path="/memories", file_text="x").startswith("! File /memories already exists")
    ask(tool, "create", path=A, file_text="x")
    assert ask(tool, "create", path=f"{A}/b", file_text="x") == f"! The path {A} is a file, not a directory"
    assert ask(tool, "rename", old_path=A, new_path=f"{A}/b") == f"! {A} cannot be moved into itself"
    assert ask(tool, "str_replace", path=A, old_str="x").startswith("The memory file has been edited.")
    assert tool._files() == {A: ""}


def test_every_version_is_kept(tool: MemoryTool) -> None:
    """Old texts, removals and what a renamed file was, each with its entry; the log names nothing else."""
    ask(tool, "create", path=A, file_text="1")
    ask(tool, "str_replace", path=A, old_str="1", new_str="2")
    ask(tool, "rename", old_path=A, new_path=B)
    ask(tool, "create", path=A, file_text="3")
    tool.clear_all_memory()
    assert [each.text for each in tool.versions(A)] == ["1", "2", None, "3", None]
    first = tool.versions(B)[0]
    assert first == Version(first.seq, first.ts, "2")
    assert first.ts > 0
    assert tool._files() == {}
    assert {type(entry) for entry in tool.session.entries() if entry.meta is None} >= {WorkingMemory}


def test_users_agents_and_tenants_are_apart(memory: Stratalog, tool: MemoryTool) -> None:
    """No one's files are another's, also where a user's id could not stand in a key."""
    ask(tool, "create", path=A, file_text="ana's")
    others = [
        MemoryTool(memory, agent="helper", user="ben"),
        MemoryTool(memory, agent="helper", user="../ana"),
        MemoryTool(memory, agent="other", user="ana"),
        MemoryTool(memory.as_tenant("acme"), agent="helper", user="ana"),
    ]
    assert [each._files() for each in others] == [{}] * 4
    assert len({tool.session.key, *(each.session.key for each in others)}) == 5
    assert MemoryTool(memory, agent="helper", user="ana")._files() == {A: "ana's"}


def test_limits_are_told(tool: MemoryTool) -> None:
    """A file that is too large, and more than may be kept; taking away always works."""
    assert ask(tool, "create", path=A, file_text="x" * (LARGEST_FILE + 1)) == (
        f"! {A} would have {LARGEST_FILE + 1:,} bytes; {LARGEST_FILE:,} are allowed. Keep less in one file."
    )
    files = {f"/memories/{number}": "x" * LARGEST_FILE for number in range(LARGEST_MEMORY // LARGEST_FILE)}
    tool.session.append(*(WorkingMemory(op="set", key=path, value=words) for path, words in files.items()))
    assert "Delete what is no longer needed" in ask(tool, "create", path=A, file_text="x")
    assert ask(tool, "delete", path="/memories/0") == "Successfully deleted /memories/0"
    assert ask(tool, "create", path=A, file_text="x") == f"File created successfully at: {A}"
    assert "too long" in ask(tool, "create", path="/memories/" + "x" * 600, file_text="")
    assert "too long" in ask(tool, "create", path="/memories" + "/x" * 20, file_text="")


WRITER = """
import sys
from stratalog import Stratalog
from stratalog.interop.anthropic_memory import MemoryTool
with Stratalog(sys.argv[1]) as memory:
    tool = MemoryTool(memory, agent="helper", user="ana")
    for number in range(15):
        tool.call({"command": "insert", "path": "/memories/a.md", "insert_line": 0,
                   "insert_text": f"{sys.argv[2]}-{number}"})
"""


def test_processes_share_a_users_files(memory: Stratalog, tool: MemoryTool) -> None:
    """Two processes and this one change one file at once, and no change is lost."""
    ask(tool, "create", path=A, file_text="")
    others = [subprocess.Popen([sys.executable, "-c", WRITER, str(memory.data), name]) for name in ("x", "y")]
    for number in range(15):
        ask(tool, "insert", path=A, insert_line=0, insert_text=f"z-{number}")
    assert [each.wait(60) for each in others] == [0, 0]
    lines = tool._files()[A].split()
    assert sorted(lines) == sorted(f"{name}-{number}" for name in "xyz" for number in range(15))
    assert len(tool.versions(A)) == 46


# --- through the official client ---

CALLS: list[Any] = [
    Reply(calls=(Call("memory", {"command": "view", "path": "/memories"}, id="toolu_1"),)),
    Reply(calls=(Call("memory", {"command": "create", "path": A, "file_text": "ana: tea"}, id="toolu_2"),)),
    Reply(calls=(Call("memory", {"command": "view", "path": "/memories/../x"}, id="toolu_3"),)),
    Reply(text="Noted."),
]
ASKED: dict[str, Any] = {
    "model": "claude-sonnet-5",
    "max_tokens": 500,
    "messages": [{"role": "user", "content": "I like tea."}],
    "betas": ["context-management-2025-06-27"],
    "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
    "thread": False,  # each request has the whole conversation, which this server does not keep
}


def results(server: ModelServer) -> list[dict[str, Any]]:
    """The results of tools that the last request brought, in order."""
    return [
        block
        for message in server.requests[-1].body["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    ]


def checked(server: ModelServer) -> None:
    assert server.requests[-1].body["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    found = results(server)
    assert [each["tool_use_id"] for each in found] == ["toolu_1", "toolu_2", "toolu_3"]
    assert found[1]["content"] == f"File created successfully at: {A}"
    assert found[2]["is_error"] is True
    assert "would escape" in str(found[2]["content"])


def test_the_official_clients_runner(tool: MemoryTool) -> None:
    """The client's own loop: the model's calls are done, an escape is an error it is told, the file lasts."""
    with ModelServer(CALLS) as server:
        client = Anthropic(api_key="test", base_url=server.anthropic_url, max_retries=0)
        message = client.beta.messages.tool_runner(tools=[tool], **ASKED).until_done()
    assert message.content[0].text == "Noted."
    checked(server)
    assert tool._files() == {A: "ana: tea"}


def test_the_asynchronous_clients_runner(tmp_path: Path) -> None:
    """The same for the asynchronous client."""

    async def body(url: str) -> dict[str, str]:
        async with AsyncStratalog(tmp_path / "data") as memory:
            tool = AsyncMemoryTool(memory, agent="helper", user="ana")
            client = AsyncAnthropic(api_key="test", base_url=url, max_retries=0)
            message = await client.beta.messages.tool_runner(tools=[tool], **ASKED).until_done()
            assert message.content[0].text == "Noted."
            return tool.sync._files()

    with ModelServer(CALLS) as server:
        assert asyncio.run(body(server.anthropic_url)) == {A: "ana: tea"}
    checked(server)


# --- context management ---

EDITED = {
    "context_management": {
        "applied_edits": [
            {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 2, "cleared_input_tokens": 50_000}
        ]
    }
}


def completed(message: dict[str, Any]) -> tuple[Any, Any]:
    reply = MessagesReply("claude-sonnet-5")
    return list(reply.whole(message)), reply.completed(framed=True)


def test_a_reply_after_server_side_edits_is_read_as_any_other() -> None:
    """What the provider says it cleared is beside the message, which is whole, its calls too."""
    content = [
        {"type": "tool_use", "id": "toolu_9", "name": "memory", "input": {"command": "view", "path": A}}
    ]
    message = {"id": "m", "role": "assistant", "content": content, "stop_reason": "tool_use", "usage": {}}
    assert completed(message | EDITED) == completed(message)


def test_cleared_results_lose_nothing(memory: Stratalog, tool: MemoryTool) -> None:
    """The log has every call and result of a run whose older results the provider cleared; what a model is
    sent of it is the whole conversation with its ids, and a file is there to be viewed again."""
    with ModelServer(CALLS) as server:
        client = Anthropic(api_key="test", base_url=server.anthropic_url, max_retries=0)
        runner = client.beta.messages.tool_runner(tools=[tool], **ASKED)
        last = runner.until_done()
    sent = server.requests[-1].body["messages"]
    cleared = [
        {**message, "content": [_cleared(block) for block in message["content"]]}
        if isinstance(message["content"], list)
        else message
        for message in sent
    ]
    for history in (sent, cleared):
        said = [*history, {"role": "assistant", "content": [block.to_dict() for block in last.content]}]
        (session,) = read("anthropic", {"id": "run", "system": [], "messages": said}, "run.json").sessions
        (line,) = to_anthropic(tool.session.key, "", session.entries)
        made = msgspec.json.decode(line)["messages"]
        calls = [
            block["id"] for message in made for block in message["content"] if block["type"] == "tool_use"
        ]
        answered = [
            block["tool_use_id"]
            for message in made
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
        assert calls == answered == ["toolu_1", "toolu_2", "toolu_3"]
        with ModelServer(["On."]) as other:
            client = Anthropic(api_key="test", base_url=other.anthropic_url, max_retries=0)
            going_on = [*made, {"role": "user", "content": "go on"}]
            client.beta.messages.create(
                **ASKED | {"messages": going_on, "tools": [tool.to_dict()], "thread": omit}
            )
    assert ask(tool, "view", path=A).endswith("\tana: tea")


def _cleared(block: dict[str, Any]) -> dict[str, Any]:
    """The block as context management leaves it to the model."""
    if block["type"] != "tool_result":
        return block
    return {**block, "content": "[Old tool result content cleared to save context]"}
