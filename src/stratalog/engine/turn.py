"""One turn: a user's message and all that answers it, written by the holder of the session.

    with session.turn("What is the weather in Bergen?") as turn:
        call = turn.call("weather", {"city": "Bergen"})
        turn.result(call, "rain")
        turn.reply("It rains.")

Everything is in the log before the method returns. Leaving the block ends the turn: answered if there was a
reply, aborted after Ctrl-C or a cancellation, interrupted after any other exception, which goes on upwards.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self, Unpack

import msgspec

from stratalog.context.budget import Context
from stratalog.engine.seeing import ContextOptions, Seeing, Wants
from stratalog.errors import Conflict, StaleFence, TurnClosed
from stratalog.ids import new_ulid
from stratalog.sessions.manager import Tenure
from stratalog.types import AnyEntry, Assistant, Content, ToolCall, ToolResult, TurnEnd, Usage, User

Status = Literal["answered", "aborted", "interrupted", "timed_out"]
Append = Callable[[list[AnyEntry], int], list[AnyEntry]]


class Turn:
    """Made by `Session.turn`, `next` and `start`. `id` is the turn's, `message` what opened it."""

    def __init__(
        self,
        message: User,
        tenure: Tenure,
        append: Append,
        release: Callable[[Tenure, Status], None],
        seeing: Seeing,
        fence: Callable[[], int],
    ) -> None:
        self.id = message.turn
        self.message = message
        self.fence = tenure.fence
        self._tenure = tenure
        self._append = append
        self._release = release
        self.seeing = seeing
        self._fence_now = fence
        self._replied = False
        self._ended = False
        self._ending = threading.RLock()

    @property
    def lost(self) -> str:
        """Why the turn was taken away (`aborted`, `restarted`, `deleted`, `timed_out`, `taken` by another
        process, `forked` in the child of a fork), or "". A holder looks here before it does something that
        costs; what another process did is known only once the turn writes."""
        return self._tenure.lost

    def reply(
        self,
        content: Content,
        *,
        model: str = "",
        usage: Usage | None = None,
        response: str = "",
        meta: dict[str, Any] | None = None,
    ) -> Assistant:
        """Logs what the model answered. Raises `TurnClosed`, `StaleFence` when the turn was taken away."""
        (entry,) = self.append(
            Assistant(content=content, model=model, usage=usage, response=response, meta=meta)
        )
        assert isinstance(entry, Assistant)
        self._replied = True
        return entry

    def call(self, name: str, args: Any = None, *, call_id: str = "", response: str = "") -> ToolCall:
        """Logs a tool call before it is made; a call id is made where the model gave none."""
        (entry,) = self.append(
            ToolCall(call_id=call_id or f"call_{new_ulid()}", name=name, args=args, response=response)
        )
        assert isinstance(entry, ToolCall)
        return entry

    def result(self, call: ToolCall | str, content: Content, *, error: bool = False) -> ToolResult:
        """Logs what a tool answered, to the call or to its id."""
        call_id, name = (call.call_id, call.name) if isinstance(call, ToolCall) else (call, "")
        (entry,) = self.append(ToolResult(call_id=call_id, name=name, content=content, error=error))
        assert isinstance(entry, ToolResult)
        return entry

    def append(self, *entries: AnyEntry) -> list[AnyEntry]:
        """Logs entries of this turn, all or none. Raises `TurnClosed`, `StaleFence`."""
        if self._ended:
            raise TurnClosed("the turn has ended", turn=self.id, hint="begin a new turn")
        if self._tenure.lost:
            raise lost(self.id, self._tenure.lost)
        try:
            return self._append(
                [msgspec.structs.replace(entry, turn=self.id) for entry in entries], self.fence
            )
        except StaleFence:
            self._tenure.lost = self._tenure.lost or "taken"
            raise

    def context(self, budget: int | None = None, **options: Unpack[ContextOptions]) -> Context:
        """What the model should see now: `Session.context` without the messages that wait for their turn."""
        return self.seeing.context(self.id, Wants(budget=budget, **options))

    def look(self) -> str:
        """`lost`, with a look at what other processes did."""
        if not self._tenure.lost and self._fence_now() != self.fence:
            self._tenure.lost = "taken"
        return self._tenure.lost

    def end(self, status: Status = "answered", detail: str = "") -> None:
        """Ends the turn and lets the next one have the session. The second time does nothing.

        The session is let go whatever happens. Raises as `append`: where the end could not be logged, the
        turn stays unfinished, and the next one closes it as interrupted.
        """
        with self._ending:
            if self._ended:
                return
            try:
                self.append(TurnEnd(status=status, detail=detail))
            finally:
                self._ended = True
                self._release(self._tenure, status)

    def leave(self) -> None:
        """Lets the next one have the session, and leaves the turn as it is: unfinished, to be gone on with by
        `Session.start`, or ended by whoever begins another. After an end it does nothing."""
        with self._ending:
            if not self._ended:
                self._ended = True
                self._release(self._tenure, "answered")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.end("answered" if self._replied else "interrupted")
            return
        # Ctrl-C or a cancellation is somebody's wish that the turn should end.
        aborted = not issubclass(kind, Exception | SystemExit)
        detail = f"{kind.__name__}: {error}"[:500]
        # Was it taken away before, then the exception under way is what the caller should see.
        with suppress(Conflict):
            self.end("aborted" if aborted else "interrupted", detail)


def lost(turn: str, why: str) -> TurnClosed:
    """The error for a turn that was taken away."""
    words = {
        "taken": "the session was taken by another process, or aborted or deleted there",
        "timed_out": "the turn was past its deadline and the session was taken by another",
        "aborted": "the turn was aborted",
        "restarted": "the session was restarted",
        "deleted": "the session was deleted",
        "forked": "the turn belongs to the process that this one was forked from",
    }
    return TurnClosed(words[why], turn=turn, hint="what was written before is kept; begin a new turn")
