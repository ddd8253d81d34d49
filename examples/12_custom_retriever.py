"""A retriever of your own: beside what Stratalog recalls, the agent is shown what your system knows.

An agent's `mind` is anything with the methods of `stratalog.engine.agents.Mind`; this one is the usual memory
with one source more. A second, smaller way in: `search(rerank=…)` lets a model of yours order what was found.

Prints:

    asked about an order: Order 4711 left the warehouse on Monday.
    reordered: The blue one is on the second floor.
"""

import asyncio
import re
import sys
from collections.abc import Collection, Sequence

from scripted import model

from stratalog.agent import Agent, Configured, ask
from stratalog.aio import AsyncStratalog
from stratalog.engine.agent_memory import AgentMemory
from stratalog.engine.remembering import Records
from stratalog.engine.session import Session
from stratalog.testing.model_server import Received

ORDERS = {"4711": "Order 4711 left the warehouse on Monday."}  # a table, a search engine, a graph


class WithOrders(AgentMemory):
    def recall(self, session: Session, text: str, standing: Collection[str] = ()) -> list[str]:
        """What is told of the orders that the message names, then what the memory recalls."""
        known = [ORDERS[number] for number in re.findall(r"\d+", text) if number in ORDERS]
        return [*known, *super().recall(session, text, standing)]


def prefers_blue(question: str, texts: Sequence[str]) -> list[float]:
    return [float("blue" in text) for text in texts]


async def chat(data: str, configured: Configured) -> None:
    async with AsyncStratalog.open(data) as memory:
        with Records(memory.sync) as records:
            agent = Agent(model=configured, mind=WithOrders(records, user="ana"))
            session = memory.session("assistant:example:orders")
            print("asked about an order:", (await ask(session, agent, "Where is order 4711?")).text)
        for said in ("The red room is on the second floor.", "The blue one is on the second floor."):
            await ask(memory.session("assistant:example:rooms"), Agent(model=configured), said)
        best = (await memory.search("second floor room", roles=("user",), rerank=prefers_blue))[0]
        print("reordered:", best.hit.snippet)
    await agent.close()


def reads(request: Received) -> str:
    """A model that knows what it was shown."""
    known = [told for told in ORDERS.values() if told in str(request.body)]
    return known[0] if known else "Noted."


def main(data: str) -> None:
    with model(reads) as configured:
        asyncio.run(chat(data, configured))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
