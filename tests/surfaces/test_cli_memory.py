"""`stratalog memory`: every command, in words and as JSON, and what it may not do."""

from __future__ import annotations

import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog import Stratalog
from stratalog.engine.remembering import Draft, Layer, Records, Scope, Source, When
from stratalog.surfaces.cli.moments import parse_when, told
from surfaces.terminals import cli, cli_json, process, terminal

ANA = ("--user", "ana")
HOSTILE = "\x1b[31mred\x1b[0m \u202eevil\u202c \x00 \x07end"
ODD = "a\udcff"  # as Python reads an argument that is no UTF-8
RECORD = {
    "id",
    "environment",
    "layer",
    "scope",
    "key",
    "payload",
    "text",
    "confidence",
    "origin",
    "sources",
    "valid_from",
    "valid_to",
    "supersedes",
    "conflict_with",
    "evidence",
    "status",
    "created_at",
    "updated_at",
    "expires_at",
}


def add(data: Path, text: str, *more: object, key: str = "home", who: tuple[str, ...] = ANA) -> Any:
    """What `memory add` says of it as JSON."""
    return cli_json("memory", "add", text, "--key", key, *who, *more, data=data)


def add_hostile(data: Path, environment: str = "production") -> str:
    """Keeps what would harm a terminal in every field that a caller writes; the id of the record."""
    with Stratalog(data) as memory, Records(memory) as records:
        me = records.caller(user="ana", environment=environment)
        draft = Draft(
            layer=Layer.LONG,
            scope=Scope("user", "ana"),
            key=f"key {HOSTILE}",
            text=HOSTILE,
            payload={"a\x1b[2J": HOSTILE},
            sources=(Source(session=f"a:b:{HOSTILE}", entry=HOSTILE),),
            valid_from=When(-(2**61), "day", f"../../{HOSTILE}"),
        )
        record = records.service.remember(me, draft).record
        assert record is not None
        return record.id


# --- adding ---


def test_what_became_of_it_is_told(tmp_path: Path) -> None:
    """Stored, merged, in conflict with which, in place of which: with ids and texts of the others."""
    first = cli("memory", "add", "Ana lives in Lisbon", "--key", "home", *ANA, data=tmp_path)
    assert first.stdout.startswith("stored: new\n")
    lisbon = first.stdout.split()[-1]
    same = cli("memory", "add", "ana lives in lisbon.", "--key", "Home", *ANA, data=tmp_path)
    assert same.stdout == f"merged: known already; said 2 times\n   {lisbon}\n"
    other = cli("memory", "add", "Ana lives in Porto", "--key", "home", *ANA, data=tmp_path)
    porto = other.stdout.splitlines()[1].strip()
    assert other.stdout.startswith("conflict: contradicts 1\n")
    assert f"contradicts {lisbon} · Ana lives in Lisbon\n" in other.stdout
    right = cli("memory", "add", "Ana lives in Faro", "--key", "home", *ANA, "--replaces", data=tmp_path)
    assert right.stdout.startswith("superseded: in place of 2\n")
    for id, text in ((lisbon, "Lisbon"), (porto, "Porto")):
        assert f"in place of {id} · Ana lives in {text}\n" in right.stdout


def test_what_was_forgotten_is_refused(small: Path) -> None:
    """What is drawn from an entry that was forgotten is refused with the reason, exit code 1."""
    source = ("--source", "beta#2")
    assert add(small, "speaks Chinese", *source, key="tongue")["outcome"] == "stored"
    assert cli("memory", "forget-source", "beta#2", *ANA, data=small).exit_code == 0
    refused = cli("memory", "add", "speaks Mandarin", "--key", "x", *ANA, *source, data=small)
    assert (refused.exit_code, refused.stdout) == (1, "refused: what it was drawn from was forgotten\n")
    value = cli_json("memory", "add", "y", "--key", "y", *ANA, *source, data=small, code=1)
    assert value == {
        "outcome": "refused",
        "reason": "what it was drawn from was forgotten",
        "record": None,
    }


def test_all_that_can_be_said_of_a_record(small: Path) -> None:
    """Each option is kept in its field; `--json` has every field, those with their defaults too."""
    with Stratalog(small) as memory:
        entry = memory.session("helper:cli:beta").entry(2)
    value = add(
        small,
        "Room 12",
        *("--layer", "mid", "--scope", "agent", "--agent", "helper", "--confidence", "0.9"),
        *("--json-payload", '{"room": 12}', "--from", "2024-03", "--until", "2031"),
        *("--source", "beta#2"),
        key="Printer",
    )
    record = value["record"]
    assert set(value) == {"outcome", "reason", "record"}
    assert set(record) == RECORD
    assert record["scope"] == {"kind": "agent", "id": "helper"}
    assert (record["layer"], record["key"], record["text"]) == ("mid", "printer", "Room 12")
    assert (record["confidence"], record["payload"], record["status"]) == (0.9, {"room": 12}, "current")
    assert record["sources"] == [
        {"session": "local/helper:cli:beta", "entry": entry.id, "start": 0, "stop": 0}
    ]
    assert [record[name]["precision"] for name in ("valid_from", "valid_to")] == ["month", "year"]


@pytest.mark.parametrize("scope", ["user", "agent", "session", "run"])
def test_a_scope_is_the_one_who_asks(small: Path, scope: str) -> None:
    """`--scope` takes the id from who asks, and exit code 2 names the option where nobody is named."""
    names = {"user": "ana", "agent": "helper", "session": "local/helper:cli:beta", "run": "r1"}
    given = "beta" if scope == "session" else names[scope]
    value = add(small, "x", "--scope", scope, who=(f"--{scope}", given))
    assert value["record"]["scope"] == {"kind": scope, "id": names[scope]}
    nobody = cli("memory", "add", "x", "--key", "k", "--scope", scope, data=small)
    assert nobody.exit_code == 2
    assert f"--{scope}" in nobody.stderr


def test_what_the_tenant_shares_is_an_admins_to_write(tmp_path: Path) -> None:
    """Without --admin it is exit code 6 with the way out; then all read it."""
    shared = ("memory", "add", "Closed on Sundays", "--key", "hours", "--scope", "tenant")
    denied = cli(*shared, *ANA, data=tmp_path)
    assert (denied.exit_code, denied.stdout) == (6, "")
    assert "--admin" in denied.stderr
    assert cli_json(*shared, *ANA, data=tmp_path, code=6)["kind"] == "AccessDenied"
    assert cli(*shared, "--admin", data=tmp_path).exit_code == 0
    assert cli_json("memory", "search", "Sundays", "--user", "bo", data=tmp_path)["found"]


# --- dates ---


@pytest.mark.parametrize(
    ("text", "at", "precision"),
    [
        ("2026", "2025-12-31T16:00", "year"),
        ("2026-09", "2026-08-31T16:00", "month"),
        ("2026-09-14", "2026-09-13T16:00", "day"),
        ("2026-09-14T10", "2026-09-14T02:00", "hour"),
        ("2026-09-14 10:30", "2026-09-14T02:30", "minute"),
        ("2026-09-14T10:30:07", "2026-09-14T02:30:07", "second"),
        ("2026-09-14T10:30+05:30", "2026-09-14T05:00", "minute"),
        ("2026-09-14T10:30Z", "2026-09-14T10:30", "minute"),
        ("1926-09-14", "1926-09-13T16:00", "day"),
    ],
)
def test_a_date_keeps_how_much_was_said(tmp_path: Path, text: str, at: str, precision: str) -> None:
    """It begins in the local zone, or at the offset that is given, and is shown as it was told."""
    where = {"STRATALOG_DATA": str(tmp_path)}
    done = process("memory", "add", "x", "--key", "k", *ANA, "--from", text, "--json", **where)
    record = msgspec.json.decode(done.stdout)["record"]
    moment = datetime.fromisoformat(at).replace(tzinfo=UTC)
    assert record["valid_from"]["at"] == moment.timestamp() * 1000
    assert record["valid_from"]["precision"] == precision
    if len(text) <= len("2026-09-14"):
        assert record["valid_from"]["zone"] == "Asia/Shanghai"
        shown = process("memory", "list", *ANA, **where, TZ="America/New_York").stdout.decode()
        assert f"from {text}" in shown


@given(
    st.datetimes(min_value=datetime(1980, 1, 1), max_value=datetime(2200, 1, 1)),  # local
    st.sampled_from([4, 7, 10, 13, 16, 19]),
)
def test_a_date_that_is_shown_is_read_as_the_same(moment: datetime, length: int) -> None:
    """What is shown of a moment, typed again, is that moment."""
    when = parse_when(moment.isoformat()[:length])
    assert parse_when(told(when)) == when


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13", "2026-02-30", "26", "2026-9", "0000", "7d", "²026"]
)
def test_what_is_no_date(tmp_path: Path, text: str) -> None:
    """Exit code 2, with how a date is written."""
    done = cli("memory", "add", "x", "--key", "k", *ANA, f"--from={text}", data=tmp_path)
    assert done.exit_code == 2
    assert "hint: write 2026" in done.stderr


# --- finding ---


def test_search_finds_what_holds(tmp_path: Path) -> None:
    """The best first, with id, key and dates; what ended is found with --as-of; nothing is exit code 1."""
    add(tmp_path, "Ana lived in Lisbon", "--from", "2020", "--until", "2022")
    now = add(tmp_path, "Ana lives in Porto", "--from", "2022")["record"]
    found = cli("memory", "search", "where", "does", "Ana", "live", *ANA, data=tmp_path)
    assert found.stdout == (f"1. long · user ana · home · from 2022\n   Ana lives in Porto\n   {now['id']}\n")
    then = cli_json("memory", "search", "Ana", *ANA, "--as-of", "2021-06", data=tmp_path)
    assert [each["text"] for each in then["found"]] == ["Ana lived in Lisbon"]
    assert set(then["found"][0]) == RECORD | {"score"}
    nothing = cli("memory", "search", "zebra", *ANA, data=tmp_path)
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    value = cli_json("memory", "search", "zebra", *ANA, data=tmp_path, code=1)
    assert value == {"query": "zebra", "found": [], "more": False}


def test_search_says_that_there_are_more(tmp_path: Path) -> None:
    """At most --limit are found, and whether that is all is told; Chinese needs no spaces."""
    for n in range(3):
        add(tmp_path, f"花生过敏 {n}", key=f"k{n}")
    value = cli_json("memory", "search", "谁对花生过敏", *ANA, "--limit", 2, data=tmp_path)
    assert (len(value["found"]), value["more"]) == (2, True)
    assert "there are more" in cli("memory", "search", "花生", *ANA, "-n", 2, data=tmp_path).stderr


def test_list_and_its_pages(tmp_path: Path) -> None:
    """The oldest first; a cursor goes on; layers and keys narrow it."""
    ids = [
        add(tmp_path, f"fact {n}", "--layer", layer, key=f"k{n}")["record"]["id"]
        for n, layer in enumerate(("long", "mid", "long"))
    ]
    page = cli_json("memory", "list", *ANA, "--limit", 2, data=tmp_path)
    assert [each["id"] for each in page["records"]] == ids[:2]
    rest = cli_json("memory", "list", *ANA, "--limit", 2, "--cursor", page["cursor"], data=tmp_path)
    assert ([each["id"] for each in rest["records"]], rest["cursor"]) == (ids[2:], "")
    assert f"--cursor {ids[1]}" in cli("memory", "list", *ANA, "-n", 2, data=tmp_path).stderr
    mid = cli_json("memory", "list", *ANA, "--layer", "mid", data=tmp_path)
    assert [each["id"] for each in mid["records"]] == ids[1:2]
    keyed = cli("memory", "list", *ANA, "--key", "K0", "--key", "k2", data=tmp_path).stdout
    assert [id in keyed for id in ids] == [True, False, True]
    none = cli("memory", "list", "--user", "bo", data=tmp_path)
    assert (none.exit_code, none.stdout) == (0, "")


def test_list_shows_what_was(tmp_path: Path) -> None:
    """By itself only what is current; with --as-of what held then, with --all-statuses everything."""
    add(tmp_path, "Lisbon", "--from", "2020")
    add(tmp_path, "Porto", "--from", "2022", "--confidence", "0.8")
    assert "Lisbon" not in cli("memory", "list", *ANA, data=tmp_path).stdout
    assert "Lisbon" in cli("memory", "list", *ANA, "--as-of", "2021", data=tmp_path).stdout
    every = cli("memory", "list", *ANA, "--all-statuses", data=tmp_path).stdout
    assert "from 2020 until 2022  superseded" in every
    both = cli("memory", "list", *ANA, "--as-of", "2021", "--all-statuses", data=tmp_path)
    assert both.exit_code == 2


def test_contradictions_show_in_the_list(tmp_path: Path) -> None:
    """Records that contradict one another are marked so."""
    add(tmp_path, "Lisbon")
    assert "contradicted" not in cli("memory", "list", *ANA, data=tmp_path).stdout
    add(tmp_path, "Porto")
    assert cli("memory", "list", *ANA, data=tmp_path).stdout.count("contradicted") == 2


def test_everyone_is_for_admins(tmp_path: Path) -> None:
    """--everyone lists and exports every scope of the environment, and only with --admin."""
    add(tmp_path, "Ana's")
    add(tmp_path, "Bo's", who=("--user", "bo"))
    for name in ("list", "export"):
        assert cli("memory", name, "--everyone", *ANA, data=tmp_path).exit_code == 6
        shown = cli("memory", name, "--everyone", "--admin", data=tmp_path).stdout
        assert "Ana's" in shown
        assert "Bo's" in shown


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_terminal_is_never_overrun(tmp_path: Path, columns: int) -> None:
    """The list fits the width; ids stay whole, and long texts are cut."""
    id = add(tmp_path, "long text " * 40, "--from", "2020-01-01", key="a key that goes on and on and on")[
        "record"
    ]["id"]
    shown = terminal("memory", "list", *ANA, "--data", tmp_path, columns=columns)
    assert shown.code == 0
    assert id in shown.text
    assert "…" in shown.text
    assert max(len(line) for line in shown.text.splitlines()) <= columns


def test_show_has_sources_and_history(small: Path) -> None:
    """What it says, where it was said, and each step; an admin sees another's, others get exit code 3."""
    record = add(small, "你好 means hello", "--source", "beta#2", key="greeting")["record"]
    add(small, "你好 means hello", key="greeting")
    shown = cli("memory", "show", record["id"], *ANA, data=small)
    assert shown.exit_code == 0
    for part in ("你好 means hello", "user ana", f"local/helper:cli:beta#{record['sources'][0]['entry']}"):
        assert part in shown.stdout
    assert [line.split()[3] for line in shown.stdout.splitlines() if " by user ana" in line] == [
        "remember",
        "merge",
    ]
    value = cli_json("memory", "show", record["id"], "--admin", data=small)
    assert value["record"]["evidence"] == 2
    assert [each["action"] for each in value["events"]] == ["remember", "merge"]
    for who, id in ((("--user", "bo"), record["id"]), (ANA, "01M8P6C8DTP18S1ASW2VNSQPDT")):
        assert cli("memory", "show", id, *who, data=small).exit_code == 3


def test_history_goes_on_where_it_ended(tmp_path: Path) -> None:
    """Every step, oldest first; a cursor goes on; by key or by id."""
    first = add(tmp_path, "Lisbon")["record"]["id"]
    add(tmp_path, "a cat", key="pet")
    cli("memory", "forget", first, *ANA, "--reason", "moved away", data=tmp_path)
    every = cli_json("memory", "history", *ANA, "--limit", 2, data=tmp_path)
    assert [each["action"] for each in every["events"]] == ["remember", "remember"]
    rest = cli_json("memory", "history", *ANA, "--cursor", every["cursor"], data=tmp_path)
    assert [(each["action"], each["reason"]) for each in rest["events"]] == [("forget", "moved away")]
    assert rest["cursor"] == 0
    text = cli("memory", "history", *ANA, "--id", first, data=tmp_path).stdout
    assert [line.split()[3] for line in text.splitlines()] == ["remember", "forget"]
    assert "Lisbon" in text
    assert "moved away" in text
    keyed = cli("memory", "history", *ANA, "--key", "Pet", data=tmp_path).stdout
    assert "a cat" in keyed
    assert "Lisbon" not in keyed


# --- forgetting ---


def test_forget_one_or_all_under_a_key(tmp_path: Path) -> None:
    """By id or by key: nothing finds it any more; both or neither is exit code 2, an id not there 3."""
    id = add(tmp_path, "Lisbon")["record"]["id"]
    for n in range(2):
        add(tmp_path, f"cat {n}", key="pet")
    assert cli("memory", "forget", id, *ANA, data=tmp_path).stderr == "forgot 1 record\n"
    value = cli_json("memory", "forget", "--key", "pet", *ANA, data=tmp_path)
    assert value == {"forgotten": 2, "repaired": 0, "unsupported": []}
    assert cli_json("memory", "list", *ANA, data=tmp_path)["records"] == []
    assert cli("memory", "show", id, *ANA, data=tmp_path).exit_code == 3
    assert cli("memory", "forget", id, *ANA, data=tmp_path).exit_code == 3
    assert cli("memory", "forget", *ANA, data=tmp_path).exit_code == 2
    assert cli("memory", "forget", id, "--key", "pet", *ANA, data=tmp_path).exit_code == 2
    assert cli("memory", "forget", "--key", "pet", "--scope", "tenant", *ANA, data=tmp_path).exit_code == 6


def test_forget_what_was_drawn_from_an_entry(small: Path) -> None:
    """By SESSION#ENTRY or by the entry's id; a record that a person told keeps its words, not the source."""
    record = add(small, "greets in Chinese", "--source", "beta#2")["record"]
    value = cli_json("memory", "forget-source", "beta#2", *ANA, data=small)
    assert value == {"forgotten": 0, "repaired": 1, "unsupported": []}
    assert cli_json("memory", "show", record["id"], *ANA, data=small)["record"]["sources"] == []
    by_id = cli("memory", "forget-source", record["sources"][0]["entry"], *ANA, data=small)
    assert by_id.stderr == "forgot 0 records, 0 others put right\n"
    assert cli("memory", "forget-source", "beta#99", *ANA, data=small).exit_code == 3


# --- bundles ---


def test_a_bundle_goes_and_comes(tmp_path: Path) -> None:
    """What export writes, 0600, import takes into another place whole, and once."""
    one, two, file = tmp_path / "one", tmp_path / "two", tmp_path / "ana.jsonl"
    kept = add(one, "Ana lives in Lisbon", "--from", "2024-03")["record"]
    add(one, "a secret", key="gone")
    cli("memory", "forget", "--key", "gone", *ANA, data=one)
    value = cli_json("memory", "export", *ANA, "-o", file, data=one)
    assert value == {"file": str(file), "bytes": file.stat().st_size}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert cli("memory", "export", *ANA, data=one).stdout.count("\n") == file.read_text("utf-8").count("\n")
    assert '"bundle"' in cli_json("memory", "export", *ANA, data=one)["content"]

    # An admin's import keeps the ids.
    first = cli_json("memory", "import", file, *ANA, "--admin", data=two)
    assert (first["stored"], first["tombstones"], first["complete"]) == (2, 1, True)
    assert cli_json("memory", "list", *ANA, data=two)["records"] == [kept]
    again = cli("memory", "import", file, *ANA, "--admin", data=two)
    assert (again.exit_code, again.stdout) == (0, "unchanged   3\n")


def test_a_bundle_that_is_not_whole(tmp_path: Path) -> None:
    """Cut: exit code 1 and what there was is kept. Damaged: 2. Of another environment: 6. No file: 2."""
    file = tmp_path / "b.jsonl"
    add(tmp_path / "one", "Ana lives in Lisbon")
    cli("memory", "export", *ANA, "-o", file, data=tmp_path / "one")
    whole = file.read_text("utf-8")
    elsewhere = cli("memory", "import", file, *ANA, "--environment", "eval:1", data=tmp_path / "two")
    assert elsewhere.exit_code == 6
    file.write_text(whole[: whole.rindex('{"kind":"end"')], "utf-8")
    cut = cli("memory", "import", file, *ANA, data=tmp_path / "two")
    assert cut.exit_code == 1
    assert "it was cut" in cut.stderr
    assert cli("memory", "search", "Lisbon", *ANA, data=tmp_path / "two").exit_code == 0
    file.write_text(whole[:-3], "utf-8")
    damaged = cli_json("memory", "import", file, *ANA, data=tmp_path / "two", code=2)
    assert damaged["where"] == {"line": 3}
    for missing in (tmp_path / "none", tmp_path):
        assert cli("memory", "import", missing, *ANA, data=tmp_path / "two").exit_code == 2


def test_others_records_are_left_out(tmp_path: Path) -> None:
    """Of a bundle with another's records nothing of them is taken in, which is told, exit code 1."""
    file = tmp_path / "b.jsonl"
    add(tmp_path / "one", "Bo's", who=("--user", "bo"))
    cli("memory", "export", "--user", "bo", "-o", file, data=tmp_path / "one")
    done = cli("memory", "import", file, *ANA, data=tmp_path / "two")
    assert (done.exit_code, done.stdout) == (1, "denied      1\n")
    assert "may not write" in done.stderr
    assert cli_json("memory", "list", "--user", "bo", data=tmp_path / "two")["records"] == []


# --- the audit ---


def test_the_audit_and_whose_lines(tmp_path: Path) -> None:
    """The last lines, the newest last; names narrow it; looking adds no line; no words are there."""
    add(tmp_path, "Ana lives in Lisbon")
    add(tmp_path, "x", who=("--user", "bo", "--environment", "eval:1"))
    cli("memory", "list", "--everyone", *ANA, data=tmp_path)
    lines = cli_json("memory", "audit", data=tmp_path)["lines"]
    assert [(each["call"], each["ending"], each["user"]) for each in lines] == [
        ("remember", "done", "ana"),
        ("remember", "done", "bo"),
        ("list", "refused", "ana"),
    ]
    assert cli_json("memory", "audit", "--last", 1, data=tmp_path)["lines"] == lines[2:]
    assert cli_json("memory", "audit", "--user", "bo", data=tmp_path)["lines"] == lines[1:2]
    assert cli_json("memory", "audit", "--environment", "production", data=tmp_path)["lines"] == [
        lines[0],
        lines[2],
    ]
    text = cli("memory", "audit", *ANA, data=tmp_path).stdout
    assert text.count("\n") == 2
    assert "user ana" in text
    assert "Lisbon" not in text


# --- all of them ---


HARMLESS = [
    ("list", ("--all-statuses",)),
    ("search", ("end",)),
    ("history", ()),
    ("export", ()),
    ("audit", ()),
]


@pytest.mark.parametrize(("name", "more"), HARMLESS, ids=[name for name, _ in HARMLESS])
def test_hostile_text_is_harmless(tmp_path: Path, name: str, more: tuple[str, ...]) -> None:
    """No control character and no mark that reorders text reaches a terminal, a pipe or JSON."""
    add_hostile(tmp_path)
    for args in ([], ["--json"]):
        shown = cli("memory", name, *more, *ANA, *args, data=tmp_path)
        assert shown.exit_code == 0
        if name != "export" or args:  # its bytes are the bundle's, for a file
            assert not set("\x00\x07\x1b\u202e\u202c") & set(shown.output)
    seen = terminal("memory", name, *more, *ANA, "--data", tmp_path, NO_COLOR="1", columns=200)
    assert not set("\x00\x07\u202e\u202c") & set(seen.text)
    assert "\x1b[31m" not in seen.sent
    assert "\x1b[2J" not in seen.sent


def test_a_hostile_record_can_be_shown_and_contradicted(tmp_path: Path) -> None:
    """`show` and `add` tell of it in escapes; a date that is no date on this machine is told as it stands."""
    id = add_hostile(tmp_path)
    shown = cli("memory", "show", id, *ANA, data=tmp_path)
    assert shown.exit_code == 0
    assert r"\x1b[31mred" in shown.stdout
    assert f"from {-(2**61)} ms" in shown.stdout
    other = cli("memory", "add", "else", "--key", f"key {HOSTILE}".replace("\x00", " "), *ANA, data=tmp_path)
    assert other.stdout.startswith("conflict")
    for result in (shown, other):
        assert not set("\x00\x07\x1b\u202e\u202c") & set(result.output)


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["search", ODD], 1),
        (["add", ODD, "--key", "k"], 2),
        (["add", "x", "--key", ODD], 0),
        (["add", "x", "--key", "k", "--json-payload", f'"{ODD}"'], 2),
        (["list", "--key", ODD], 0),
        (["list", "--cursor", ODD], 0),
        (["show", ODD], 3),
        (["history", "--id", ODD], 0),
        (["forget", ODD], 3),
        (["forget", "--key", "home", "--reason", ODD], 2),
        (["forget-source", ODD], 2),
        (["import", ODD], 2),
        (["audit", "--run", ODD], 2),
    ],
    ids=lambda each: " ".join(map(ascii, each)) if isinstance(each, list) else "",
)
def test_arguments_that_are_no_text(tmp_path: Path, args: list[str], code: int) -> None:
    """Bytes that are no UTF-8 end in one of our exit codes with one JSON value, never in a traceback."""
    add(tmp_path, "Ana lives in Lisbon")
    done = cli("memory", *args, *ANA, "--json", data=tmp_path)
    assert done.exit_code == code, (done.output, done.exception)
    assert isinstance(msgspec.json.decode(done.stdout), dict)


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ([], 2),
        (["nonsense"], 2),
        (["add", "x", *ANA], 2),
        (["add", "--key", "k", *ANA], 2),
        (["add", "x", "--key", "...", *ANA], 2),
        (["add", "x", "--key", "k", "--confidence", "2", *ANA], 2),
        (["add", "x", "--key", "k", "--layer", "eternal", *ANA], 2),
        (["add", "x", "--key", "k", "--json-payload", "{", *ANA], 2),
        (["add", "x", "--key", "k", "--from", "2026", "--until", "2025", *ANA], 2),
        (["add", "x", "--key", "k", "--source", "beta", *ANA], 2),
        (["add", "x", "--key", "k", "--source", "nobody#1", *ANA], 3),
        (["add", "x", "--key", "k", "--source", "beta#99", *ANA], 3),
        (["search", "x", "--limit", "0"], 2),
        (["search", "x", "--limit", "101"], 2),
        (["list", "--session", "nobody"], 3),
        (["list", "--session", "other/helper:cli:beta"], 2),
        (["list", "--session", "beta", "--agent", "another"], 2),
        (["list", "--user", "a/b"], 2),
        (["list", "--as-of", "someday"], 2),
        (["show", "x"], 3),
        (["audit", "--last", "0"], 2),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_an_error_is_told_and_is_an_object(small: Path, args: list[str], code: int) -> None:
    """In words on stderr and as one object on stdout, with the exit code; no traceback."""
    result = cli("memory", *args, "--json", data=small)
    assert result.exit_code == code, result.output
    value = msgspec.json.decode(result.stdout)
    assert set(value) == {"error", "kind", "hint", "where", "exit_code"}
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    if args:
        plainly = cli("memory", *args, data=small)
        assert (plainly.exit_code, plainly.stdout) == (code, "")


def test_the_common_options_may_stand_anywhere(tmp_path: Path) -> None:
    """Before `memory`, after it and after its command; tenants and environments are apart."""
    add(tmp_path, "for acme", "--tenant", "acme")
    for args in (
        ["--tenant", "acme", "memory", "list"],
        ["memory", "--tenant", "acme", "list"],
        ["memory", "list", "--tenant", "acme"],
    ):
        assert "for acme" in cli(*args, *ANA, data=tmp_path).stdout
    assert cli("memory", "list", *ANA, data=tmp_path).stdout == ""
    elsewhere = ("--tenant", "acme", "--environment", "eval:1")
    assert cli("memory", "list", *ANA, *elsewhere, data=tmp_path).stdout == ""


def test_a_session_that_is_not_there_any_more(small: Path) -> None:
    """What was remembered in it goes with it; by its whole key it may still be asked for."""
    add(small, "said there", "--scope", "session", who=("--session", "beta"))
    cli("delete", "beta", "--yes", data=small)
    asked = cli("memory", "list", "--session", "helper:cli:beta", data=small)
    assert asked.exit_code in (0, 1)
    assert "said there" not in asked.stdout
    assert cli("memory", "list", "--session", "beta", data=small).exit_code == 3


def test_a_store_that_another_holds(tmp_path: Path) -> None:
    """A directory in place of the file is exit code 5 in words; nothing is written."""
    (tmp_path / "local" / "memory.sqlite3").mkdir(parents=True)
    done = cli("memory", "add", "x", "--key", "k", *ANA, data=tmp_path)
    assert done.exit_code == 5
    assert done.stderr.startswith("error: ")


def test_help_says_what_there_is() -> None:
    """`memory` alone lists its commands; each has its help and the options of who asks."""
    assert "forget-source" in cli("memory").stdout
    for name in ("add", "export", "audit"):
        shown = cli("memory", name, "--help").stdout
        assert "--environment" in shown
        assert "--tenant" in shown


def test_the_other_commands_start_without_records() -> None:
    """Importing the command line loads neither the service nor a store of records."""
    names = ["stratalog.engine.remembering", "stratalog.memory.service", "stratalog.surfaces.cli.records"]
    code = f"import sys, stratalog.surfaces.cli.app as a; sys.exit(any(n in sys.modules for n in {names}))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
