"""What graphs keep of one tenant, opened beside its memory: the checkpoints of their threads, and items.

    with Stratalog("data") as memory, closing(checkpoints_of(memory)) as checkpoints:
        checkpoints.lasts("thread")

No log has them, and no rebuild makes them. `interop.langgraph` gives them LangGraph's form.
"""

from __future__ import annotations

from stratalog.engine.core import Stratalog
from stratalog.keys import tenant_path
from stratalog.memory.checkpoint_tables import Head, Space, Stored, Typed, Write
from stratalog.memory.checkpoints import FILE, Checkpoints, Found, Known, Mirror
from stratalog.memory.items import FILE as ITEMS_FILE
from stratalog.memory.items import Item, Items, Namespace, Put
from stratalog.memory.pieces import Content, Draft, Fresh, Kept

__all__ = [
    "Checkpoints",
    "Content",
    "Draft",
    "Found",
    "Fresh",
    "Head",
    "Item",
    "Items",
    "Kept",
    "Known",
    "Mirror",
    "Namespace",
    "Put",
    "Space",
    "Stored",
    "Typed",
    "Write",
    "checkpoints_of",
    "items_of",
]


def checkpoints_of(memory: Stratalog) -> Checkpoints:
    """The checkpoints of the memory's tenant. Close them."""
    return Checkpoints(tenant_path(memory.data, memory.tenant) / FILE)


def items_of(memory: Stratalog) -> Items:
    """The items of the memory's tenant. Close them."""
    return Items(tenant_path(memory.data, memory.tenant) / ITEMS_FILE)
