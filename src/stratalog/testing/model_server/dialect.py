"""What an API is to the server: rules that refuse a request, and the JSON of replies and errors."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from typing import Any, NamedTuple, NoReturn, Protocol

import msgspec

from stratalog.models.contract import Shape
from stratalog.testing.scripted import Reply
from stratalog.types import Usage

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


class Strictness(msgspec.Struct, frozen=True, kw_only=True):
    """What goes beyond what an API itself demands, as some servers and chat templates do, and what is let
    pass.

    `one_system`: at most one system message, and it comes first. `alternate`: user and assistant take turns
    (where an API merges messages of one role, they no longer are merged). `unknown_fields`: fields of the
    body that the API does not document are let pass. `wants_reasoning`: an assistant message with calls must
    have its `reasoning_content`, as DeepSeek demands of its thinking models, Kimi and GLM likewise; without
    this rule the field is not known, and refused. `no_reasoning`: the model does not reason, and refuses to
    be asked for sealed reasoning."""

    one_system: bool = False
    alternate: bool = False
    unknown_fields: bool = False
    wants_reasoning: bool = False
    no_reasoning: bool = False


class Refused(Exception):
    """The request breaks a rule; `param` is the place in the body."""

    def __init__(self, message: str, *, status: int = 400, code: str = "", param: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.param = param


class Frame(NamedTuple):
    """One event of a stream. `delta` says that it carries some of the reply's text, thought or arguments."""

    event: str
    data: dict[str, Any] | str
    delta: bool = False

    def sse(self) -> bytes:
        named = f"event: {self.event}\n" if self.event else ""
        data = self.data if isinstance(self.data, str) else json.dumps(self.data, ensure_ascii=False)
        return f"{named}data: {data}\n\n".encode("utf-8", "replace")


class Memory:
    """What a server remembers of what it gave out, as a provider does, to know it again.

    `thought` has, by the id of a tool call, the thought that came before it."""

    def __init__(self) -> None:
        self.thought: dict[str, str] = {}


class Dialect(Protocol):
    """One API. `key` reads the key out of the headers, lower-cased names; "" when there is none."""

    shape: Shape
    path: str

    def key(self, headers: dict[str, str]) -> str: ...

    def check(
        self, body: dict[str, Any], headers: dict[str, str], strict: Strictness, memory: Memory
    ) -> None:
        """Raises `Refused`."""
        ...

    def over_window(self, tokens: int, output: int, window: int) -> Refused:
        """How the API refuses a request of so many tokens, which allows so much output."""
        ...

    def frames(
        self, reply: Reply, usage: Usage, body: dict[str, Any], memory: Memory, response_id: str
    ) -> list[Frame]:
        """The stream of a reply."""
        ...

    def whole(
        self, reply: Reply, usage: Usage, body: dict[str, Any], memory: Memory, response_id: str
    ) -> dict[str, Any]:
        """The reply in one piece."""
        ...

    def error(self, status: int, message: str, code: str, param: str) -> dict[str, Any]:
        """The body of an answer with an error status."""
        ...

    def broken(self, message: str, code: str) -> Frame:
        """An error inside a stream."""
        ...

    def end(self) -> bytes:
        """What comes after the last event."""
        ...


def bearer(headers: dict[str, str]) -> str:
    """The key of an `Authorization: Bearer` header, or ""."""
    return headers.get("authorization", "").removeprefix("Bearer ").strip()


def refuse(message: str, *, status: int = 400, code: str = "", param: str = "") -> NoReturn:
    raise Refused(message, status=status, code=code, param=param)


def kind_of(value: object) -> str:
    """What JSON calls the value."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def known_fields(body: dict[str, Any], known: Container[str]) -> str:
    """The first field of the body that is not known, or ""."""
    return next((name for name in body if name not in known), "")


def data_url(url: object) -> bool:
    """Whether it is an address, or data in one, that an image may be given by."""
    return (
        isinstance(url, str)
        and re.match(r"https?://\S+|data:image/(png|jpe?g|gif|webp);base64,\S", url) is not None
    )
