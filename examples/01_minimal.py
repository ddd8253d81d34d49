"""The smallest chat loop: what is said is kept, and found again by the next process.

Prints:

    Ana: Hello Ana.
    and your sister: She lives in Lisbon.
    found: My sister lives in Lisbon.
"""

import asyncio
import sys

from scripted import model

from stratalog.agent import Agent, Configured, ask
from stratalog.aio import AsyncStratalog


async def chat(data: str, configured: Configured) -> None:
    agent = Agent(model=configured, system="Be brief.")
    async with AsyncStratalog.open(data) as memory:
        session = memory.session("assistant:example:ana")  # agent:channel:chat
        print("Ana:", (await ask(session, agent, "I am Ana. My sister lives in Lisbon.")).text)
    await agent.close()


async def later(data: str, configured: Configured) -> None:
    """All of it is on the disk: another process, another day."""
    agent = Agent(model=configured)
    async with AsyncStratalog.open(data) as memory:
        session = memory.session("assistant:example:ana")
        print("and your sister:", (await ask(session, agent, "Where does my sister live?")).text)
        (found,) = await memory.search("Lisbon", roles=("user",), limit=1)
        print("found:", found.hit.snippet.partition(". ")[2])
    await agent.close()


def main(data: str) -> None:
    with model(["Hello Ana.", "She lives in Lisbon."]) as configured:
        asyncio.run(chat(data, configured))
        asyncio.run(later(data, configured))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
