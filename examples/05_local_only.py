"""Residency: a session whose words may not leave the machine. A model elsewhere is not asked.

Prints:

    the model in the cloud: LaneDenied
    requests that it got: 0
    the model on this machine: It is nothing serious.
    the log has the question twice and one answer: True
"""

import asyncio
import sys

from scripted import model

from stratalog.agent import Agent, Configured, ask
from stratalog.aio import AsyncStratalog
from stratalog.errors import LaneDenied
from stratalog.testing.scripted import ScriptedModel
from stratalog.types import Assistant, User

QUESTION = "My blood test is back. Is it serious?"


async def chat(data: str, here: Configured) -> None:
    # `reach` follows from a model's address; this one stands for any that is not on the machine.
    cloud = ScriptedModel(lambda request: "I should never have seen this.")
    far = Agent(model=Configured(cloud, "cloud", "world"))
    near = Agent(model=here)
    async with AsyncStratalog.open(data) as memory:
        session = memory.session("assistant:example:health")
        await session.call(session.sync.set_metadata, residency="local_only")
        try:
            await ask(session, far, QUESTION)
        except LaneDenied as error:
            print("the model in the cloud:", type(error).__name__)
        print("requests that it got:", len(cloud.requests))
        print("the model on this machine:", (await ask(session, near, QUESTION)).text)
        entries = list(session.sync.entries())
        asked, answered = (sum(isinstance(entry, kind) for entry in entries) for kind in (User, Assistant))
        print("the log has the question twice and one answer:", (asked, answered) == (2, 1))
    await near.close()


def main(data: str) -> None:
    with model(["It is nothing serious."]) as configured:
        asyncio.run(chat(data, configured))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
