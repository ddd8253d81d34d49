"""Embeddings of OpenAI, and of every server compatible with it, over the official SDK: texts in, numbers out.

The SDK makes the connection, lets itself in and types the errors; its own retries are off, and faults are
asked again by the policy that all models have. It is imported when an `Embeddings` is made, not when this
module is. The numbers are not judged here: `recall.embed_endpoint` makes vectors of them.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies

from stratalog.errors import InvalidConfig, ModelReplyUnusable
from stratalog.models.adapter import lost, refusal, silent
from stratalog.models.contract import Reach
from stratalog.models.endpoint import Endpoint, encoded
from stratalog.models.faults import Fault, broken, error_of, told
from stratalog.models.openai import BASE_URL
from stratalog.models.reach import proxy_for, reach_of
from stratalog.models.retry import Policy

if TYPE_CHECKING:
    from openai import OpenAI


class Embeddings:
    """A model at an endpoint. Safe for threads, and for forks: a child makes its own connections. Calls
    block. `timeout` is seconds for one attempt."""

    def __init__(
        self,
        model: str,
        *,
        api_key: str,
        base_url: str = BASE_URL,
        headers: Mapping[str, str] | None = None,
        policy: Policy | None = None,
        timeout: float = 60.0,
        reach: Reach | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Raises `InvalidConfig` when the SDK is not installed, or the URL or the key cannot be used."""
        try:
            import httpx2
            import openai
        except ImportError as error:
            hint = "pip install 'stratalog[openai]'"
            raise InvalidConfig("this embedder needs the package `openai`", hint=hint) from error
        self.model = model
        self.reach: Reach = reach or reach_of(base_url, proxy_for(base_url, getproxies()))
        self._endpoint = Endpoint(base_url=base_url, api_key=api_key, headers=dict(headers or {}))
        self._policy = policy or Policy()
        self._timeout, self._sleep = timeout, sleep
        self._raised = (openai.OpenAIError, httpx2.HTTPError, OSError)
        self._make: Callable[[], OpenAI] = partial(
            openai.OpenAI,
            api_key=api_key,
            base_url=base_url,
            default_headers=dict(headers or {}),
            max_retries=0,
        )
        self._clients: dict[int, OpenAI] = {os.getpid(): self._make()}

    def __repr__(self) -> str:
        return f"Embeddings({self.model} at {self._endpoint.place})"

    def ask(self, texts: Sequence[str]) -> list[list[float]]:
        """The numbers of each text, in their order.

        Raises `ModelUnavailable` after bounded retries, `ModelRejected`, `ModelInputTooLong`, and
        `ModelReplyUnusable` for a reply that does not have a list of numbers for each text.
        """
        body = encoded({"model": self.model, "input": list(texts)})
        began, attempt = time.monotonic(), 0
        while True:
            attempt += 1
            found = self._once(body)
            if not isinstance(found, Fault):
                return self._read(found, len(texts))
            fault = found.hidden(self._endpoint.hide)
            pause = self._policy.pause(fault, attempt, time.monotonic() - began, random.random())
            if pause is None:
                raise error_of(fault, model=self.model, endpoint=self._endpoint.place, attempts=attempt)
            self._sleep(pause)

    def close(self) -> None:
        """Ends the connections. Asked again, it makes others."""
        client = self._clients.pop(os.getpid(), None)
        if client is not None:
            client.close()

    def _client(self) -> OpenAI:
        """This process's; a parent's is left to that, for both would read the same answers."""
        here = os.getpid()
        return self._clients.get(here) or self._clients.setdefault(here, self._make())

    def _once(self, body: bytes) -> object:
        """The reply as plain JSON, or the `Fault` that there was."""
        client = self._client()
        try:
            return client.post(
                "/embeddings", content=body, cast_to=object, options={"timeout": self._timeout}
            )
        except (json.JSONDecodeError, UnicodeDecodeError):
            return broken("the reply is not the JSON that it should be")
        except self._raised as error:
            return self._fault(error)
        except RuntimeError as error:
            if not client.is_closed():
                raise
            return lost(error)  # another thread closed it meanwhile

    def _fault(self, error: Exception) -> Fault:
        import httpx2
        from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError

        match error:
            case APIStatusError():
                return refusal(error.status_code, error.response.headers, error.body, error.message)
            case APITimeoutError() | httpx2.TimeoutException():
                return silent(self._timeout)
            case APIError() if not isinstance(error, APIConnectionError):
                return told(error.body, text=error.message)
            case _:
                return lost(error)

    def _read(self, reply: object, count: int) -> list[list[float]]:
        data = reply.get("data") if isinstance(reply, dict) else None
        rows: dict[int, list[float]] = {}
        for place, item in enumerate(data if isinstance(data, list) else []):
            numbers = _numbers(item)
            if numbers:
                index = item.get("index", place)
                rows[index if isinstance(index, int) else place] = numbers
        if sorted(rows) != list(range(count)):
            raise ModelReplyUnusable(
                "the reply does not have a list of numbers for each text",
                hint="is this model one that embeds?",
                expected=count,
                given=len(rows),
                model=self.model,
                endpoint=self._endpoint.place,
            )
        return [rows[index] for index in range(count)]


def _numbers(item: Any) -> list[float]:
    found = item.get("embedding") if isinstance(item, dict) else None
    if not isinstance(found, list):
        return []
    plain = all(isinstance(one, int | float) and not isinstance(one, bool) for one in found)
    return [float(one) for one in found] if plain else []
