"""What somebody else's model tells to be remembered: where it stays, and where it is from."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog import Stratalog
from stratalog.engine import consulting, keeping
from stratalog.engine.consulting import Sight
from stratalog.engine.remembering import ADMIN, Draft, Layer, Records, Scope
from stratalog.errors import AccessDenied, InvalidInput, NotFound

KEY = "assistant:mcp:ana"


def sight(memory: Stratalog, records: Records, user: str = "ana") -> Sight:
    """What one who may see everything asks in this session."""
    who = records.caller(user=user, session=KEY)
    return Sight(memory, memory.session(KEY), who, lambda metadata: True)


def test_a_session_is_begun_once_and_says_whose_it_is(tmp_path: Path) -> None:
    """It is made with its users and a title, and one that exists is left as it is."""
    with Stratalog(tmp_path) as memory:
        session = memory.session(KEY)
        keeping.begin(session, {"users": ["ana"]}, "Kept")
        keeping.begin(session, {"users": ["ben"]}, "Taken")
        assert session.meta.metadata == {"users": ["ana"]}
        assert session.meta.title == "Kept"


def test_what_may_not_leave_stays_with_the_session(tmp_path: Path) -> None:
    """In a session that may not leave the machine a fact about the user is the session's alone."""
    with Stratalog(tmp_path) as memory, Records(memory) as records:
        keeping.begin(memory.session(KEY), {"residency": "local_only"}, "Kept")
        looking = sight(memory, records)
        keeping.remember(records, looking, key="tea", text="Ana drinks tea", about="user")
        (record,) = records.service.current(looking.who).records
        assert (record.scope.kind, record.layer) == ("session", Layer.MID)


def test_about_whom_nobody_knows_is_an_error(tmp_path: Path) -> None:
    """Without a user there is nothing about one, the key of the running summary is not for notes, and nothing
    is noted of what is refused."""
    with Stratalog(tmp_path) as memory, Records(memory) as records:
        keeping.begin(memory.session(KEY), {}, "Kept")
        looking = sight(memory, records, user="")
        end = memory.session(KEY).end
        for given in (
            {"about": "user"},
            {"about": "session", "key": "Summary"},
            {"key": "..."},
            {"text": " "},
        ):
            with pytest.raises(InvalidInput):
                keeping.remember(records, looking, **{"key": "tea", "text": "There is tea", **given})
        with pytest.raises(InvalidInput):
            keeping.forget(records, looking)
        assert memory.session(KEY).end == end
        assert keeping.remember(records, looking, key="tea", text="There is tea").outcome == "stored"


def test_what_is_under_a_key_comes_by_pages(tmp_path: Path) -> None:
    """Every record under a key is on one of the pages, once."""
    with Stratalog(tmp_path) as memory, Records(memory) as records:
        keeping.begin(memory.session(KEY), {}, "Kept")
        looking = sight(memory, records)
        for number in range(7):
            keeping.remember(records, looking, key="tea", text=f"There are {number} teas")
        found, cursor = keeping.under_key(records, looking, "tea", limit=3)
        while cursor:
            more, cursor = keeping.under_key(records, looking, "tea", limit=3, cursor=cursor)
            found += more
        assert sorted(each.text for each in found) == [f"There are {number} teas" for number in range(7)]


def test_who_is_confined_has_nothing_of_an_agent(tmp_path: Path) -> None:
    """What an agent remembers of its work meets all its users: one who is for one user alone neither reads,
    writes nor forgets it, in whatever session it asks; what the tenant shares it reads."""
    with Stratalog(tmp_path) as memory, Records(memory) as records:
        for key in (KEY, "boss:mcp:ana"):
            keeping.begin(memory.session(key), {"users": ["ana"]}, "Kept")
            who = records.caller(user="ana", session=key)
            free = Sight(memory, memory.session(key), who, lambda metadata: True)
            rule = keeping.remember(records, free, key="rule", text="Answer in French", about="agent")
            looking = Sight(memory, memory.session(key), who, lambda metadata: True, confined=True)
            for act in (
                lambda looking: keeping.remember(records, looking, key="a", text="b", about="agent"),
                lambda looking: keeping.write(records, looking, key="rule", text="", about="agent"),
                lambda looking: keeping.forget(records, looking, key="rule", about="agent"),
                lambda looking: keeping.page(records, looking, "agent"),
            ):
                with pytest.raises(AccessDenied):
                    act(looking)
            with pytest.raises(NotFound):
                keeping.forget(records, looking, id=rule.id)
            assert keeping.under_key(records, looking, "rule", limit=9).records == []
            assert consulting.recalled(looking, records, "French") == ([], False)
            assert [each.text for each in consulting.recalled(free, records, "French")[0]] == [
                "Answer in French"
            ]
            admin = records.caller(roles=[ADMIN])
            shared = Draft(layer=Layer.LONG, scope=Scope("tenant"), key="office", text="We sit in Lisbon")
            records.service.remember(admin, shared)
            assert [each.text for each in consulting.recalled(looking, records, "Lisbon")[0]] == [shared.text]


def test_what_is_under_a_key_goes_on_from_its_own_places_alone(tmp_path: Path) -> None:
    """A place that no page told is refused, for what comes after it is not the rest."""
    with Stratalog(tmp_path) as memory, Records(memory) as records:
        for cursor in ("0", "garbage", "Z" * 26):
            with pytest.raises(InvalidInput):
                keeping.under_key(records, sight(memory, records), "tea", limit=9, cursor=cursor)
