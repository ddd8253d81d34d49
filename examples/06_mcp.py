"""MCP: a coding agent's client starts `stratalog mcp`, remembers a decision, finds what was said.

Prints:

    tools: 12
    remembered: stored
    recalled: Releases go out on Tuesdays.
    said earlier: We deploy with blue and green, one after the other.
"""

import asyncio
import sys

from mcp import Client, StdioServerParameters

from stratalog import Stratalog


def earlier(data: str) -> None:
    """What was said before, by any agent in this data directory."""
    with Stratalog(data) as memory, memory.session("coder:example:deploys").turn("How do we deploy?") as turn:
        turn.reply("We deploy with blue and green, one after the other.")


async def talk(data: str) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "stratalog", "--data", data, "mcp", "--user", "ana"]
    )
    async with Client(server) as client:
        print("tools:", len((await client.list_tools()).tools))
        fact = {"key": "release day", "text": "Releases go out on Tuesdays."}
        print("remembered:", (await client.call_tool("remember", fact)).structured_content["outcome"])
        known = (await client.call_tool("recall", {"query": "when do releases go out?"})).structured_content
        print("recalled:", known["found"][0]["text"])
        said = (await client.call_tool("search_sessions", {"query": "blue green"})).structured_content
        print("said earlier:", said["hits"][0]["text"])


def main(data: str) -> None:
    earlier(data)
    asyncio.run(talk(data))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data")
