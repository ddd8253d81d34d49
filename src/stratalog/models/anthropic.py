"""Anthropic's messages, and servers compatible with them, over the official SDK.

The SDK is imported when a model is made, not when this module is. See `adapter` for how a request is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from stratalog.errors import InvalidConfig
from stratalog.models.adapter import Adapter, Opened, lost, refusal, silent
from stratalog.models.endpoint import Endpoint
from stratalog.models.faults import Fault, told
from stratalog.models.replies.anthropic import MessagesReply
from stratalog.models.retry import Retry

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

BASE_URL = "https://api.anthropic.com"


class Anthropic(Adapter["AsyncAnthropic"]):
    """The message in `Completed` is the assistant's, `{"role": "assistant", "content": [blocks]}`."""

    shape = "anthropic"
    _reply = MessagesReply

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str = BASE_URL,
        headers: Mapping[str, str] | None = None,
        retry: Retry | None = None,
    ) -> None:
        """Raises `InvalidConfig` when the SDK is not installed, or the URL or the key cannot be used."""
        super().__init__(Endpoint(base_url=base_url, api_key=api_key, headers=dict(headers or {})), retry)

    def _connector(self) -> Callable[[], AsyncAnthropic]:
        try:
            from anthropic import AsyncAnthropic
        except ImportError as error:
            hint = "pip install 'stratalog[anthropic]'"
            raise InvalidConfig("this model needs the package `anthropic`", hint=hint) from error
        at = self._endpoint
        return lambda: AsyncAnthropic(
            api_key=at.api_key, base_url=at.base_url, default_headers=at.headers, max_retries=0
        )

    async def _open(self, client: AsyncAnthropic, content: bytes, timeout: float) -> Opened:
        from anthropic import AsyncStream

        return await client.post(
            "/v1/messages",
            content=content,
            cast_to=object,
            options={"timeout": timeout},
            stream=True,
            stream_cls=AsyncStream[object],
        )

    def _errors(self) -> tuple[type[Exception], ...]:
        import httpx2
        from anthropic import AnthropicError

        return (AnthropicError, httpx2.HTTPError, OSError)

    def _fault(self, error: Exception, timeout: float) -> Fault:
        import httpx2
        from anthropic import APIConnectionError, APIError, APIStatusError, APITimeoutError

        match error:
            case APIStatusError() if error.response.is_success:  # an error inside a stream
                return told(error.body, text=error.message)
            case APIStatusError():
                return refusal(error.status_code, error.response.headers, error.body, error.message)
            case APITimeoutError() | httpx2.TimeoutException():
                return silent(timeout)
            case APIError() if not isinstance(error, APIConnectionError):
                return told(error.body, text=error.message)
            case _:
                return lost(error)
