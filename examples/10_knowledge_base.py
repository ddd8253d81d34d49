"""A knowledge base: documents are cut by their structure, searched, and read up by the agent.

Prints:

    handbook.md: added
    how much leave is there? handbook.md, lines 1-11
    坐火车 handbook.md, lines 1-11
    asked about leave: Thirty days a year.
"""

import asyncio
import sys

from scripted import model

from stratalog import Stratalog
from stratalog.agent import Agent, Configured, ask
from stratalog.aio import AsyncStratalog
from stratalog.engine.agent_memory import AgentMemory
from stratalog.engine.knowing import knowledge_of
from stratalog.engine.remembering import Records
from stratalog.testing.model_server import Received

HANDBOOK = """# Handbook

How we work, in one page.

## Leave

Everybody has thirty days of leave a year.

## 出差

先坐火车，再坐飞机。
"""


def fill(data: str) -> None:
    with Stratalog(data) as memory, knowledge_of(memory) as knowledge:
        put = knowledge.put("handbook", "handbook.md", HANDBOOK.encode())
        print(f"{put.document.name}: {put.outcome}")
        for question in ("how much leave is there?", "坐火车"):
            best = knowledge.search(question)[0]
            print(f"{question} {best.document.name}, lines {best.chunk.first}-{best.chunk.last}")


async def chat(data: str, configured: Configured) -> None:
    async with AsyncStratalog.open(data) as memory:
        with Records(memory.sync) as records:
            agent = Agent(model=configured, mind=AgentMemory(records, user="ana"))
            session = memory.session("assistant:example:handbook")
            print("asked about leave:", (await ask(session, agent, "How much leave do I have a year?")).text)
    await agent.close()


def reads(request: Received) -> str:
    """A model that knows what it was shown."""
    return "Thirty days a year." if "thirty days of leave" in str(request.body) else "I do not know."


def main(data: str) -> None:
    fill(data)
    with model(reads) as configured:
        asyncio.run(chat(data, configured))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
