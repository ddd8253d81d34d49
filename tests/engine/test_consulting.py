"""Looking up earlier sessions for somebody else's model: what a page has, and what is not on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog import Stratalog
from stratalog.engine import consulting
from stratalog.engine.consulting import LONGEST, Sight
from stratalog.engine.remembering import Records
from stratalog.errors import InvalidInput, NotFound
from stratalog.types import Assistant, TurnEnd, User

KEY = "helper:cli:one"


def everything(metadata: Mapping[str, Any]) -> bool:
    return True


def sight(memory: Stratalog) -> Sight:
    """What is seen by one who may see everything."""
    with Records(memory) as records:
        who = records.caller(user="ana", session="assistant:mcp:ana")
    return Sight(memory, memory.session("assistant:mcp:ana"), who, everything)


def test_a_page_has_what_was_said_also_before_a_restart_and_nothing_that_was_put_in(tmp_path: Path) -> None:
    """Entries without words and those that recall put in are on no page; what a restart put aside is."""
    with Stratalog(tmp_path) as memory:
        session = memory.session(KEY)
        session.append(User(content="first"), TurnEnd(turn="x", status="answered"))
        session.restart(force=True)
        session.append(
            User(content="recalled by a program", meta={"injected": True}),
            User(content=" \n"),
            Assistant(content="second"),
        )
        page = consulting.read(sight(memory), session)
        assert [each.text for each in page.lines] == ["first", "second"]
        assert (page.earlier, page.later) == ("", "")


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    """A session that is not there, an entry that is not, and a cursor that is none."""
    with Stratalog(tmp_path) as memory:
        memory.session(KEY).append(User(content="first"))
        looking = sight(memory)
        with pytest.raises(NotFound):
            looking.find("helper:cli:two")
        for cursor in ("1@4000", "9@0"):
            with pytest.raises(NotFound):
                consulting.read(looking, memory.session(KEY), cursor=cursor)
        for cursor in ("x", "<", "1@", "-1@3", "<1 "):
            with pytest.raises(InvalidInput):
                consulting.read(looking, memory.session(KEY), cursor=cursor)
        with pytest.raises(InvalidInput):
            consulting.read(looking, memory.session(KEY), cursor="<1", around=1)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 3 * LONGEST), min_size=1, max_size=25),
    limit=st.integers(1, 9),
    forwards=st.booleans(),
)
def test_the_pages_of_a_session_are_the_session(
    sizes: list[int], limit: int, forwards: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the lengths and the limit, the cursors of either way lead over every entry once, in order,
    and the rests make each whole; no page has more than its limit, or than 40,000 characters."""
    with Stratalog(tmp_path_factory.mktemp("pages")) as memory:
        session = memory.session(KEY)
        session.append(*(User(content=f"{at:02}" + "x" * size) for at, size in enumerate(sizes)))
        looking = sight(memory)
        page = consulting.read(looking, session, limit=limit, around=1 if forwards else None)
        lines = list(page.lines)
        while cursor := page.later if forwards else page.earlier:
            page = consulting.read(looking, session, limit=limit, cursor=cursor)
            assert 1 <= len(page.lines) <= limit
            assert sum(len(each.text) for each in page.lines) <= consulting.ROOM
            lines = [*lines, *page.lines] if forwards else [*page.lines, *lines]
        assert [each.seq for each in lines] == list(range(1, len(sizes) + 1))
        for at, (first, size) in enumerate(zip(lines, sizes, strict=True)):
            whole, told = first.text, first
            while told.rest:
                (told,) = consulting.read(looking, session, cursor=told.rest).lines
                whole += told.text
            assert whole == f"{at:02}" + "x" * size
