"""memory/lanes.py: where a session's records may live."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import LaneDenied
from stratalog.memory.caller import caller
from stratalog.memory.contract import Capabilities
from stratalog.memory.lanes import Lanes, allowed_reach, forbids_remote, lane_for, permits
from stratalog.models.reach import REACHES

NATIVE = Capabilities(name="native")
MEM0 = Capabilities(name="mem0", external=True, history=False)
LOCAL = Capabilities(name="local")
BOTH = {"native": NATIVE, "mem0": MEM0}


@pytest.mark.parametrize(
    ("metadata", "lane", "forced"),
    [
        ({}, "native", False),
        ({"memory_plugin": ""}, "native", False),
        ({"memory_plugin": "native"}, "native", False),
        ({"memory_plugin": "mem0"}, "mem0", False),
        ({"memory_plugin": "mem0", "residency": "any"}, "mem0", False),
        ({"memory_plugin": "mem0", "residency": "local_only"}, "native", True),
        ({"memory_plugin": "mem0", "residency": "on_prem"}, "native", True),
        ({"memory_plugin": "mem0", "residency": " ON_PREM "}, "native", True),
        ({"memory_plugin": "mem0", "residency": "no such residency"}, "native", True),
        ({"memory_plugin": "gone", "residency": "local_only"}, "native", True),
        ({"residency": "local_only"}, "native", False),
    ],
)
def test_the_lane_of_a_session(metadata: dict[str, str], lane: str, forced: bool) -> None:
    """What was asked for, native by default; native where residency forbids what leaves."""
    chosen = lane_for(metadata, BOTH)
    assert (chosen.name, chosen.forced) == (lane, forced)
    assert chosen.reason


@pytest.mark.parametrize(
    ("metadata", "available"),
    [
        ({}, {}),
        ({}, {"mem0": MEM0}),
        ({"residency": "local_only"}, {"mem0": MEM0}),
        ({"residency": "on_prem", "memory_plugin": "mem0"}, {"mem0": MEM0}),
        ({"residency": "on_prem"}, {"native": MEM0}),
        ({"memory_plugin": "zep"}, BOTH),
        ({"memory_plugin": ["mem0"]}, BOTH),
    ],
)
def test_a_lane_that_is_missing_is_denied(metadata: Any, available: Mapping[str, Capabilities]) -> None:
    """Where the lane that it must have is not configured, the answer is `LaneDenied`."""
    with pytest.raises(LaneDenied) as raised:
        lane_for(metadata, available)
    assert raised.value.hint


def test_another_lane_at_home_may_be_asked_for() -> None:
    """Residency forbids what leaves the machine, not what has another name."""
    chosen = lane_for(
        {"memory_plugin": "local", "residency": "local_only"}, {"local": LOCAL, "native": NATIVE}
    )
    assert (chosen.name, chosen.forced) == ("local", False)


VALUES = st.none() | st.sampled_from(
    ["", "any", "cloud", "local_only", "on_prem", "Local_Only", "eu", 0, False, [], 1.5]
)


@given(
    VALUES,
    st.sampled_from([None, "", "native", "mem0", "local", "zep"]),
    st.sets(st.sampled_from(["native", "mem0", "local"])),
)
def test_nothing_leaves_where_it_must_not(residency: Any, plugin: str | None, names: set[str]) -> None:
    """Whatever is asked for and configured: where residency forbids, no external lane is chosen."""
    lanes = {"native": NATIVE, "mem0": MEM0, "local": LOCAL}
    available = {name: lanes[name] for name in names}
    metadata = {"residency": residency, "memory_plugin": plugin}
    assert forbids_remote(metadata) == (residency not in (None, "", "any", "cloud"))
    try:
        chosen = lane_for(metadata, available)
    except LaneDenied:
        return
    assert chosen.name in available
    if forbids_remote(metadata):
        assert not available[chosen.name].external
    else:
        assert chosen.name == (plugin or "native"), "nothing is taken in another's place"


def test_each_choice_is_a_line() -> None:
    """Every choice tells who, what was asked for, what was chosen and why; a denial too."""
    lines: list[Mapping[str, Any]] = []
    metadata = {"memory_plugin": "mem0", "residency": "local_only"}
    who = caller("acme", session="bot:cli:1")
    assert Lanes(BOTH, lambda who: metadata, lines.append).choose(who).name == "native"
    with pytest.raises(LaneDenied):
        Lanes({"mem0": MEM0}, lambda who: metadata, lines.append).choose(who)
    asked = {
        "event": "memory.lane",
        "tenant": "acme",
        "session": "acme/bot:cli:1",
        "asked": "mem0",
        "residency": "local_only",
    }
    assert lines == [
        {
            **asked,
            "outcome": "chosen",
            "lane": "native",
            "forced": True,
            "reason": "residency forbids an external lane",
        },
        {
            **asked,
            "outcome": "denied",
            "lane": "",
            "forced": False,
            "reason": "residency forbids an external lane, and native is not configured",
        },
    ]


def test_lines_go_to_a_logger(caplog: pytest.LogCaptureFixture) -> None:
    """By default a line is JSON on the logger of this module, a warning where privacy decided."""
    caplog.set_level(logging.INFO, "stratalog.memory.lanes")
    Lanes(BOTH).choose(caller("acme"))
    Lanes(BOTH, lambda who: {"memory_plugin": "mem0", "residency": "on_prem"}).choose(caller("acme"))
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert msgspec.json.decode(caplog.messages[1])["reason"] == "residency forbids an external lane"


RESIDENCIES: list[tuple[Any, str]] = [
    (None, "world"),
    ("", "world"),
    ("any", "world"),
    (" Cloud ", "world"),
    ("on_prem", "premises"),
    ("on-prem", "premises"),
    (" ON_PREM ", "premises"),
    ("local_only", "machine"),
    ("onprem", "machine"),
    ("eu", "machine"),
    (0, "machine"),
    (False, "machine"),
    (["any"], "machine"),
    ({"on_prem": True}, "machine"),
]


@pytest.mark.parametrize(("residency", "reach"), RESIDENCIES)
def test_how_far_a_residency_lets_go(residency: Any, reach: str) -> None:
    """Anywhere, within the premises, or not beyond the machine, which is what cannot be read means too."""
    assert allowed_reach({"residency": residency}) == reach
    assert allowed_reach({"residency": residency}) == allowed_reach({"residency": residency, "run": "r"})


def test_without_a_residency_all_may_go() -> None:
    """Metadata that says nothing of it forbids nothing."""
    assert allowed_reach({}) == "world"
    assert permits({}, "world")


@pytest.mark.parametrize(("residency", "allowed"), RESIDENCIES)
def test_what_reaches_less_is_allowed_too(residency: Any, allowed: str) -> None:
    """All that reaches as far as is allowed, or less, is permitted, and nothing else; a word that is no reach
    is not."""
    nearest = ["machine", "premises", "world"]
    may = nearest[: nearest.index(allowed) + 1]
    metadata = {"residency": residency}
    assert [reach for reach in REACHES if permits(metadata, reach)] == may
    assert not permits(metadata, "nowhere")  # type: ignore[arg-type]  # what a caller of no types may give
    assert forbids_remote(metadata) == (allowed != "world")
