"""A session is named by a piece of its name, and never by one that could be another's."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog import Stratalog, parse_key
from stratalog.engine.naming import match, resolve
from stratalog.errors import Ambiguous, NotFound
from stratalog.surfaces.cli.keys import new_key, shortener
from surfaces.terminals import cli, cli_json, process


class Meta(NamedTuple):
    key: str
    title: str
    updated_at: int = 1_789_378_200_000  # 2026-09-14 09:30 UTC


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
    with pytest.raises(Ambiguous) as caught:
        match(text, LIST)
    candidates = caught.value.where["candidates"]
    assert isinstance(candidates, list)
    assert len(candidates) == count
    assert all(each.endswith(" 2026-09-14 09:30 UTC") for each in candidates)


def test_at_most_eight_candidates_are_named() -> None:
    """Of many candidates eight are named with key, title and time, and the rest are counted."""
    many = [Meta(f"local/a:cli:x{number:02}", "T") for number in range(11)]
    with pytest.raises(Ambiguous) as caught:
        match("x", many)
    candidates = caught.value.where["candidates"]
    assert isinstance(candidates, list)
    assert (len(candidates), candidates[-1]) == (9, "and 3 more")
    assert candidates[0] == 'a:cli:x00 "T" 2026-09-14 09:30 UTC'


@pytest.mark.parametrize(("updated", "end"), [(0, '"T"'), (-5, '"T"'), (10**17, '"T"')])
def test_a_time_that_is_none_is_not_told(updated: int, end: str) -> None:
    """A session without a time, or with one past any calendar, is told without."""
    with pytest.raises(Ambiguous) as caught:
        match("x", [Meta("local/a:cli:x1", "T", updated), Meta("local/a:cli:x2", "T", updated)])
    candidates = caught.value.where["candidates"]
    assert isinstance(candidates, list)
    assert all(each.endswith(end) for each in candidates)


def test_agent_and_channel_narrow_whom_a_text_may_mean(tmp_path: Path) -> None:
    """What is ambiguous among all is not among one agent's or channel's, and no other's is found there."""
    with Stratalog(tmp_path / "data") as memory:
        for key in ("a:cli:talk", "b:cli:talk", "b:web:talk-2"):
            with memory.session(key).turn("hello") as turn:
                turn.reply("yes")
        with pytest.raises(Ambiguous):
            resolve(memory, "talk")
        assert resolve(memory, "talk", agent="a") == parse_key("a:cli:talk")
        assert resolve(memory, "tal", agent="b", channel="web") == parse_key("b:web:talk-2")
        assert resolve(memory, "local/a:cli:talk") == parse_key("a:cli:talk")
        assert resolve(memory, "a:cli:talk", channel="cli") == parse_key("a:cli:talk")
        for narrowed in ({"agent": "b"}, {"channel": "web"}):
            with pytest.raises(NotFound):
                resolve(memory, "a:cli:talk", **narrowed)


def test_a_new_key_is_whole_or_a_chat_beside_another() -> None:
    """A chat alone is of the parent's agent, channel and tenant; a whole key is itself."""
    parent = parse_key("t/a:cli:x")
    assert new_key(parent, "y") == parse_key("t/a:cli:y")
    assert new_key(parent, "b:web:y") == parse_key("t/b:web:y")
    assert new_key(parent, "u/b:web:y") == parse_key("u/b:web:y")


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
