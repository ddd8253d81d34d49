"""OpenAI's chat completions and responses, and every server compatible with them, over the official SDK.

The SDK is imported when a model is made, not when this module is. See `adapter` for how a request is made.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stratalog.errors import InvalidConfig
from stratalog.models.adapter import Adapter, Opened, lost, refusal, silent
from stratalog.models.contract import Request
from stratalog.models.endpoint import Endpoint
from stratalog.models.faults import Fault, told
from stratalog.models.replies.openai_chat import ChatReply
from stratalog.models.replies.openai_responses import ResponsesReply
from stratalog.models.retry import Retry

if TYPE_CHECKING:
    from openai import AsyncOpenAI

BASE_URL = "https://api.openai.com/v1"
SEALS = "reasoning.encrypted_content"
# The families whose models all reason, but for those that are tuned to chat; the latter refuse to be asked.
_REASONS = re.compile(r"(?:ft:)?(?:o\d|gpt-5|codex)(?!.*-chat)")


class _OpenAI(Adapter["AsyncOpenAI"]):
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

    @property
    @abstractmethod
    def _path(self) -> str: ...

    def _connector(self) -> Callable[[], AsyncOpenAI]:
        try:
            from openai import AsyncOpenAI
        except ImportError as error:
            hint = "pip install 'stratalog[openai]'"
            raise InvalidConfig("this model needs the package `openai`", hint=hint) from error
        at = self._endpoint
        return lambda: AsyncOpenAI(
            api_key=at.api_key, base_url=at.base_url, default_headers=at.headers, max_retries=0
        )

    async def _open(self, client: AsyncOpenAI, content: bytes, timeout: float) -> Opened:
        from openai import AsyncStream

        return await client.post(
            self._path,
            content=content,
            cast_to=object,
            options={"timeout": timeout},
            stream=True,
            stream_cls=AsyncStream[object],
        )

    def _errors(self) -> tuple[type[Exception], ...]:
        import httpx2
        from openai import OpenAIError

        return (OpenAIError, httpx2.HTTPError, OSError)

    def _fault(self, error: Exception, timeout: float) -> Fault:
        import httpx2
        from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError

        match error:
            case APIStatusError():
                return refusal(error.status_code, error.response.headers, error.body, error.message)
            case APITimeoutError() | httpx2.TimeoutException():
                return silent(timeout)
            case APIError() if not isinstance(error, APIConnectionError):
                return told(error.body, text=error.message)
            case _:
                return lost(error)


class OpenAIChat(_OpenAI):
    """Chat completions. `count` asks for the tokens used, at the end of the stream; a few servers refuse to
    be asked. The message in `Completed` is the assistant's, `{"role": "assistant", …}`.

    `sends_reasoning` says that the server wants the model's reasoning back with what it said, as DeepSeek,
    Kimi and GLM do when they think and call tools; others refuse it. `context.shapes.table.shape_of` makes
    the requests so.
    """

    shape = "openai_chat"
    _path = "/chat/completions"
    _reply = ChatReply

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str = BASE_URL,
        headers: Mapping[str, str] | None = None,
        retry: Retry | None = None,
        count: bool = True,
        sends_reasoning: bool = False,
    ) -> None:
        super().__init__(api_key=api_key, base_url=base_url, headers=headers, retry=retry)
        self.sends_reasoning = sends_reasoning
        self._count = count

    def _body(self, request: Request) -> dict[str, Any]:
        body = super()._body(request)
        return {"stream_options": {"include_usage": True}, **body} if self._count else body


class OpenAIResponses(_OpenAI):
    """The responses API. The message in `Completed` is `{"output": [items]}`.

    Nothing is stored at the provider, so its reasoning must come sealed to be sent back. `seals` asks for
    the seals with every request, or with none; left open, `seals_asked` decides. A request that says itself
    what it wants included is sent as it is.
    """

    shape = "openai_responses"
    _path = "/responses"
    _reply = ResponsesReply

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str = BASE_URL,
        headers: Mapping[str, str] | None = None,
        retry: Retry | None = None,
        seals: bool | None = None,
    ) -> None:
        super().__init__(api_key=api_key, base_url=base_url, headers=headers, retry=retry)
        self._seals = seals

    def _body(self, request: Request) -> dict[str, Any]:
        body = super()._body(request)
        asked = seals_asked(self._endpoint.base_url, request.model) if self._seals is None else self._seals
        return {"include": [SEALS], **body} if asked else body


def seals_asked(base_url: str, model: str) -> bool:
    """Whether sealed reasoning is to be asked for: at OpenAI's own address, of models known to reason.

    OpenAI now gives the seals unasked (so says its SDK of `encrypted_content`), yet it did not always, and
    without them the next request is refused; models that do not reason refuse to be asked ("Encrypted
    content is not supported with this model"), and so may compatible servers. A model whose name is not
    known is therefore not asked, and still gives them.
    """
    return urlsplit(base_url).hostname == urlsplit(BASE_URL).hostname and bool(_REASONS.match(model))
