"""Sessions of the OpenAI Agents SDK, kept in a log: `StratalogSession` is the SDK's `Session`.

    session = StratalogSession(memory, "chat-42")
    result = await Runner.run(agent, "Where does Ana live?", session=session)

Each item is one entry, durable when `add_items` returns, and comes back exactly as it was added. What is
taken away is taken away by an entry too: `pop_item` withdraws, `clear_session` starts the history anew. Of a
session that was compacted `get_items` gives the summary and what is seen after it, and no result without its
call.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterable
from typing import Any, Final, cast

import msgspec
from agents.items import TResponseInputItem
from agents.memory import OpenAIResponsesCompactionArgs, SessionSettings

from stratalog.engine import Problem, Session
from stratalog.engine.compaction import DEFAULT_WINDOW, Policy, Summariser, compact, preset
from stratalog.engine.reading import standing, withdrawn_by
from stratalog.errors import CompactionStuck, InvalidInput, NotFound, SessionBusy
from stratalog.ids import new_ulid
from stratalog.interop.build import chat_id, items, table, text
from stratalog.interop.content import content, content_of, parts_of
from stratalog.interop.exact import as_json, kept, restored
from stratalog.interop.records import parse, storable
from stratalog.interop.waiting import Memory, engine_of, finished
from stratalog.keys import session_key
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    Content,
    Data,
    File,
    Image,
    Reasoning,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
    text_of,
)

CHANNEL: Final = "openai-agents"
_MARK: Final = "openai_agents"
_SUMMARY: Final = "Summary of the conversation so far:\n"
_SAID = (System, User, Assistant, ToolCall, ToolResult)
# Calls that are answered by an item of their own, which has the same `call_id`.
_CALLS: Final = (
    *("function_call", "custom_tool_call", "shell_call", "local_shell_call", "apply_patch_call"),
    *("computer_call", "tool_search_call", "program"),
)
_OUTPUT: Final = "_output"
_AT_ONCE: Final = 64  # items that are read for `pop_item` beyond the one that it needs
_ARGUMENTS: Final = ("arguments", "input", "action", "actions", "operation", "code")

Item = dict[str, Any]


class StratalogSession:
    """The session of this chat: the SDK's `Session` protocol, compaction-aware. Several objects, in several
    processes, may have the same chat.

    `memory` is opened and closed by its user. `budget`, tokens, is what `get_items` without a limit may give:
    then it gives what Stratalog's context shows a model, counted as for `model`. With a `policy` the session
    is compacted when that asks for it and the SDK tells of a response (see `run_compaction`), by `summarise`,
    which the log calls `by`, or else by extraction. `wait`, seconds, is how long `pop_item` waits for others
    that hold the session. Raises `InvalidKey`.
    """

    def __init__(
        self,
        memory: Memory,
        chat: str,
        *,
        agent: str = "agents",
        channel: str = CHANNEL,
        session_settings: SessionSettings | None = None,
        budget: int | None = None,
        model: str = "",
        policy: Policy | None = None,
        summarise: Summariser | None = None,
        by: str = "model",
        wait: float = 10.0,
    ) -> None:
        self.session_id = chat
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        engine = engine_of(memory)
        self.session: Session = engine.session(session_key(agent, channel, chat_id(chat), engine.tenant))
        self._left = _Left(self.session)
        self._memory = memory
        self._budget = budget
        self._model = model
        self._policy = policy
        self._summarise = summarise
        self._by = by
        self._wait = wait

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items in order, or the newest `limit` of them. Of a compacted session the summary is the first,
        as a message of the system, and what it covers is left out.

        Without a limit and with a budget: what `Session.context` shows. Raises `ContextOverflow`.
        """
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is None and self._budget is not None:
            budget = self._budget
            found = await finished(self._memory, lambda: _within(self.session, budget, self._model))
        else:
            found = await finished(self._memory, lambda: _newest(self.session, limit))
        return cast(list[TResponseInputItem], found)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Appends all the items or none; they are durable on return, and also where this is cancelled
        meanwhile. Raises `InvalidInput` for what is no JSON object, and what an append raises."""
        entries = entries_of(cast(Iterable[Any], items))
        if entries:
            await finished(self._memory, lambda: self.session.append(*entries))

    async def pop_item(self) -> TResponseInputItem | None:
        """Takes away the newest item and returns it; None when there is none. What a summary stands for is
        not taken away. Raises `SessionBusy` when others hold the session for too long."""
        return cast(TResponseInputItem | None, await finished(self._memory, self._pop))

    async def clear_session(self) -> None:
        """Starts the history anew, as `Session.restart` does; what was said stays in the archive."""
        await finished(self._memory, self._clear)

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        """Compacts the session when its policy asks for it, or with `force` anyhow.

        The SDK calls it after a response that has an id. Then it fails no run: a session that is busy, or of
        which too little can be folded, is left as it is, which is told in `Stratalog.problems`. Called by
        anybody else it raises `SessionBusy`, `CompactionStuck`, and `NotFound` where nothing was said.
        """
        asked: dict[str, Any] = dict(args or {})
        if self._policy is None and not asked.get("force"):
            return
        policy = self._policy or preset("default", DEFAULT_WINDOW)
        try:
            await compact(
                self.session,
                policy=policy,
                summarise=self._summarise,
                by=self._by,
                force=bool(asked.get("force")),
            )
        except (SessionBusy, CompactionStuck, NotFound) as error:
            if "response_id" not in asked:
                raise
            problem = Problem(f"not compacted after a run: {error}", key=str(self.session.key))
            engine_of(self._memory).note(problem)

    def _pop(self) -> Item | None:
        if not self.session.exists:
            return None
        with self.session.held(wait=self._wait) as fence:
            last = self._left.newest()
            if last is None:
                return None
            self.session.withdraw(last, fence=fence)
            return item_of(last)

    def _clear(self) -> None:
        if self.session.exists:
            self.session.restart(force=True)


def entries_of(given: Iterable[Any]) -> list[AnyEntry]:
    """One entry for each item, in order; what a model gave between two inputs is one response. Raises
    `InvalidInput`."""
    made: list[AnyEntry] = []
    response = ""
    for each in given:
        item = as_json(each)
        if not isinstance(item, dict):
            raise InvalidInput("an item of a session is a JSON object", item=ascii(item)[:80])
        entry = _entry(item)
        if isinstance(entry, Assistant | ToolCall):
            response = response or new_ulid()
            entry = msgspec.structs.replace(entry, response=response)
        else:
            response = ""
        made.append(msgspec.structs.replace(entry, meta={_MARK: kept(item, [entry])}))
    return made


def item_of(entry: AnyEntry) -> Item | None:
    """The item that the entry was made of, or, for one that was not added by the SDK, what says the same;
    None where there is nothing to say."""
    rest = (entry.meta or {}).get(_MARK)
    if isinstance(rest, dict):
        try:
            item = restored(rest, [entry])
        except (LookupError, TypeError, ValueError):
            item = None  # somebody else's mark, or a result that was shortened to fewer parts
        if isinstance(item, dict) and not _is_shorter(entry, rest):
            return item
        if isinstance(entry, ToolResult):
            return _with_output(entry, item if isinstance(item, dict) else rest.get("rest"))
    return _said(entry)


# --- from items to entries ---


def _entry(item: Item) -> User | System | Assistant | ToolCall | ToolResult:
    kind = text(item.get("type")) or ("message" if "role" in item else "item")
    call_id = text(item.get("call_id"))
    if kind == "message":
        said = content(item.get("content"))
        match item.get("role"):
            case "user":
                return User(content=said)
            case "system" | "developer":
                return System(content=said)
            case "assistant":
                return Assistant(content=said)
            case _:
                pass
    elif kind == "reasoning":
        return Assistant(content=content_of(_thoughts(item)))
    elif kind in _CALLS and call_id:
        name = text(item.get("name")) or kind.removesuffix("_call")
        return ToolCall(call_id=call_id, name=name, args=_arguments(item))
    elif kind.endswith(_OUTPUT) and call_id:
        return ToolResult(call_id=call_id, content=_output(item.get("output")))
    return Assistant(content=(Data(kind=kind, value=item),))


def _thoughts(item: Item) -> list[Reasoning]:
    """What the item says, its id and its seal with the first of it, as Stratalog's own turns log them."""
    told = [
        text(table(part).get("text")) for part in (*items(item.get("summary")), *items(item.get("content")))
    ]
    first = Reasoning(
        text=told[0] if told else "",
        signature=text(item.get("id")),
        redacted=text(item.get("encrypted_content")),
    )
    return [first, *(Reasoning(text=each) for each in told[1:] if each)]


def _arguments(item: Item) -> Any:
    name = next((name for name in _ARGUMENTS if name in item), "")
    given = item.get(name)
    return parse(given) if name == "arguments" and isinstance(given, str) else storable(given)


def _output(value: Any) -> Content:
    if isinstance(value, dict) and isinstance(value.get("image_url"), str):
        return content({"type": "input_image", "image_url": value["image_url"]})
    if isinstance(value, list):
        return content_of(part for each in value for part in parts_of(_words(each)))
    return content(value)


def _words(part: Any) -> Any:
    """What a shell said in a part of its output, as text."""
    if isinstance(part, dict) and "type" not in part and ("stdout" in part or "stderr" in part):
        told = [text(part.get(stream)) for stream in ("stdout", "stderr")]
        return [each for each in told if each] or part
    return part


# --- from entries of others to items ---


def _is_shorter(entry: AnyEntry, rest: dict[str, Any]) -> bool:
    """Whether a result says less than the item that is kept whole beside it, for it was shortened."""
    if not isinstance(entry, ToolResult) or "json" not in rest:
        return False
    said = _output(json.loads(rest["json"]).get("output"))
    return text_of(entry.content) != str(storable(text_of(said)))


def _with_output(entry: ToolResult, item: Any) -> Item:
    """The item of a result with what the entry says in place of its output."""
    known = {name: item[name] for name in ("type", "id", "status") if isinstance(table(item).get(name), str)}
    said: Any = _input(entry.content)
    if known.get("type") == "shell_call_output":
        chunks = [table(chunk) for chunk in items(item.get("output"))]
        outcome = chunks[-1].get("outcome") if chunks else None
        said = [{"stdout": text_of(entry.content), "stderr": "", "outcome": outcome}]
    return {"type": "function_call_output", **known, "call_id": entry.call_id, "output": said}


def _said(entry: AnyEntry) -> Item | None:
    match entry:
        case User() if entry.content:
            return {"role": "user", "content": _input(entry.content)}
        case System() if entry.text:
            return {"role": "system", "content": entry.text}
        case Assistant() if entry.text:
            return {"role": "assistant", "content": entry.text}
        case ToolCall():
            args = entry.args if isinstance(entry.args, str) else msgspec.json.encode(entry.args).decode()
            return {"type": "function_call", "call_id": entry.call_id, "name": entry.name, "arguments": args}
        case ToolResult():
            output = _input(entry.content)
            return {"type": "function_call_output", "call_id": entry.call_id, "output": output}
        case _:
            return None


def _input(said: Content) -> str | list[Item]:
    if isinstance(said, str):
        return said
    return [part for part in map(_part, said) if part]


def _part(part: Any) -> Item:
    match part:
        case Text():
            return {"type": "input_text", "text": part.text}
        case Image():
            return {"type": "input_image", "detail": "auto", "image_url": part.url or _data_url(part)}
        case File() if part.url:
            return {"type": "input_file", "file_url": part.url}
        case File():
            return {"type": "input_file", "filename": part.name or "file", "file_data": _data_url(part)}
        case _:
            return {"type": "input_text", "text": f"[{type(part).__name__.lower()} not shown]"}


def _data_url(part: Image | File) -> str:
    data = base64.b64encode(part.data).decode()
    return f"data:{part.media_type or 'application/octet-stream'};base64,{data}"


# --- what is seen ---


def _newest(session: Session, limit: int | None) -> list[Item]:
    summary, entries = _visible(session, limit)
    found = [item for item in map(item_of, entries) if item is not None]
    if summary is not None and (limit is None or limit < 0 or len(found) < limit):
        return [*_summary(session, summary), *found]
    return found


def _within(session: Session, budget: int, model: str) -> list[Item]:
    """What the session's context shows within the budget, in the order of the log."""
    context = session.context(budget, model=model)
    said = sorted((*context.system, *context.entries), key=lambda entry: entry.seq)
    shown = [entry for entry in said if not (isinstance(entry, ToolResult) and entry.synthetic)]
    entries = [*context.memory, *shown]
    summary = _summary(session, context.summary) if context.summary is not None else []
    return [*summary, *(item for item in map(item_of, entries) if item is not None)]


def _summary(session: Session, summary: Compaction) -> list[Item]:
    (whole,) = session.with_payloads([summary])
    assert isinstance(whole, Compaction)
    return [{"role": "system", "content": _SUMMARY + whole.summary}] if whole.summary.strip() else []


def _visible(session: Session, limit: int | None) -> tuple[Compaction | None, list[AnyEntry]]:
    """The summary that stands for what was folded, and the entries that are items, whole: all, or the newest
    `limit` (below 0: all)."""
    limit = None if limit is not None and limit < 0 else limit
    found = _beside_summary(session) if session.meta.compacted else None
    if found is None:
        return None, _standing(session, limit)
    summary, told = found
    calls = {entry.call_id for entry in told if isinstance(entry, ToolCall)}
    paired = [entry for entry in told if not isinstance(entry, ToolResult) or entry.call_id in calls]
    return summary, paired if limit is None else paired[max(0, len(paired) - limit) :]


def _beside_summary(session: Session) -> tuple[Compaction, list[AnyEntry]] | None:
    """The summary, and the items that are seen beside it, also results without their calls; None where there
    is no summary, as after a restart."""
    seen = session.view()
    if seen.summary is None:
        return None
    entries = [*seen.system, *(entry for turn in seen.turns for entry in turn.entries)]
    ids = {entry.id for entry in entries if entry.seq}
    first = min([entry.seq for entry in entries if entry.seq], default=seen.summary.seq)
    after = standing(session.entries(after=min(first, seen.summary.seq) - 1))
    told: list[AnyEntry] = [
        entry for entry in after if _is_item(entry) and (entry.id in ids or entry.seq > seen.summary.seq)
    ]
    return seen.summary, told


def _standing(session: Session, limit: int | None) -> list[AnyEntry]:
    """What was said and not withdrawn, the newest `limit` of it, read no farther back than that is."""
    if limit is None:
        return [entry for entry in standing(session.entries()) if _is_item(entry)]
    found: list[AnyEntry] = []
    gone: set[str] = set()
    for entry in session.entries(reverse=True):
        if len(found) >= limit:
            break
        gone |= withdrawn_by(entry)
        if _is_item(entry) and entry.id not in gone:
            found.append(entry)
    return found[::-1]


def _is_item(entry: AnyEntry) -> bool:
    """Whether the entry is one of the items: all that was added, and what others said in words."""
    return isinstance(entry, _SAID) and (_MARK in (entry.meta or {}) or _said(entry) is not None)


class _Left:
    """The items that `pop_item` has left, kept from one call to the next.

    Each call takes in what the log has got since, of any process; only where the log is another one by now,
    or was compacted, is it read anew. So popping all items one after another looks at each entry a few times.
    An uncompacted log is read back from its end no farther than is popped.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._mutex = threading.Lock()
        self._clear()

    def newest(self) -> AnyEntry | None:
        """The newest item that is there, whole; None when there is none."""
        with self._mutex:
            new = self._since()
            if new is None or any(isinstance(entry, Compaction) for entry in new):
                self._clear()
                if self._session.meta.compacted:
                    self._read_beside_summary()
            else:
                for entry in new:
                    self._take(entry)
            return self._newest()

    def _clear(self) -> None:
        self._end = (0, "")  # number and id of the last entry that was taken in
        self._before: int | None = None  # what comes before this entry was not read; None: nothing was
        self._items: list[AnyEntry] = []
        self._gone: set[str] = set()
        self._calls: dict[str, set[str]] = {}
        self._paired = False
        self._at_once = 1

    def _since(self) -> list[AnyEntry] | None:
        """What came after the last entry that was taken in; None where that is not in the log."""
        if not self._end[0]:
            return None
        new: list[AnyEntry] = []
        for entry in self._session.entries(reverse=True):
            if entry.seq <= self._end[0]:
                return new[::-1] if (entry.seq, entry.id) == self._end else None
            new.append(entry)
        return None

    def _take(self, entry: AnyEntry) -> None:
        self._end = (entry.seq, entry.id)
        self._gone |= withdrawn_by(entry)
        if _is_item(entry):
            self._put([entry])

    def _put(self, entries: Iterable[AnyEntry]) -> None:
        for entry in entries:
            self._items.append(entry)
            if isinstance(entry, ToolCall):
                self._calls.setdefault(entry.call_id, set()).add(entry.id)

    def _newest(self) -> AnyEntry | None:
        while True:
            while self._items and self._items[-1].id in self._gone:
                self._items.pop()
            found = next((entry for entry in reversed(self._items) if self._is_there(entry)), None)
            if found is not None or not self._read_back():
                return found

    def _is_there(self, entry: AnyEntry) -> bool:
        if entry.id in self._gone:
            return False
        if not self._paired or not isinstance(entry, ToolResult):
            return True
        return bool(self._calls.get(entry.call_id, set()) - self._gone)

    def _read_back(self) -> bool:
        """Reads items before those that are known, each time twice as many; whether there were any."""
        if self._paired:
            return False
        found: list[AnyEntry] = []
        for entry in self._session.entries(before=self._before, reverse=True):
            if isinstance(entry, Compaction):  # it was compacted just now
                self._clear()
                self._read_beside_summary()
                return bool(self._items)
            self._end = self._end if self._end[0] else (entry.seq, entry.id)
            self._before = entry.seq
            self._gone |= withdrawn_by(entry)
            if _is_item(entry) and entry.id not in self._gone:
                found.append(entry)
                if len(found) >= self._at_once:
                    break
        self._at_once = min(2 * self._at_once, _AT_ONCE)
        self._items = found[::-1]
        return bool(found)

    def _read_beside_summary(self) -> None:
        last = next(self._session.entries(reverse=True), None)
        found = _beside_summary(self._session)
        if last is None or found is None:
            return
        self._end = (last.seq, last.id)
        self._paired = True
        # What was added meanwhile comes with the next call.
        self._put(entry for entry in found[1] if entry.seq <= last.seq)
