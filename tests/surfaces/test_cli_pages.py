"""`stratalog memory profiles|page|undo|consolidate`: in words and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from stratalog import Stratalog
from stratalog.engine.remembering import Draft, Layer, Records, Scope
from surfaces.terminals import cli as invoke
from surfaces.terminals import cli_json

ANA = ("--user", "ana")


class Said(NamedTuple):
    out: str
    err: str


def cli(*args: object, data: Path, code: int = 0) -> Said:
    """What it writes, with this exit code."""
    result = invoke(*args, data=data)
    assert result.exit_code == code, result.output
    return Said(result.stdout, result.stderr)


def know(data: Path, key: str, text: str, scope: Scope, layer: Layer = Layer.LONG) -> None:
    who: dict[str, Any] = {scope.kind: scope.id}
    with Stratalog(data) as memory, Records(memory) as records:
        records.service.remember(records.caller(**who), Draft(layer=layer, scope=scope, key=key, text=text))


def test_pages_are_brought_up_to_date_shown_and_taken_back(data: Path) -> None:
    """Of everybody, or of who asks; with their sources when asked for; once undone, undone again."""
    know(data, "home", "Ana lives in Lisbon", Scope("user", "ana"))
    know(data, "deploy", "Deploys go out on Tuesdays", Scope("agent", "bot"))
    told = cli("memory", "profiles", data=data).out
    assert told == "MEMORY.md of bot: 1 line more\nUSER.md of ana: 1 line more\n"
    assert cli("memory", "profiles", data=data).out == "every page is up to date\n"
    assert cli("memory", "page", *ANA, data=data).out == "## Facts\n\n- Ana lives in Lisbon\n"
    assert "<!-- from: " in cli("memory", "page", "--agent", "bot", "--sources", data=data).out
    know(data, "tea", "Ana drinks tea", Scope("user", "ana"))
    done = cli_json("memory", "profiles", *ANA, data=data)
    assert [(page["page"]["scope"]["id"], page["added"]) for page in done["pages"]] == [("ana", 1)]
    undone = cli_json("memory", "undo", *ANA, data=data)
    assert undone["text"].strip() == "## Facts\n\n- Ana lives in Lisbon"
    assert undone["path"] == str(data / "local/users/ana/USER.md")
    again = cli_json("memory", "undo", *ANA, data=data)
    assert "tea" in again["text"]


def test_a_page_that_is_left_as_it_is_says_so(data: Path) -> None:
    """With exit code 1 and what to do, which is done when it is forced."""
    for number in range(4):
        know(data, f"k{number}", f"Fact {number}", Scope("user", "ana"))
    cli("memory", "profiles", data=data)
    for number in range(3):
        cli("memory", "add", "no", "--key", f"k{number}", "--layer", "short", "--replaces", *ANA, data=data)
    left = cli("memory", "profiles", data=data, code=1)
    assert left.out == "USER.md of ana was left as it is: it would remove 3 of 4 lines; 30% may go\n"
    assert "--force" in left.err
    assert cli("memory", "profiles", "--force", *ANA, data=data).out == "USER.md of ana: 3 lines less\n"


def test_which_page_must_be_said(data: Path) -> None:
    """Nobody's page is an error, and so are two; one that nobody wrote yet is nothing, with exit code 1."""
    assert "which page?" in cli("memory", "page", data=data, code=2).err
    assert "which page?" in cli("memory", "undo", *ANA, "--agent", "bot", data=data, code=2).err
    assert cli("memory", "page", *ANA, data=data, code=1).err == "nothing is written there yet\n"
    assert "no earlier version" in cli("memory", "undo", *ANA, data=data, code=3).err


def test_records_are_consolidated(data: Path) -> None:
    """What lasted is promoted, and only once."""
    know(data, "home", "Ana lives in Lisbon", Scope("user", "ana"), Layer.SHORT)
    first = cli("memory", "consolidate", "--older-than", "0", data=data)
    assert first.out == "0 merged, 1 promoted, 0 marked, 0 expired\n"
    assert cli_json("memory", "consolidate", "--older-than", "0", data=data)["promoted"] == 0


def test_a_deleted_session_takes_its_own_records_along(data: Path) -> None:
    """Another session of its name knows nothing of it."""
    with Stratalog(data) as memory, memory.session("bot:cli:a").turn("hello") as turn:
        turn.reply("hi")
    know(data, "k", "the secret", Scope("session", "local/bot:cli:a"))
    assert len(cli_json("memory", "list", "--session", "bot:cli:a", data=data)["records"]) == 1
    cli("delete", "bot:cli:a", "--yes", data=data)
    with Stratalog(data) as memory, memory.session("bot:cli:a").turn("hello") as turn:
        turn.reply("hi")
    assert cli_json("memory", "list", "--session", "bot:cli:a", data=data)["records"] == []
