"""A session is named by a piece of its name, and never by one that could be another's."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog import parse_key
from stratalog.errors import InvalidInput, NotFound
from stratalog.surfaces.cli.keys import match, shortener
from surfaces.terminals import cli, cli_json, process


class Meta(NamedTuple):
    key: str
    title: str


LIST = [
    Meta("local/a:cli:1f2e3d4c-aaaa", "Fix the roof"),
    Meta("local/a:cli:1f2e3d4c-bbbb", "Fix the door"),
    Meta("local/a:cli:1f2e3d4c-bbbb:side", "A side talk"),
    Meta("local/b:web:me", "Me"),
    Meta("local/c:web:me", "Grüße"),
]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("local/a:cli:1f2e3d4c-aaaa", 0),
        ("a:cli:1f2e3d4c-aaaa", 0),
        ("1f2e3d4c-a", 0),
        ("1f2e3d4c-bbbb", 1),  # the whole of one, though also the beginning of another
        ("1f2e3d4c-bbbb:", 2),
        ("fix the d", 1),
        ("b:web", 3),
        ("GRÜSSE", 4),
    ],
)
def test_a_piece_names_one_session(text: str, found: int) -> None:
    """A whole key, chat or title, or the beginning of one, names the session that alone has it."""
    assert str(match(text, LIST)) == LIST[found].key


@pytest.mark.parametrize(("text", "count"), [("1f2e", 3), ("fix", 2), ("me", 2), ("a", 3)])
def test_ambiguity_is_an_error_with_the_candidates(text: str, count: int) -> None:
    """Where it could be several sessions, the error names them."""
    with pytest.raises(InvalidInput) as caught:
        match(text, LIST)
    candidates = caught.value.where["candidates"]
    assert isinstance(candidates, list)
    assert len(candidates) == count


@pytest.mark.parametrize("text", ["nobody", "bbbb", "roof"])
def test_a_piece_from_the_middle_names_nothing(text: str) -> None:
    """Only beginnings count."""
    with pytest.raises(NotFound):
        match(text, LIST)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"), st.text("ab-1", min_size=1, max_size=14), st.text("ab1 ", max_size=6)
        ),
        unique_by=lambda each: each[:2],
        max_size=12,
    )
)
def test_what_is_shown_for_a_session_names_it(sessions: list[tuple[str, str, str]]) -> None:
    """The short name of every session of any list leads back to that session."""
    metas = [Meta(f"local/{agent}:cli:{chat}", title) for agent, chat, title in sessions]
    short = shortener(metas)
    for meta in metas:
        key = parse_key(meta.key)
        assert match(short(key), metas) == key


def test_ambiguity_on_the_command_line(small: Path) -> None:
    """Exit code 2, the candidates in words and as data, and nothing done."""
    result = cli("delete", "alpha", "--yes", data=small)
    assert result.exit_code == 2
    assert 'helper:cli:alpha-one "Plan a trip"' in result.stderr
    error = cli_json("delete", "alpha", "--yes", data=small, code=2)
    assert len(error["where"]["candidates"]) == 2
    assert len(cli_json("sessions", data=small)["sessions"]) == 3


def test_a_title_that_looks_like_a_key(small: Path) -> None:
    """A title with colons and slashes can still be typed."""
    cli("title", "beta", "fix: a/b: c", data=small)
    assert cli_json("show", "fix: a/b: c", data=small)["title"] == "fix: a/b: c"


def test_completion_offers_chats(small: Path) -> None:
    """The shell completes KEY from the list of sessions, wherever --data stands."""
    asked = {
        "_STRATALOG_COMPLETE": "complete_zsh",
        "_TYPER_COMPLETE_ARGS": f"stratalog --data {small} show al",
    }
    offered = process(**asked).stdout.decode()
    assert "alpha-one" in offered
    assert "alpha-two" in offered
    assert "beta" not in offered
    fish = {
        "_STRATALOG_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_ARGS": "stratalog title be",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "STRATALOG_DATA": str(small),
    }
    assert "beta" in process(**fish).stdout.decode()


def test_completion_without_data_is_silent(tmp_path: Path) -> None:
    """A directory that is not there, or is no directory, completes to nothing and is not made."""
    for place in (tmp_path / "none", Path("/etc/passwd")):
        asked = {"_STRATALOG_COMPLETE": "complete_bash", "COMP_WORDS": "stratalog show x", "COMP_CWORD": "2"}
        done = process(**asked, STRATALOG_DATA=str(place))
        assert (done.stdout.strip(), done.stderr) == (b"", b"")
    assert not (tmp_path / "none").exists()
