"""The engine: wires the rooms, decides the order of steps, and is the only one that writes logs.

What its calls return is named here for those who write a surface.
"""

from stratalog.context.budget import Context, Section
from stratalog.engine.core import Checkup, Found
from stratalog.engine.session import Arrival, Restart, Session
from stratalog.engine.strata import Rebuilt
from stratalog.engine.turn import Turn
from stratalog.log.contract import Head, Problem, Reading, Verification
from stratalog.recall.contract import Hit
from stratalog.sessions.catalog import Page
from stratalog.sessions.meta import SessionMeta
from stratalog.sessions.turns import OpenTurn

__all__ = [
    "Arrival",
    "Checkup",
    "Context",
    "Found",
    "Head",
    "Hit",
    "OpenTurn",
    "Page",
    "Problem",
    "Reading",
    "Rebuilt",
    "Restart",
    "Section",
    "Session",
    "SessionMeta",
    "Turn",
    "Verification",
]
