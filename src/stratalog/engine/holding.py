"""The texts of one tenant that the gate kept out of prompts, opened beside its memory.

with Stratalog("data") as memory, quarantine_of(memory) as quarantine:
    for each in quarantine.list(state="waiting").held: ...
"""

from __future__ import annotations

from contextlib import closing

from stratalog.engine.core import Stratalog
from stratalog.keys import tenant_path
from stratalog.memory.quarantine import FILE, STATES, Held, HeldPage, Quarantine, State

__all__ = ["STATES", "Held", "HeldPage", "Quarantine", "State", "quarantine_of"]


def quarantine_of(memory: Stratalog) -> closing[Quarantine]:
    """What is held of the memory's tenant, for a `with` block."""
    return closing(Quarantine(tenant_path(memory.data, memory.tenant) / FILE))
