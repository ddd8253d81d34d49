"""What a reply under way is to an adapter, and what the three have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from stratalog.models.contract import Completed, ReasoningDelta, TextDelta
from stratalog.models.faults import Fault, Faulted, broken
from stratalog.types import Usage

Delta = TextDelta | ReasoningDelta

_WORD = re.compile(r"\S")


class Reply(Protocol):
    """One reply under way, for the model that was asked."""

    def __init__(self, model: str) -> None: ...

    def take(self, data: object) -> Iterator[Delta]:
        """What one event of the stream adds. Raises `Faulted` when it is an error."""
        ...

    def whole(self, data: object) -> Iterator[Delta]:
        """The same for a reply that came in one piece, from a server that does not stream."""
        ...

    def rest(self) -> Iterator[Delta]:
        """What was held back of the text, once the stream has ended and before `completed`."""
        ...

    def completed(self, *, framed: bool) -> Completed:
        """The reply, once the stream has ended. `framed` says that its end was marked on the wire, so that
        a cut would have been seen. Raises `Faulted` when it was cut, or cannot be used."""
        ...


def cut() -> Faulted:
    return Faulted(broken("the stream ended before the reply did"))


def require(*, text: str, calls: bool, stop: str, reason: str) -> None:
    """Raises `Faulted` for a reply with neither words nor calls. `reason` is the provider's word for why it
    stopped, `stop` ours."""
    if calls or _WORD.search(text):
        return
    ended = f" (it stopped for {reason!r})" if reason else ""
    if stop == "length":
        what, hint = f"it reached its limit before the first word{ended}", "allow more output tokens"
        raise Faulted(Fault(kind="unusable", reason=what, hint=hint))
    if stop == "refusal":
        raise Faulted(
            Fault(kind="unusable", reason=f"the model refused without a word{ended}", hint="rephrase")
        )
    raise Faulted(Fault(kind="empty", reason=f"it is empty{ended}"))


def usage(**counts: object) -> Usage | None:
    """The counts that are numbers; None when no tokens were reported at all."""
    known = {name: _count(value) for name, value in counts.items()}
    return Usage(**known) if any(known.values()) else None


def table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def is_json(value: str) -> bool:
    try:
        msgspec.json.decode(value)
    except msgspec.DecodeError:
        return False
    return True


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
