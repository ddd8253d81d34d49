"""What a scripted server may do with a request besides replying, and what it keeps of it."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

import msgspec

from stratalog.models.contract import Shape
from stratalog.testing.scripted import Reply


class Refuse(msgspec.Struct, frozen=True):
    """An error status, in the provider's JSON; `code` "" is the provider's own for that status. `text` is
    sent instead of the JSON, as a proxy would."""

    status: int
    message: str = "scripted"
    code: str = ""
    retry_after: str | int | None = None
    headers: dict[str, str] = {}
    text: str = ""


class Drop(msgspec.Struct, frozen=True):
    """The connection is closed after `after` deltas of the reply (0: after the headers; -1: before them)."""

    reply: Reply = Reply(text="one two three four five six")
    after: int = 0


class Hang(msgspec.Struct, frozen=True):
    """Nothing more comes after `after` deltas (0: after the headers; -1: before them) until the client
    leaves."""

    reply: Reply = Reply(text="one two three four five six")
    after: int = -1


class Break(msgspec.Struct, frozen=True):
    """An error inside the stream, after `after` deltas, as the provider sends one when it fails under way."""

    message: str = "scripted"
    code: str = ""
    reply: Reply = Reply(text="one two three four five six")
    after: int = 1


class Raw(msgspec.Struct, frozen=True):
    """Events as they stand: a mapping is sent as JSON, under its `type` where the API names events; a
    string as it is. `framed` False leaves the end of the response unmarked but for the end of the
    connection; `content_type` other than the usual sends the events as one body."""

    events: tuple[dict[str, Any] | str, ...]
    framed: bool = True
    content_type: str = "text/event-stream"


ServerStep: TypeAlias = str | Reply | Refuse | Drop | Hang | Break | Raw


class Received:
    """A request: its place in the order of arrival, its bytes, and what became of it.

    `status` is that of the answer, 0 while there is none; `refusal` the reason when the rules refused it;
    `finished` that the answer was sent whole; `disconnected` that the client left before that."""

    def __init__(
        self, number: int, shape: Shape | None, path: str, headers: dict[str, str], raw: bytes
    ) -> None:
        self.number = number
        self.shape = shape
        self.path = path
        self.headers = headers
        self.raw = raw
        self.body: dict[str, Any] = {}
        self.tokens = 0
        self.status = 0
        self.refusal = ""
        self.finished = False
        self.disconnected = False

    def __repr__(self) -> str:
        refusal = f", {self.refusal}" if self.refusal else ""
        return f"Received({self.number}, {self.path}, {self.status}{refusal})"


class Facts:
    """What all requests come to, whether they are kept or not.

    `requests` counts them; `size` and `largest` are the bytes of their bodies, in all and in one, `tokens`
    and `most_tokens` what the server's counter made of them; `statuses` counts the answers by their status
    (0 for none); `refusals` are the reasons of those that the rules refused, in order."""

    def __init__(self) -> None:
        self.requests = 0
        self.size = 0
        self.largest = 0
        self.tokens = 0
        self.most_tokens = 0
        self.statuses: Counter[int] = Counter()
        self.refusals: list[str] = []

    def came(self, size: int) -> None:
        self.requests += 1
        self.size += size
        self.largest = max(self.largest, size)

    def counted(self, tokens: int) -> None:
        self.tokens += tokens
        self.most_tokens = max(self.most_tokens, tokens)
