"""On a terminal: colour and fitted columns, and nothing in a transcript that a terminal would act on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from stratalog import Stratalog
from stratalog.demo import transcript_path
from stratalog.types import Note, Reasoning, Text, ToolCall, ToolResult, User
from surfaces.terminals import CSI, process, terminal

EVIL = (
    "\x1b[2J\x1b]0;owned\x07\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\ \x9b31m \x00\x08\x7f \u202egnp\u202c"
    " [bold red]markup[/] [link=http://evil]x[/link] :smile: \r overwritten \U000e0041 \u2066x"
)
FORBIDDEN = "\x00\x07\x08\x7f\x9b\u202e\u2066\U000e0041"


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A data directory whose every field has text that is hostile to a terminal."""
    data = tmp_path / "evil"
    with Stratalog(data) as memory:
        session = memory.session("evil:cli:one")
        with session.turn(f"payload {EVIL}") as turn:
            call = turn.call(f"run {EVIL}", {f"arg {EVIL}": EVIL})
            turn.result(call, f"payload {EVIL}\n{EVIL}")
            turn.reply((Reasoning(text=EVIL), Text(text=f"payload {EVIL}")), model=f"model {EVIL}")
        session.append(Note(kind=f"kind {EVIL}", text=EVIL), User(content=EVIL, meta={"injected": True}))
        session.append(
            ToolCall(call_id="x", name="y", args=EVIL), ToolResult(call_id="x", content=EVIL, error=True)
        )
        session.set_title(f"payload title {EVIL}")
    return data


@pytest.mark.parametrize(
    "args",
    [
        ["sessions"],
        ["show", "one"],
        ["show", "one", "--full"],
        ["search", "payload", "--neighbours", "3"],
        ["context", "one"],
        ["context", "one", "--system", EVIL.replace("\x00", "")],
        ["context", "one", "--messages"],
        ["show", "one", "--json"],
        ["export", "one"],
        ["export", "one", "--format", "markdown"],
        ["pin", "one"],
        ["fork", "one", "two"],
        ["restart", "one"],
        ["delete", "one"],
        ["doctor"],
        ["show", "payload", "--before", "2"],
        ["show", f"nobody{EVIL}".replace("\x00", "")],
    ],
    ids=lambda args: " ".join(args)[:24].encode("ascii", "replace").decode().replace("\x1b", "?"),
)
def test_hostile_text_is_inert(evil: Path, args: list[str]) -> None:
    """No sequence of the text reaches the terminal: what is left besides our colours is printable."""
    shown = terminal(*args, STRATALOG_DATA=str(evil), answer="n\n")
    text = CSI.sub("", shown.sent)
    assert "\x1b" not in text
    assert "\x1b[2J" not in shown.sent
    assert "\x1b[31m \x00" not in shown.sent
    assert not set(text) & set(FORBIDDEN)
    assert "\r overwritten" not in shown.sent


def test_markup_is_shown_as_it_is(evil: Path) -> None:
    """Square brackets and emoji codes in data are text."""
    text = terminal("show", "one", STRATALOG_DATA=str(evil), columns=300).text
    assert "[bold red]markup[/]" in text
    assert "[link=http://evil]x[/link]" in text
    assert ":smile:" in text
    assert r"\x1b[2J" in text


def test_import_of_hostile_names(tmp_path: Path) -> None:
    """Names of files and what is said of them are safe too."""
    folder = tmp_path / "in\x1b[2J\x9b"
    folder.mkdir()
    (folder / "x\x1b]0;owned\x07.json").write_text('{"a": 1}')
    for more in ([], ["--verbose"]):
        shown = terminal("import", folder, *more, STRATALOG_DATA=str(tmp_path / "d"))
        assert "\x1b[2J" not in shown.sent
        assert "\x07" not in shown.sent
        assert "\x9b" not in shown.sent


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize(
    "args",
    [
        ["sessions"],
        ["search", "花生", "-C", "1"],
        ["show", "7c1f"],
        ["context", "7c1f"],
        ["doctor"],
        ["demo"],
    ],
)
def test_no_line_is_wider_than_the_terminal(imported: Path, args: list[str], columns: int) -> None:
    """Every line fits, counted in cells, whatever is in it: only a word longer than the line goes over."""
    shown = terminal(*args, STRATALOG_DATA=str(imported), columns=columns)
    assert shown.code == 0
    for line in re.split("[\r\n]", shown.text):
        longest = max(map(cell_len, line.split()), default=0)
        assert cell_len(line) <= columns or longest + 4 > columns, line


def test_wide_characters_keep_columns_straight(tmp_path: Path) -> None:
    """A title in Chinese takes two cells a character, and what stands after the column begins in one line."""
    with Stratalog(tmp_path / "d") as memory:
        for chat, agent in (("1", "中文助理"), ("2", "plain")):
            with memory.session(f"{agent}:cli:{chat}").turn("标题" * 40) as turn:
                turn.reply("x")
    for shown in (
        terminal("sessions", STRATALOG_DATA=str(tmp_path / "d")).text,
        process("sessions", STRATALOG_DATA=str(tmp_path / "d")).stdout.decode(),
    ):
        rows = [line for line in shown.split("\n") if "标题" in line]
        assert len(rows) == 2
        assert len({cell_len(row.partition("标题")[0]) for row in rows}) == 1


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("alike", [4, 30])
def test_keys_that_are_much_alike_starve_nothing(tmp_path: Path, alike: int, columns: int) -> None:
    """Of narrow columns the agent and the time of day go first; keys are whole enough to be typed, counts
    and days are never cut, and some of the title is seen."""
    chats = [f"{'7c1f0a523b9e4d1e9a5761c0de2b8f14'[:alike]}{end}-and-more" for end in ("aa", "bb")]
    with Stratalog(tmp_path / "d") as memory:
        for chat in chats:
            with memory.session(f"claude-code:import:{chat}").turn("Parcels of Europe " * 9) as turn:
                turn.reply("x")
        memory.session(f"claude-code:import:{chats[0]}").pin()
    text = terminal("sessions", STRATALOG_DATA=str(tmp_path / "d"), columns=columns).text
    heading, *rows = [line for line in text.split("\n") if "title" in line or "Parcels o" in line]
    assert len(rows) == 2
    assert all(row.count("…") == 1 and row.rstrip().endswith("…") for row in rows)
    assert "…" not in heading
    assert "claude-code" not in text or columns == 80
    for row in rows:
        key = next(word for word in row.split() if word.startswith("7c1f"))
        assert process("show", key, STRATALOG_DATA=str(tmp_path / "d")).returncode == 0


def test_a_key_wider_than_the_terminal_is_cut_into_lines(tmp_path: Path) -> None:
    """All of it is still there."""
    chats = ["7c1f0a52" * 6 + end for end in ("aa", "bb")]
    with Stratalog(tmp_path / "d") as memory:
        for chat in chats:
            with memory.session(f"a:b:{chat}").turn("Parcels") as turn:
                turn.reply("x")
    text = terminal("sessions", STRATALOG_DATA=str(tmp_path / "d"), columns=40).text
    joined = "".join(line.partition("  ")[0].strip() for line in text.split("\n"))
    assert all(chat[:-1] in joined for chat in chats)
    assert text.count("Parcels") == 2


def test_colour_is_for_a_terminal(imported: Path) -> None:
    """A terminal gets colours, NO_COLOR and a pipe none; the bar's sections then differ in shade."""
    environ = {"STRATALOG_DATA": str(imported)}
    assert "\x1b[36m" in terminal("context", "7c1f", **environ).sent
    plain = terminal("context", "7c1f", **environ, NO_COLOR="1")
    assert "\x1b[36m" not in plain.sent
    assert "█▓" in plain.text
    assert b"\x1b" not in process("context", "7c1f", **environ).stdout
    assert b"\x1b" not in process("search", "花生", **environ).stdout


def test_search_terms_stand_out(imported: Path) -> None:
    """Words of the query are highlighted in their inflected forms, and Chinese within a sentence."""
    environ = {"STRATALOG_DATA": str(imported)}
    assert "\x1b[1;33m花生" in terminal("search", "花生", "-n", 1, **environ).sent
    assert "\x1b[1;33mcarriers" in terminal("search", "carrier", "-n", 10, **environ).sent


def test_long_work_has_a_bar_on_stderr(tmp_path: Path) -> None:
    """On a terminal a bar is drawn while work goes on; without one there is nothing of it."""
    transcript = tmp_path / "t.jsonl"
    transcript.write_bytes(transcript_path().read_bytes())
    shown = terminal("import", transcript, STRATALOG_DATA=str(tmp_path / "d"))
    assert "importing 1 file" in shown.text
    assert "100%" in shown.text
    assert "[progress" not in shown.text
    done = process("import", transcript, STRATALOG_DATA=str(tmp_path / "e"))
    assert b"importing" not in done.stdout + done.stderr


def test_delete_asks(small: Path) -> None:
    """A yes deletes, a no does not and is exit code 1."""
    refused = terminal("delete", "beta", answer="n\n", STRATALOG_DATA=str(small))
    assert refused.code == 1
    assert 'Delete helper:cli:beta "你好世界" with its 2 messages for good?' in refused.text
    assert "nothing was deleted" in refused.text
    assert terminal("delete", "beta", answer="y\n", STRATALOG_DATA=str(small)).code == 0
    assert terminal("show", "beta", STRATALOG_DATA=str(small)).code == 3


def test_restart_asks_when_a_turn_runs(small: Path) -> None:
    """Only then; a no leaves the session as it is."""
    assert terminal("restart", "beta", STRATALOG_DATA=str(small)).code == 0
    with Stratalog(small) as memory:
        turn = memory.session("helper:cli:alpha-one").turn("busy")
        refused = terminal("restart", "alpha-one", answer="n\n", STRATALOG_DATA=str(small))
        assert refused.code == 1
        assert "End it and restart?" in refused.text
        assert terminal("restart", "alpha-one", answer="y\n", STRATALOG_DATA=str(small)).code == 0
        assert turn.id


def test_short_names_on_a_terminal_work(small: Path) -> None:
    """What the list calls a session is what the commands take."""
    text = terminal("sessions", STRATALOG_DATA=str(small)).text
    assert "alpha-one" in text
    assert "helper:cli:alpha-one" not in text
    assert "helper:cli:alpha-one" in process("sessions", STRATALOG_DATA=str(small)).stdout.decode()
