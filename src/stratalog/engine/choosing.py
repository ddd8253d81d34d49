"""Which agents a tenant has, and which of them, or which model, is meant by the name of a model."""

from __future__ import annotations

from typing import Final, NamedTuple

from stratalog.config import AGENT_FILE
from stratalog.engine.core import Stratalog
from stratalog.keys import sessions_dir, tenant_named
from stratalog.models.configured import PROVIDERS
from stratalog.models.extractive import NAME as EXTRACTIVE

PREFIX: Final = "agent:"
ORDINARY: Final = "assistant"  # the agent of who names none
_MOST: Final = 1_000  # sessions whose agents are looked at


class Chosen(NamedTuple):
    """The agent that answers, and the model that does so instead of its own ("": its own)."""

    agent: str
    model: str


def agents(memory: Stratalog, user: str | None) -> dict[str, int]:
    """The agents that have settings of their own or sessions of this user (None: of anybody), and the
    ordinary one, in order; with the time of their first session that was seen, milliseconds UTC, or 0."""
    found = dict.fromkeys((ORDINARY, *_with_settings(memory)), 0)
    for meta in memory.sessions(user=user, limit=_MOST).sessions:
        name = memory.session(meta.key).key.agent
        known = found.get(name, 0)
        found[name] = min(known or meta.created_at, meta.created_at)
    return dict(sorted(found.items()))


def chosen(memory: Stratalog, name: str, agent: str = "") -> Chosen:
    """What is meant by the name of a model, where the agent is named beside it or not: `agent:NAME`; an
    agent's name; `PROVIDER:MODEL`; or a model of the provider that the agent's own is of."""
    if name.startswith(PREFIX):
        return Chosen(name.removeprefix(PREFIX), "")
    provider = name.partition(":")[0]
    if name == EXTRACTIVE or (":" in name and provider in PROVIDERS):
        return Chosen(agent or ORDINARY, name)
    if not agent and ":" not in name and (name == ORDINARY or _is_agent(memory, name)):
        return Chosen(name, "")
    own = memory.settings_of(agent or ORDINARY).model
    beside = f"{own.partition(':')[0]}:{name}" if ":" in own else name
    return Chosen(agent or ORDINARY, "" if beside == own or name == agent else beside)


def _with_settings(memory: Stratalog) -> list[str]:
    directory = sessions_dir(memory.data, memory.tenant, ORDINARY).parent.parent
    if not directory.is_dir():
        return []
    found = (tenant_named(each.name) for each in directory.iterdir() if (each / AGENT_FILE).is_file())
    return [name for name in found if name]


def _is_agent(memory: Stratalog, name: str) -> bool:
    own = sessions_dir(memory.data, memory.tenant, name).parent / AGENT_FILE
    return own.is_file() or bool(memory.sessions(agent=name, limit=1).sessions)
