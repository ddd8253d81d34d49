"""The model that the examples talk with.

They run without a key: a scripted server on this machine says what the example wrote down, and the provider's
official client talks with it over HTTP. With `STRATALOG_EXAMPLE_MODEL=openai:gpt-5`, or any other model that
Stratalog knows, the same code talks with that one, and what it prints is that model's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from stratalog.agent import Configured, model_from
from stratalog.testing.model_server import ModelServer, Received, ServerStep


@contextmanager
def model(script: Iterable[ServerStep] | Callable[[Received], ServerStep]) -> Iterator[Configured]:
    """A model that says what the script does, a step a request; or the one that the environment names."""
    named = os.environ.get("STRATALOG_EXAMPLE_MODEL", "")
    if named:
        yield model_from(named)
        return
    with ModelServer(script) as server:
        yield model_from("openai:scripted", base_url=server.openai_url, api_key="none")
