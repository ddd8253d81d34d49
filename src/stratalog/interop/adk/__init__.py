"""Sessions and memory of Google's Agent Development Kit, kept by Stratalog; see docs/adk.md."""

from stratalog.interop.adk.memory import StratalogMemoryService
from stratalog.interop.adk.sessions import StratalogSessionService

__all__ = ["StratalogMemoryService", "StratalogSessionService"]
