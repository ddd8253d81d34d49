"""Compaction: an endless conversation in a small window. What is old is folded into a summary, and kept.

Prints:

    60 turns, no request over 4000 tokens: True
    folded: True, and the model still sees the instruction: True
    the first turn is still in the log: Always answer in metric units.
"""

import asyncio
import sys

from scripted import model

from stratalog import Settings
from stratalog.agent import Agent, Compacted, Configured, Replied, run
from stratalog.aio import AsyncStratalog
from stratalog.config import CompactionSettings
from stratalog.types import User

WINDOW = 4_000
FIRST = "Always answer in metric units."
# In use the windows of models are known, and the model that answers writes the summaries.
SETTINGS = Settings(windows={"scripted": WINDOW}, compaction=CompactionSettings(summariser="extractive"))


async def chat(data: str, configured: Configured) -> None:
    agent = Agent(model=configured)
    largest = folded = 0
    async with AsyncStratalog(data, settings=SETTINGS) as memory:
        session = memory.session("assistant:example:long")
        for number in range(1, 61):
            said = f"Day {number}: " + "it rained again. " * 20 if number > 1 else FIRST
            async for event in run(session, agent, said):
                if isinstance(event, Compacted):
                    folded += 1
                elif isinstance(event, Replied):
                    largest = max(largest, event.tokens)
        print(f"60 turns, no request over {WINDOW} tokens:", largest < WINDOW)
        seen = str(session.sync.context(WINDOW).messages())
        print(f"folded: {folded > 0}, and the model still sees the instruction:", "metric units" in seen)
        first = next(entry for entry in session.sync.entries() if isinstance(entry, User))
        print("the first turn is still in the log:", first.text)
    await agent.close()


def main(data: str) -> None:
    with model(lambda request: "Noted.") as configured:
        asyncio.run(chat(data, configured))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
