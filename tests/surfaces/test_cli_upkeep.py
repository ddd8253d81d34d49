"""`doctor` finds what is wrong and moves it aside; `rebuild` makes anew what is derived."""

from __future__ import annotations

from pathlib import Path

from surfaces.terminals import cli, cli_json


def log_of(data: Path) -> Path:
    return max(data.rglob("*.jsonl"), key=lambda path: path.stat().st_size)


def flip(path: Path, at: int) -> None:
    """Changes one byte in the middle of the file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 0x01
    path.write_bytes(content)


def test_a_sound_memory(small: Path) -> None:
    """All is well, exit code 0, and the figures are told."""
    result = cli("doctor", data=small)
    assert result.exit_code == 0
    assert "all is well" in result.stdout
    value = cli_json("doctor", data=small)
    assert value["healthy"] is True
    assert len(value["logs"]) == 3


def test_a_flipped_byte_is_found_and_moved_to_quarantine(data: Path) -> None:
    """doctor says where, exit code 1, and changes nothing; --repair keeps the damaged bytes aside."""
    log = log_of(data)
    middle = log.stat().st_size // 2
    flip(log, middle)
    damaged = log.read_bytes()
    found = cli("doctor", data=data)
    assert found.exit_code == 1
    assert "something is wrong" in found.stdout
    assert log.name in found.stdout
    assert log.read_bytes() == damaged

    start = damaged.rfind(b"\n", 0, middle) + 1
    line = damaged[start : damaged.index(b"\n", middle)]
    moved = cli("doctor", "--repair", data=data).stdout
    (piece,) = data.rglob("*.quarantine/*.bin")
    assert f"kept in {piece}\n" in moved
    assert f"1 piece in quarantine:\n  {piece.parent}\n" in cli("doctor", data=data).stdout
    kept = b"".join(path.read_bytes() for path in data.rglob("*.quarantine/*"))
    assert line in kept
    assert cli("doctor", data=data).exit_code == 0
    assert len(cli_json("show", "7c1f", "--all", data=data)["entries"]) >= 550


def test_a_torn_last_line(data: Path) -> None:
    """What a crash tore off is found, moved aside, and then all is well."""
    log = log_of(data)
    log.write_bytes(log.read_bytes()[:-20])
    assert cli("doctor", data=data).exit_code == 1
    cli("doctor", "--repair", data=data)
    assert cli("doctor", data=data).exit_code == 0


def test_a_file_that_was_not_finished_is_harmless(small: Path) -> None:
    """What a killed process left is named, with what removes it, and the exit code is 0; --repair does."""
    half = next(small.rglob("*.jsonl")).with_name("cli~beta.jsonl.tmp-abcdefgh")
    half.write_bytes(b"half")
    told = cli("doctor", data=small)
    assert told.exit_code == 0
    assert f"  {half}\n" in told.stdout
    assert "harmless" in told.stdout
    assert "`stratalog doctor --repair` removes" in told.stdout
    assert "all is well" in told.stdout
    assert "wrong" not in told.stdout + told.stderr
    value = cli_json("doctor", data=small)
    assert (value["healthy"], value["leftovers"]) == (True, [str(half)])
    assert "harmless" not in cli("doctor", "--repair", data=small).stdout
    assert not half.exists()


def test_a_deletion_that_was_cut_short_is_not(small: Path) -> None:
    """What was deleted and is not all gone is wrong, with what finishes it; --repair does."""
    log = next(small.rglob("*~beta.jsonl"))
    grave = log.rename(log.with_suffix(".deleted"))
    told = cli("doctor", data=small)
    assert told.exit_code == 1
    assert f"deleted, but not all of it is gone: {grave}\n" in told.stdout
    assert "`stratalog doctor --repair` finishes" in told.stdout
    assert cli("doctor", "--repair", data=small).exit_code == 0
    assert not grave.exists()


def test_reading_over_damage_warns(data: Path) -> None:
    """A command that meets damage reads what it can, says so on stderr, and keeps stdout clean."""
    flip(log_of(data), log_of(data).stat().st_size // 2)
    result = cli("show", "7c1f", "--json", "--all", data=data)
    assert result.exit_code == 0
    assert result.stdout.startswith("{")
    assert "warning: " in result.stderr
    assert "byte " in result.stderr


def test_a_foreign_file_is_left_alone(small: Path) -> None:
    """A file that is no log is reported, and no command changes it."""
    folder = next(small.rglob("*.jsonl")).parent
    foreign = folder / "cli~zeta.jsonl"
    foreign.write_text("my shopping list\n")
    value = cli_json("doctor", "--repair", data=small, code=1)
    assert value["foreign"]
    assert foreign.read_text() == "my shopping list\n"
    told = cli("doctor", data=small)
    assert "move it away" in told.stdout
    assert "stratalog doctor" not in told.stdout + told.stderr
    assert told.stderr == ""  # what is found is told once


def test_where_only_the_list_is_wrong_doctor_names_rebuild(small: Path) -> None:
    """The logs are sound, so there is nothing to repair."""
    cli("sessions", data=small)
    for path in small.rglob("catalog.sqlite3-*"):
        path.unlink()
    next(small.rglob("catalog.sqlite3")).write_bytes(b"garbage" * 1000)
    told = cli("doctor", data=small)
    assert told.exit_code == 1
    assert "`stratalog rebuild` makes the list and the index anew" in told.stdout
    assert "--repair" not in told.stdout


def test_rebuild_after_losing_all_that_is_derived(small: Path) -> None:
    """Without catalog, index and meta files the sessions are all listed and found again (S80)."""
    cli("title", "beta", "Mine", data=small)
    cli("pin", "beta", data=small)
    cli("search", "trip", data=small)
    before = cli_json("sessions", data=small)
    for pattern in ("catalog.sqlite3*", "index.sqlite3*", "*.meta.json"):
        for path in small.rglob(pattern):
            path.unlink()
    assert cli_json("rebuild", data=small)["sessions"] == 3
    assert cli_json("sessions", data=small) == before
    assert cli_json("search", "trip", data=small)["hits"]


def test_without_a_rebuild_lost_lists_come_back(small: Path) -> None:
    """Deleting what is derived loses nothing: the next list has it all."""
    before = cli_json("sessions", data=small)
    for pattern in ("catalog.sqlite3*", "index.sqlite3*", "*.meta.json"):
        for path in small.rglob(pattern):
            path.unlink()
    assert cli_json("sessions", data=small) == before
    assert cli_json("search", "beans", data=small)["hits"]


def test_rebuild_mends_a_damaged_list_and_index(small: Path) -> None:
    """Garbage in place of the catalog and the index is replaced."""
    cli("search", "trip", data=small)
    for name in ("catalog.sqlite3", "index.sqlite3"):
        for path in small.rglob(f"{name}-*"):
            path.unlink()
        next(small.rglob(name)).write_bytes(b"garbage" * 1000)
    assert cli("sessions", data=small).exit_code == 5
    assert cli("rebuild", data=small).exit_code == 0
    assert len(cli_json("sessions", data=small)["sessions"]) == 3
    assert cli_json("search", "trip", data=small)["hits"]
