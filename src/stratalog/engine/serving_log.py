"""What the log says of turns that were asked for by a request: how each was asked, and what became of it.

The meta of a message keeps what is needed to answer it after a crash, and to know the same request again.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal, NamedTuple

import msgspec

from stratalog.engine.notes import ASKER
from stratalog.engine.serving_streams import Done, Ending, Failed, Paused
from stratalog.engine.session import Session
from stratalog.errors import NotFound
from stratalog.ids import now_ms
from stratalog.types import Assistant, Content, TurnEnd, TurnStart, Usage, User

REQUEST: Final = "request"  # in the meta of a message: how it was asked
LATELY_MS: Final = 86_400_000  # how long a key of a request, and a turn that was not finished, is looked for


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of how a message was asked: the key that its asker gave it, what was asked in short, and
    the model that is to answer ("" for the agent's)."""

    key: str = ""
    digest: str = ""
    model: str = ""


class Left(NamedTuple):
    """An accepted message without an end: its turn, who said it, the model that is to answer, and how often
    it was begun."""

    turn: str
    user: str
    model: str
    attempts: int


class TurnState(msgspec.Struct, frozen=True, kw_only=True):
    """What the log says of a turn. `text` is its reply, or what had come of one; `attempts` is how often it
    was begun."""

    turn: str
    status: Literal["queued", "started", "answered", "aborted", "interrupted", "timed_out"]
    text: str = ""
    entry: str = ""
    model: str = ""
    usage: Usage | None = None
    attempts: int = 0

    @property
    def ending(self) -> Ending:
        """The last event that its stream has."""
        match self.status:
            case "answered":
                return Done(
                    turn=self.turn, text=self.text, entry=self.entry, model=self.model, usage=self.usage
                )
            case "queued" | "started":
                return Paused(turn=self.turn, status=self.status)
            case _:
                return Failed(turn=self.turn, status=self.status, text=self.text)


def turn_state(session: Session, turn: str) -> TurnState:
    """What the log says of a turn, also of one before a restart. Raises `NotFound`."""
    end: TurnEnd | None = None
    reply: Assistant | None = None
    attempts = 0
    for entry in session.entries(reverse=True, blobs=False, generations="all"):
        if entry.turn != turn:
            continue
        match entry:
            case TurnEnd():
                end = end or entry
            case TurnStart():
                attempts += 1
            case Assistant():
                reply = reply or entry
            case User():
                (whole,) = session.with_payloads([reply]) if reply is not None else (None,)
                assert whole is None or isinstance(whole, Assistant)
                return TurnState(
                    turn=turn,
                    status=end.status if end is not None else "started" if attempts else "queued",
                    text=whole.text if whole is not None else "",
                    entry=whole.id if whole is not None else "",
                    model=whole.model if whole is not None else "",
                    usage=whole.usage if whole is not None else None,
                    attempts=attempts,
                )
            case _:
                pass
    raise NotFound("the session has no such turn", turn=turn)


def requests_of(session: Session, after: int | None) -> tuple[dict[str, tuple[str, str]], int]:
    """The turn and the digest of each message that was accepted under a key, after the entry of this number,
    or (None) within a day; and the number of the last entry."""
    since, found, last = now_ms() - LATELY_MS, dict[str, tuple[str, str]](), after or 0
    reading = session.entries(after=after or 0, reverse=True, blobs=False, generations="all")
    for entry in reading:
        last = max(last, entry.seq)
        if after is None and entry.ts < since:
            break
        asked = _request_of(entry) if isinstance(entry, User) else None
        if asked is not None and asked.key:
            found[asked.key] = (entry.turn, asked.digest)  # of two it is the first that counts
    return found, last


def left_in(session: Session) -> list[Left] | None:
    """The accepted messages without an end, oldest first; None where another process holds the session, for
    they may be its own to finish."""
    unfinished = session.unfinished() if session.exists else []
    left: list[Left] = []
    if unfinished and session.busy and session.status != "processing":
        return None
    for each in unfinished:
        asked = _request_of(each.message)
        if asked is not None:
            user = (each.message.meta or {}).get(ASKER)
            attempts = turn_state(session, each.turn).attempts
            left.append(Left(each.turn, user if isinstance(user, str) else "", asked.model, attempts))
    return left


def close(session: Session, turns: list[str]) -> None:
    """Ends these turns as interrupted. Raises `SessionBusy` while a turn runs."""
    if turns:
        with session.held() as fence:
            session.append(*(TurnEnd(turn=turn, status="interrupted") for turn in turns), fence=fence)


def _request_of(message: User) -> Request | None:
    told = (message.meta or {}).get(REQUEST)
    if told is None:
        return None
    try:
        return msgspec.convert(told, Request)
    except msgspec.ValidationError:
        return None  # somebody else's


def digest_of(content: Content, model: str) -> str:
    """What was asked, in short."""
    return hashlib.sha256(msgspec.json.encode((content, model))).hexdigest()
