"""Turns that run a model: an agent, its tools, and what happens while it answers.

Apart from `stratalog` itself, for it needs asyncio.
"""

from stratalog.engine.agents import Agent, agent_of
from stratalog.engine.compaction import Compacted
from stratalog.engine.continuing import Continued, continue_async
from stratalog.engine.running import (
    Answered,
    Called,
    Event,
    Replied,
    Warned,
    ask,
    resume,
    run,
)
from stratalog.engine.tools import AgentTool, tool
from stratalog.models.configured import Configured, model_from
from stratalog.models.contract import ReasoningDelta, Retrying, TextDelta

__all__ = [
    "Agent",
    "AgentTool",
    "Answered",
    "Called",
    "Compacted",
    "Configured",
    "Continued",
    "Event",
    "ReasoningDelta",
    "Replied",
    "Retrying",
    "TextDelta",
    "Warned",
    "agent_of",
    "ask",
    "continue_async",
    "model_from",
    "resume",
    "run",
    "tool",
]
