"""Which model a command uses, and how it compacts: what was said on the command line over the settings."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stratalog.config import CompactionSettings, Settings
from stratalog.engine.agents import Agent, agent_of, policy_of
from stratalog.engine.compaction import (
    DEFAULT_WINDOW,
    Policy,
    Summariser,
    closing_summariser,
    preset,
    summariser_of,
)
from stratalog.engine.seeing import Room, room_of
from stratalog.errors import NoModel

NO_MODEL = "extractive"
_HOW = (
    "set `model` in stratalog.toml, or give --model openai:NAME with OPENAI_API_KEY set, "
    "--model openai:NAME --base-url http://localhost:11434/v1 for a compatible server, "
    f"or --model {NO_MODEL}, which needs nothing"
)


class Asked(NamedTuple):
    """Who writes summaries: None for the extractive summariser; its name, and the tokens that it takes."""

    summarise: Summariser | None = None
    by: str = NO_MODEL
    window: int = 0


def chosen(settings: Settings, model: str, base_url: str) -> Settings:
    """The settings with the model that is named, or else theirs, at `base_url`, or else where theirs is.

    Their address is not that of another provider's model, and the key that `api_key_env` names goes nowhere
    but to their address, of which alone their `reach` is said. Raises `InvalidConfig` when no model is named
    at all.
    """
    spec = model or settings.model
    if not spec:
        raise NoModel("no model is configured", hint=_HOW)
    same = not settings.model or _provider(spec) == _provider(settings.model)
    url = base_url or (settings.base_url if same else "")
    theirs = same and url == settings.base_url
    key, reach = (settings.api_key_env, settings.reach) if theirs else ("", "")
    return msgspec.structs.replace(settings, model=spec, base_url=url, api_key_env=key, reach=reach)


def agent_for(settings: Settings, *, model: str, base_url: str, system: str) -> Agent:
    """The agent of a chat; its summariser is the settings', where these name one. Raises `InvalidConfig`."""
    agent = agent_of(_alone(chosen(settings, model, base_url)), system=system)
    spec = settings.compaction.summariser
    if not spec:
        return agent
    other = agent_of(_alone(chosen(settings, spec, ""))).model
    return msgspec.structs.replace(agent, summariser=other)


def asked_of(agent: Agent, settings: Settings) -> Asked:
    """Who writes the summaries of what this agent says."""
    who = agent.summariser or agent.model
    if who.name == NO_MODEL:
        return Asked()
    window = room_of(who.name, settings).tokens
    return Asked(summariser_of(who.model, who.name, reach=who.reach), who.name, window)


def summariser_for(settings: Settings, spec: str | None) -> Asked:
    """Who writes summaries when no agent is at work: the model that is named, or else the settings'
    summariser. It leaves no connection open. Raises `InvalidConfig`."""
    wanted = spec or settings.compaction.summariser or NO_MODEL
    if wanted == NO_MODEL:
        return Asked()
    who = agent_of(_alone(chosen(settings, wanted, ""))).model
    return Asked(closing_summariser(who), who.name, room_of(who.name, settings).tokens)


def room_for(settings: Settings) -> Room | None:
    """What the settings' model takes; None when they name none."""
    name = settings.model.partition(":")[2].strip() or settings.model
    return room_of(name, settings) if name else None


def policy_for(settings: Settings, *, window: int | None, preset_name: str | None) -> Policy:
    """How to compact: as the settings say for their model, with the window that is given instead of its own.
    A preset that is given is taken as it is."""
    room = room_for(settings)
    whole = window or (room.tokens + room.reserve if room is not None else DEFAULT_WINDOW)
    reserve = room.reserve if room is not None and window is None else 0
    if preset_name is not None:
        return preset(preset_name, whole, reserve)
    like = room or room_of("", settings)
    return policy_of(settings, msgspec.structs.replace(like, tokens=whole - reserve, reserve=reserve))


def _alone(settings: Settings) -> Settings:
    """The settings without a summariser of its own."""
    compaction: CompactionSettings = msgspec.structs.replace(settings.compaction, summariser="")
    return msgspec.structs.replace(settings, compaction=compaction)


def _provider(spec: str) -> str:
    return spec.partition(":")[0].strip()
