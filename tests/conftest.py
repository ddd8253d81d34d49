"""What takes long is marked `long` and left out, and properties are tried on fewer examples, unless
STRATALOG_LONG is set."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

LONG = "STRATALOG_LONG" in os.environ

settings.register_profile("long", max_examples=200)
settings.register_profile("short", max_examples=40)
settings.load_profile("long" if LONG else "short")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not LONG:
        skip = pytest.mark.skip(reason="takes long: `make long`, or set STRATALOG_LONG=1")
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(skip)
