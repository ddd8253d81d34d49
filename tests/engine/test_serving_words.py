"""engine/serving_words.py: words that a model writes for lists."""

from __future__ import annotations

import asyncio
from pathlib import Path

from stratalog.engine.agents import Agent
from stratalog.engine.aio import AsyncStratalog
from stratalog.engine.serving_words import auto_title
from stratalog.models.configured import Configured
from stratalog.testing.scripted import ScriptedModel


def test_what_was_withdrawn_makes_no_title(tmp_path: Path) -> None:
    """Neither the model that writes the title is sent it, nor is the title of its words."""
    model = ScriptedModel(["Trains to Bergen"])

    async def main() -> str:
        async with AsyncStratalog(tmp_path) as memory:
            session = memory.session("a:b:c")
            with session.sync.turn("My password is swordfish.") as turn:
                turn.reply("I should not know that.")
            session.sync.withdraw(session.sync.entry(turn.id))
            with session.sync.turn("When does the train to Bergen leave?") as turn:
                turn.reply("At nine.")
            return (await auto_title(session, Agent(model=Configured(model, "m")))).title

    assert asyncio.run(main()) == "Trains to Bergen"
    (asked,) = model.requests
    assert "train to Bergen" in str(asked.body)
    assert "swordfish" not in str(asked.body)
