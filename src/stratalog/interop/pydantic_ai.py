"""Message histories of Pydantic AI, kept in a log, and fitted into a budget before each request.

    history = StratalogHistory(memory, "chat-42")
    agent = Agent("openai:gpt-5", capabilities=[FitHistory(history, budget=20_000)])
    result = await agent.run("Where does Ana live?", message_history=await history.load())
    await history.append(result.new_messages())

A message is a few entries of one append, the first of which carries what the others do not say, so that it
comes back exactly. How messages and entries go together is in `pydantic_messages`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext

from stratalog.engine import Session
from stratalog.engine.fitting import fitted
from stratalog.engine.reading import standing
from stratalog.interop.build import chat_id
from stratalog.interop.pydantic_messages import (
    SAID,
    Group,
    digest_of,
    entries_of,
    grouped,
    message_of,
    notice,
    only,
    opened,
    place_of,
    stored_digest,
    summarised,
    summary_of,
    time_of,
    with_ends,
)
from stratalog.interop.waiting import Memory, engine_of, finished
from stratalog.keys import session_key
from stratalog.types import AnyEntry, Compaction, Note, ToolCall, ToolResult

CHANNEL: Final = "pydantic-ai"
_SKEW: Final = 3_600_000  # milliseconds by which clocks of machines that share a log may differ


class _Compacted(NamedTuple):
    """What a summary leaves of the messages in the log: their digests, and by these what is still seen."""

    end: int
    oldest: int
    summary: Compaction
    known: Counter[str]
    seen: dict[str, list[ModelMessage]]


class StratalogHistory:
    """The messages of this chat. Several objects, in several processes, may have the same chat.

    `memory` is opened and closed by its user. `wait`, seconds, is how long `append` waits for others that
    hold the session. Raises `InvalidKey`.
    """

    def __init__(
        self,
        memory: Memory,
        chat: str,
        *,
        agent: str = "agents",
        channel: str = CHANNEL,
        wait: float = 10.0,
    ) -> None:
        engine = engine_of(memory)
        self.session: Session = engine.session(session_key(agent, channel, chat_id(chat), engine.tenant))
        self._memory = memory
        self._wait = wait
        self._compacted: _Compacted | None = None

    async def load(self) -> list[ModelMessage]:
        """The messages in order, each as it was appended. Of a session that was compacted the first is the
        summary, as a `CompactionPart`, and then what is seen after it, no return without its call."""
        return await finished(self._memory, self._load)

    async def append(self, messages: Sequence[ModelMessage]) -> int:
        """Appends what is not there yet, all or nothing, and returns how many messages that were; they are
        durable on return. So the same run can be saved twice. What `load` made of a summary is no message.
        Raises `SessionBusy`, and what an append raises."""
        given = list(messages)
        return await finished(self._memory, lambda: self._append(given))

    async def clear(self) -> None:
        """Starts the history anew, as `Session.restart` does; what was said stays in the archive."""
        await finished(self._memory, self._clear)

    async def fit(
        self, messages: Sequence[ModelMessage], budget: int, *, model: str = "", run_id: str | None = None
    ) -> list[ModelMessage]:
        """The messages of a request within `budget` tokens, counted as for `model`: what the session's
        summary stands for is replaced by it, the oldest runs are left out, long returns are shortened, and no
        call is parted from its return. Messages of the run `run_id` are never replaced by the summary.

        Instructions and tools are not counted. Raises `ContextOverflow`.
        """
        given = list(messages)
        return await finished(self._memory, lambda: self._fit(given, budget, model, run_id))

    def _load(self) -> list[ModelMessage]:
        summary, groups, seen = _visible(self.session)
        shown = (message_of(group, seen) for group in groups)
        found = [message for message in shown if message is not None]
        return opened(found, [summarised(_whole(self.session, summary))]) if summary is not None else found

    def _append(self, messages: list[ModelMessage]) -> int:
        with self.session.held(wait=self._wait) as fence:
            made: list[AnyEntry] = []
            count = 0
            mine = [message for message in messages if not summary_of(message)]
            known = _known(self.session, _oldest(mine))
            for message in mine:
                digest = digest_of(message)
                if known[digest]:
                    known[digest] -= 1
                    continue
                made += entries_of(message, digest)
                count += 1
            if made:
                # A session that is not there yet has no fence to be lost.
                self.session.append(*with_ends(made), fence=fence if self.session.exists else None)
            return count

    def _clear(self) -> None:
        if self.session.exists:
            self.session.restart(force=True)

    def _fit(
        self, messages: list[ModelMessage], budget: int, model: str, run_id: str | None
    ) -> list[ModelMessage]:
        summary, rest = self._folded(messages, run_id)
        listed: list[AnyEntry] = [] if summary is None else [summary]
        places: list[tuple[int, int]] = []  # of each message: where its entries begin, and end
        for message in rest:
            begin = len(listed)
            listed += entries_of(message, "")
            places.append((begin + 1, len(listed) + 1))
        context = fitted(listed, budget, settings=self.session.settings.budget, model=model)
        shown = {entry.seq: entry for entry in (*context.system, *context.entries) if entry.seq}
        told = [summarised(context.summary)] if context.summary is not None else []
        made_up = [entry for entry in context.entries if not entry.seq and not isinstance(entry, ToolResult)]
        found: list[ModelMessage] = []
        for message, (begin, end) in zip(rest, places, strict=True):
            kept = only(message, listed[begin - 1 : end - 1], [shown.get(at) for at in range(begin, end)])
            if kept is not None:
                found.append(kept)
        return opened(found, [*told, *map(notice, made_up)])

    def _folded(
        self, messages: list[ModelMessage], run_id: str | None
    ) -> tuple[Compaction | None, list[ModelMessage]]:
        """The session's summary, and the messages that it does not stand for."""
        mine = [message for message in messages if not summary_of(message)]
        compacted = self._looked(mine) if self.session.meta.compacted else None
        if compacted is None:
            return None, messages
        known = compacted.known.copy()
        seen = {digest: list(left) for digest, left in compacted.seen.items()}
        rest: list[ModelMessage] = []
        for message in mine:
            digest = digest_of(message)
            known[digest] -= 1
            if known[digest] < 0 or (run_id is not None and message.run_id == run_id):
                rest.append(message)
            elif seen.get(digest):
                rest.append(seen[digest].pop(0))
        return compacted.summary, rest

    def _looked(self, messages: list[ModelMessage]) -> _Compacted | None:
        """What the session's compaction comes to for these messages; remembered while nothing is appended."""
        end = self.session.end
        oldest = _oldest(messages)
        known = self._compacted
        if known is not None and known.end == end and known.oldest <= oldest:
            return known
        summary, groups, ids = _visible(self.session)
        if summary is None:
            return None
        seen: dict[str, list[ModelMessage]] = {}
        for group in groups:
            message = message_of(group, ids)
            if message is not None:
                seen.setdefault(group.digest, []).append(message)
        self._compacted = _Compacted(
            end, oldest, _whole(self.session, summary), _known(self.session, oldest), seen
        )
        return self._compacted


@dataclass
class FitHistory(AbstractCapability[Any]):
    """Before each request of an agent: `StratalogHistory.fit`. Only what is sent is changed, not the run's
    messages, so that `result.new_messages()` is whole."""

    history: StratalogHistory
    budget: int
    model: str = ""

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        request_context.messages = await self.history.fit(
            list(request_context.messages), self.budget, model=self.model, run_id=ctx.run_id
        )
        return request_context

    @classmethod
    def get_serialization_name(cls) -> str | None:
        return None  # it has a session, which no file of an agent can name


def _whole(session: Session, summary: Compaction) -> Compaction:
    (found,) = session.with_payloads([summary])
    assert isinstance(found, Compaction)
    return found


def _oldest(messages: Sequence[ModelMessage]) -> int:
    """When the oldest of them was made, milliseconds UTC; 0 where one does not say when it was."""
    return min((time_of(message) or 0 for message in messages), default=0)


def _known(session: Session, oldest: int) -> Counter[str]:
    """The digests of the messages in the log that may have been made since then: what is in a log was made
    before it was logged."""
    known: Counter[str] = Counter()
    for entry in session.entries(reverse=True, blobs=False):
        if entry.ts < oldest - _SKEW:
            break
        digest = stored_digest(entry)
        if digest:
            known[digest] += 1
    return known


def _visible(session: Session) -> tuple[Compaction | None, list[Group], frozenset[str]]:
    """The summary that stands for what was folded, the messages of which something is seen, with all of their
    entries, and the ids of the entries that are."""
    view = session.view() if session.meta.compacted else None
    summary = view.summary if view is not None else None
    if view is None or summary is None:
        raw = list(session.entries())
        ids = frozenset(
            entry.id for entry in standing(raw) if isinstance(entry, SAID) or place_of(entry) == 0
        )
        return None, _seen(grouped(raw), ids), ids
    entries = [*view.system, *(entry for turn in view.turns for entry in turn.entries)]
    shown = {entry.id for entry in entries if entry.seq}
    first = min([entry.seq - (place_of(entry) or 0) for entry in entries if entry.seq], default=summary.seq)
    raw = list(session.entries(after=min(first, summary.seq) - 1))
    after = [
        each
        for each in standing(raw)
        if isinstance(each, SAID) and (each.id in shown or each.seq > summary.seq)
    ]
    calls = {each.call_id for each in after if isinstance(each, ToolCall)}
    paired = [each for each in after if not isinstance(each, ToolResult) or each.call_id in calls]
    bare = [
        each.id for each in raw if isinstance(each, Note) and place_of(each) == 0 and each.seq > summary.seq
    ]
    ids = frozenset([*(each.id for each in paired), *bare])
    return summary, _seen(grouped(raw), ids), ids


def _seen(groups: Iterable[Group], ids: frozenset[str]) -> list[Group]:
    return [group for group in groups if any(entry.id in ids for entry in group.entries)]
