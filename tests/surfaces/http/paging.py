"""Following the cursor of a list to its end."""

from __future__ import annotations

from typing import Any

import httpx


def every(client: httpx.Client, path: str, name: str, limit: int = 2, **query: Any) -> list[dict[str, Any]]:
    """All items of a list, in pages of `limit`."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        answer = client.get(path, params={**query, "limit": limit, "cursor": cursor})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert len(page[name]) <= limit
        found += page[name]
        cursor = page["cursor"]
        if not cursor:
            return found
