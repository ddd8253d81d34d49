"""Many streaming sessions of a real service, which is left alone, killed or told to end in the middle.

The long run of the same is `python benchmarks/service_load.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from service_load import Break, Plan, Said, different, load, reply_to

from stratalog.types import AnyEntry, Assistant, TurnEnd, User

pytestmark = pytest.mark.crash
SESSIONS = 24


@pytest.mark.parametrize(
    "how", [pytest.param("", marks=pytest.mark.long), "kill", pytest.param("term", marks=pytest.mark.long)]
)
def test_every_accepted_message_is_answered_once(tmp_path: Path, how: Break) -> None:
    """Whatever happens to it, what clients saw and what the logs have is the same: each message once,
    in order, with one whole reply; nobody is answered what no client should see."""
    outcome = load(Plan(SESSIONS, 9.0, how, 1, seed=15), tmp_path)
    assert outcome.wrong == []
    assert min(map(len, outcome.said.values())) >= 1
    if how:
        assert any(each.sent > 1 for each in outcome.turns)


def test_what_is_lost_or_doubled_is_seen() -> None:
    """The comparison itself finds a message that is missing, twice or out of order, and another reply."""

    def logged(*words: str, reply: str = "") -> list[AnyEntry]:
        whole: list[AnyEntry] = []
        for each in words:
            whole.append(User(content=each, turn=f"turn of {each}"))
            whole.append(Assistant(content=reply or reply_to(each), turn=f"turn of {each}"))
            whole.append(TurnEnd(turn=f"turn of {each}", status="answered"))
        return whole

    one, two = "This is message 1.0", "This is message 1.1"
    talk = [Said(each, f"turn of {each}", reply_to(each), reply_to(each), 1.0, 0.5, 1) for each in (one, two)]
    assert different(logged(one, two), talk) == []
    assert different(logged(one), talk)
    assert different(logged(two, one), talk)
    assert different(logged(one, one, two), talk)
    assert different([*logged(one), *logged(two)[:2]], talk)
    assert different(logged(one, two, reply="another"), talk)
    assert different(logged(one, two), [talk[0], talk[1]._replace(streamed="half")])
