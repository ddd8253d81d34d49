"""Tools: each call is in the log before it is made, and each result when it comes.

Prints:

    called weather {"city": "Bergen"} -> Bergen: rain
    It rains in Bergen; take a coat.
    in the log: user, turn_start, assistant, tool_call, tool_result, assistant, turn_end
"""

import asyncio
import json
import sys

from scripted import model

from stratalog.agent import Agent, Answered, Called, Configured, Replied, run, tool
from stratalog.aio import AsyncStratalog
from stratalog.testing.scripted import Call, Reply


@tool
def weather(city: str) -> str:
    """The weather in a city, as it is now."""
    return f"{city}: rain"


async def chat(data: str, configured: Configured) -> None:
    agent = Agent(model=configured, tools=(weather,))
    async with AsyncStratalog.open(data) as memory:
        session = memory.session("assistant:example:tools")
        asked = ""
        async for event in run(session, agent, "Do I need a coat in Bergen?"):
            if isinstance(event, Called):
                asked = f"{event.call.name} {json.dumps(event.call.args)}"
            elif isinstance(event, Answered):
                print("called", asked, "->", event.result.text)
            elif isinstance(event, Replied):
                print(event.reply.text)
        kinds = [str(type(entry).__struct_config__.tag) for entry in session.sync.entries()]
        print("in the log:", ", ".join(kind for kind in kinds if kind != "note"))
    await agent.close()


def main(data: str) -> None:
    script = [Reply(calls=(Call("weather", {"city": "Bergen"}),)), "It rains in Bergen; take a coat."]
    with model(script) as configured:
        asyncio.run(chat(data, configured))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
