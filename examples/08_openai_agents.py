"""The OpenAI Agents SDK: its Runner with a session of Stratalog; tools and handoffs are in the log.

Prints:

    The delay is 20 minutes.
    in the next process: message, function_call, function_call_output, message
    refunds: Refunded.
    found: I want my money back.
"""

import asyncio
import sys

from agents import Agent, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from stratalog import Stratalog
from stratalog.interop.openai_agents import StratalogSession

QUIET = RunConfig(tracing_disabled=True)


@function_tool
def delay(train: str) -> str:
    """The delay of a train, in minutes."""
    return "20"


async def first(memory: Stratalog) -> None:
    # In place of a model: leave `model` out and set OPENAI_API_KEY for a real one.
    model = ScriptedModel(
        [
            [function_call("delay", {"train": "IC 5"}, call_id="c1")],
            [assistant_message("The delay is 20 minutes.")],
        ]
    )
    agent = Agent("information", model=model, tools=[delay])
    done = await Runner.run(
        agent, "Is IC 5 late?", session=StratalogSession(memory, "counter 3"), run_config=QUIET
    )
    print(done.final_output)


async def second(memory: Stratalog) -> None:
    session = StratalogSession(memory, "counter 3")
    items = await session.get_items()
    print("in the next process:", ", ".join(str(item.get("type", "message")) for item in items))
    refunds = Agent("refunds", model=ScriptedModel([[assistant_message("Refunded.")]]))
    desk = Agent(
        "desk",
        model=ScriptedModel([[function_call("transfer_to_refunds", {}, call_id="c2")]]),
        handoffs=[refunds],
    )
    done = await Runner.run(desk, "I want my money back.", session=session, run_config=QUIET)
    print(f"{done.last_agent.name}:", done.final_output)
    print("found:", memory.search("money back")[0].hit.snippet)


def main(data: str) -> None:
    with Stratalog(data) as memory:
        asyncio.run(first(memory))
    with Stratalog(data) as memory:
        asyncio.run(second(memory))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
