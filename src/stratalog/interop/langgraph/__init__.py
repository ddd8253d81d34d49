"""LangGraph's checkpointer and store, kept in Stratalog's data directory."""

from stratalog.interop.langgraph.saver import StratalogSaver
from stratalog.interop.langgraph.store import StratalogStore

__all__ = ["StratalogSaver", "StratalogStore"]
