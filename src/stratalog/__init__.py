"""The memory of an agent: a durable log of what was said, and what the model should see of it.

from stratalog import Stratalog

memory = Stratalog.open("data")
chat = memory.session("assistant:cli:me")
with chat.turn("My sister Ana lives in Lisbon.") as turn:
    turn.reply("Noted: Ana, Lisbon.")
print(memory.search("where does Ana live")[0].hit.snippet)
print(chat.context(budget=2000).messages())
"""

from stratalog.config import Settings
from stratalog.engine.core import Stratalog, default_data
from stratalog.errors import StratalogError
from stratalog.keys import SessionKey, parse_key, session_key

__version__ = "0.1.0"

__all__ = [
    "SessionKey",
    "Settings",
    "Stratalog",
    "StratalogError",
    "default_data",
    "parse_key",
    "session_key",
]
