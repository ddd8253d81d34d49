"""The command line of the MCP inspector, another client than the SDK's, where it is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from surfaces.mcp.clients import command

VARIABLE = "MCP_INSPECTOR"
INSTALLED = Path(sys.prefix) / "inspector" / "node_modules" / ".bin" / "mcp-inspector-cli"  # by `make test`
INSPECTOR = os.environ.get(VARIABLE) or shutil.which("mcp-inspector") or shutil.which(INSTALLED)

pytestmark = pytest.mark.skipif(
    INSPECTOR is None,
    reason=f"the MCP inspector is not installed; docs/mcp.md says how, and what {VARIABLE} is",
)


def shown(data: Path, *what: str) -> str:
    """What the inspector shows of a server that it starts."""
    program, *args = command(data, "--user", "ana")
    done = subprocess.run(
        [str(INSPECTOR), "--cli", program, *args, *what],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.stdout


def inspect(data: Path, *what: str) -> dict[str, Any]:
    """The same as the JSON that it is where nothing is wrong."""
    return dict(json.loads(shown(data, *what)))


@pytest.mark.long
def test_the_inspector_lists_and_calls(tmp_path: Path) -> None:
    """It lists tools, resources and prompts, calls tools, and reads what they changed."""
    tools = inspect(tmp_path, "--method", "tools/list")["tools"]
    assert {"remember", "recall", "forget", "read_session"} <= {each["name"] for each in tools}
    told = inspect(
        tmp_path,
        *("--method", "tools/call", "--tool-name", "remember"),
        *("--tool-arg", "key=tea", "--tool-arg", "text=Ana drinks tea"),
    )
    assert told["structuredContent"]["outcome"] == "stored"
    found = inspect(
        tmp_path,
        *("--method", "tools/call", "--tool-name", "recall"),
        *("--tool-arg", "query=tea", "--tool-arg", "limit=3"),
    )
    assert found["structuredContent"]["found"][0]["text"] == "Ana drinks tea"
    wrong = shown(
        tmp_path,
        *("--method", "tools/call", "--tool-name", "recall"),
        *("--tool-arg", "query=tea", "--tool-arg", "a=b"),
    )
    assert '"isError": true' in wrong
    assert "unknown field `a`" in wrong
    resources = inspect(tmp_path, "--method", "resources/list")["resources"]
    assert resources[0]["uri"] == "stratalog://profiles/user"
    prompts = inspect(tmp_path, "--method", "prompts/list")["prompts"]
    assert {each["name"] for each in prompts} == {"recall", "resume", "keep"}
