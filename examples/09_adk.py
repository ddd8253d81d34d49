"""Google's ADK: its Runner with sessions, state and memory of Stratalog; the next process goes on.

Prints:

    tea or coffee? I noted that you drink tea.
    user state in another session: tea
    in the next process: 6 events, the last: You drink tea.
    from memory: I drink tea, never coffee.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools import ToolContext
from google.genai import types

from stratalog import Stratalog
from stratalog.interop.adk import StratalogMemoryService, StratalogSessionService

ANA = {"app_name": "shop", "user_id": "ana"}


class Scripted(BaseLlm):
    """In place of a model: `LlmAgent(model="gemini-…")` for a real one."""

    model: str = "scripted"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = (llm_request.contents[-1].parts or [])[0]
        if last.function_response:
            part = types.Part(text="I noted that you drink tea.")
        elif "never coffee" in (last.text or ""):
            part = types.Part(function_call=types.FunctionCall(name="note_drink", args={"drink": "tea"}))
        else:
            part = types.Part(text="You drink tea.")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def note_drink(drink: str, tool_context: ToolContext) -> str:
    """Notes what the user drinks."""
    tool_context.state["user:drink"] = drink  # of the user, in all sessions
    return "noted"


async def say(memory: Stratalog, text: str) -> str:
    runner = Runner(
        app_name="shop",
        agent=LlmAgent(name="waiter", model=Scripted(), tools=[note_drink]),
        session_service=StratalogSessionService(memory),
        memory_service=StratalogMemoryService(memory),
        auto_create_session=True,
    )
    message = types.Content(role="user", parts=[types.Part(text=text)])
    reply = ""
    async for event in runner.run_async(user_id="ana", session_id="table 4", new_message=message):
        if event.is_final_response() and event.content and event.content.parts:
            reply = event.content.parts[0].text or ""
    return reply


async def first(memory: Stratalog) -> None:
    print("tea or coffee?", await say(memory, "I drink tea, never coffee."))
    other = await StratalogSessionService(memory).create_session(**ANA)
    print("user state in another session:", other.state["user:drink"])


async def second(memory: Stratalog) -> None:
    await say(memory, "What do I drink?")
    session = await StratalogSessionService(memory).get_session(**ANA, session_id="table 4")
    assert session is not None
    last = session.events[-1].content
    print(
        f"in the next process: {len(session.events)} events, the last:",
        last and last.parts and last.parts[0].text,
    )
    remembers = StratalogMemoryService(memory)
    await remembers.add_session_to_memory(session)
    found = await remembers.search_memory(**ANA, query="coffee")
    print("from memory:", (found.memories[0].content.parts or [])[0].text)


def main(data: str) -> None:
    with Stratalog(data) as memory:
        asyncio.run(first(memory))
    with Stratalog(data) as memory:
        asyncio.run(second(memory))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
