"""Codex rollouts: `session_meta`, `response_item`, `event_msg`, `turn_context` and `compacted` records.

What the model saw and gave is in the response items; events repeat much of it for the screen. An event with
the same words as an item is merged into it, and so is one that stands right beside an item of its kind; an
event that repeats nothing becomes an entry. Where the file has `user_message` events they also tell a
person's prompt from what the program sent as the user (instructions, environment), which opens no turn. An
item at the file's end whose event may be yet to come waits for it.

A response is all the model gave between two inputs; its tokens come in the `token_count` event after it,
which is repeated, so the running total decides whether anything new was spent. Rollouts of the first
versions hold bare items without an envelope and are read the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from stratalog.interop.build import Builder, items, table, text, usage_of
from stratalog.interop.content import content, parts_of, thought
from stratalog.interop.contract import ImportedSession, Importer, Source, Transcript
from stratalog.interop.records import Record, Tally, parse, records, utc_ms
from stratalog.types import Compaction, Data, Note, System, ToolCall, ToolResult, text_of

AGENT = "codex"
_ENVELOPE = re.compile(rb'"type"\s*:\s*"(session_meta|response_item|turn_context|event_msg)"')
_FIRST = re.compile(rb'\s*\{"id"\s*:[^\n]{0,200}"timestamp"\s*:[^\n]*"instructions"\s*:')
_KINDS = {"user_message": "user", "agent_message": "assistant", "agent_reasoning": "reasoning"}
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_BARE = frozenset((*_CALLS, *_OUTPUTS, "message", "reasoning", "web_search_call"))
_STARTS_ENDS = ("task_started", "task_complete", "turn_started", "turn_complete", "context_compacted")
_REPEATED = re.compile(
    r"(exec_command|patch_apply|mcp_tool_call|web_search|view_image_tool_call|dynamic_tool_call)\w*"
    r"|\w+_delta|item_(started|completed)|raw_response_item|agent_reasoning\w+"
)


class _Item(NamedTuple):
    record: Record
    kind: str
    ts: int | None
    body: dict[str, Any]

    @property
    def role(self) -> str:
        """What an item and the event that repeats it have in common: user, assistant, reasoning or ""."""
        if self.kind == "response_item":
            inner = text(self.body.get("type"))
            return text(self.body.get("role")) if inner == "message" else inner
        return _KINDS.get(text(self.body.get("type")), "") if self.kind == "event_msg" else ""

    @property
    def words(self) -> list[str]:
        if self.kind == "event_msg":
            return [text(self.body.get("message")) or text(self.body.get("text"))]
        if self.role == "reasoning":
            return [text(table(part).get("text")) for part in items(self.body.get("summary"))]
        return [text_of(content(self.body.get("content")))]


def _items(source: Source, tally: Tally) -> Iterator[_Item]:
    for record in records(source, tally):
        value = record.value
        kind, ts = text(value.get("type")), utc_ms(value.get("timestamp"))
        if isinstance(value.get("payload"), dict):
            yield _Item(record, kind, ts, value["payload"])
        elif kind in _BARE:
            yield _Item(record, "response_item", ts, value)
        elif "id" in value and not kind:
            yield _Item(record, "session_meta", ts, value)
        elif value.get("record_type") == "state":
            tally.skip(record, "marks a state of the program")
        else:
            tally.skip(record, "no payload")


def _repeats(found: list[_Item]) -> dict[int, int]:
    """For the place of each event that repeats an item, the place of that item."""
    free: dict[tuple[str, str], list[int]] = {}
    for place, item in enumerate(found):
        if item.kind == "response_item" and item.role:
            for words in item.words:
                free.setdefault((item.role, words), []).append(place)
    events = [place for place, item in enumerate(found) if item.kind == "event_msg" and item.role]
    pairs: dict[int, int] = {}
    for place in events:
        same = free.get((found[place].role, found[place].words[0]))
        if same:
            pairs[place] = same.pop(0)
    taken = set(pairs.values())
    for place in events:
        for near in (place - 1, place + 1):
            beside = 0 <= near < len(found) and found[near].kind == "response_item" and near not in taken
            if place not in pairs and beside and found[near].role == found[place].role:
                pairs[place] = near
                taken.add(near)
    return pairs


def _undecided(found: list[_Item], prompts: set[int]) -> frozenset[int]:
    """The places of the user's items at the file's end of which only what follows tells who said them."""
    place = len(found)
    while place and found[place - 1].kind == "response_item" and found[place - 1].role == "user":
        place -= 1
    return frozenset(range(place, len(found))) - prompts


class _Reader:
    """Puts the items of one rollout."""

    def __init__(self, builder: Builder, tally: Tally, found: list[_Item]) -> None:
        self._builder, self._tally, self._found = builder, tally, found
        self._repeats = _repeats(found)
        self._prompts = {item for event, item in self._repeats.items() if found[event].role == "user"}
        # Before the model's first word the event may be yet to come, so nothing counts as a prompt.
        inputs = ("user", "developer", "system")
        begun = any(item.kind == "response_item" and item.role not in inputs for item in found)
        self._events_tell = bool(self._prompts) or not begun
        told = any(item.kind == "event_msg" for item in found)  # the first versions wrote none
        self._undecided = _undecided(found, self._prompts) if told else frozenset()
        # An event that comes before its item lends it its id: a file cut between the two has the event only.
        self._firsts = {item: event for event, item in self._repeats.items() if event < item}
        self._model = ""
        self._spent: Any = None
        self._begun = False
        self._response = ""

    def put(self, place: int, item: _Item) -> None:
        record, kind, body = item.record, item.kind, item.body
        if place in self._undecided:
            self._tally.skip(record, "who said it is told by what follows, which is not there yet")
            return
        inner = text(body.get("type"))
        first = self._found[self._firsts.get(place, place)]
        self._builder.at(record, first.record.key(), first.ts)
        if kind == "session_meta":
            self._meta(item)
        elif kind == "turn_context":
            self._model = text(body.get("model")) or self._model
            self._builder.at(record, "", item.ts, cwd=body.get("cwd"), model=self._model)
            self._tally.merge(record)
        elif kind == "compacted":
            self._compacted(body)
        elif kind == "response_item" and inner == "message":
            self._message(place, body)
        elif kind == "response_item":
            self._other(record, inner, body)
        elif kind == "event_msg":
            self._event(place, record, inner, body)
        else:
            self._builder.put(Note(kind=kind or "record", data=body))

    def _meta(self, item: _Item) -> None:
        body = item.body
        git = table(body.get("git"))
        if self._begun:
            # The history of another rollout follows, which this one was forked from.
            self._builder.put(Note(kind="session_meta", data=body))
            return
        self._begun = True
        self._tally.merge(item.record)
        self._builder.at(
            item.record,
            text(body.get("id")),
            item.ts,
            cwd=body.get("cwd"),
            git_branch=git.get("branch"),
            git_commit=git.get("commit_hash"),
            version=body.get("cli_version"),
            originator=body.get("originator"),
            forked_from=body.get("forked_from_id"),
        )
        base = body.get("base_instructions")
        words = text(base.get("text")) if isinstance(base, dict) else text(base)
        words = words or text(body.get("instructions"))
        if words:
            self._builder.put(System(content=words))

    def _message(self, place: int, body: dict[str, Any]) -> None:
        role, said = text(body.get("role")), body.get("content")
        if role == "user":
            self._builder.user(content(said), by_program=self._events_tell and place not in self._prompts)
        elif role == "assistant":
            phase = text(body.get("phase"))
            self._give(parts_of(said), {"phase": phase} if phase else None)
        else:
            self._builder.put(System(content=content(said), meta={"role": role}))

    def _other(self, record: Record, inner: str, body: dict[str, Any]) -> None:
        call_id = text(body.get("call_id")) or text(body.get("id")) or f"call-{record.ordinal}"
        if inner == "reasoning":
            summary = "\n\n".join(text(table(part).get("text")) for part in items(body.get("summary")))
            full = text_of(content(body.get("content")))
            seal = text(body.get("encrypted_content"))
            # The id goes with the seal: by both a request sends the item back.
            self._give((thought(full or summary, text(body.get("id")) if seal else "", seal),))
        elif inner in _CALLS:
            given = body.get("arguments", body.get("input", body.get("action")))
            args = parse(given) if inner == "function_call" and isinstance(given, str) else given
            name = text(body.get("name")) or ("local_shell" if inner == "local_shell_call" else "")
            self._give((ToolCall(call_id=call_id, name=name, args=args),))
        elif inner in _OUTPUTS:
            given = body.get("output")
            failed = isinstance(given, dict) and given.get("success") is False
            value = given.get("content", "") if isinstance(given, dict) else given
            self._builder.put(ToolResult(call_id=call_id, content=content(value), error=failed))
        elif inner == "ghost_snapshot":
            self._tally.skip(record, "a backup of files, no part of the conversation")
        else:
            self._give((Data(kind=inner or "item", value=body),))

    def _give(self, pieces: Any, meta: dict[str, Any] | None = None) -> None:
        self._response = self._builder.response()
        self._builder.output(pieces, model=self._model, meta=meta)

    def _event(self, place: int, record: Record, inner: str, body: dict[str, Any]) -> None:
        if place in self._repeats or inner in _STARTS_ENDS:
            self._tally.merge(record, inner)
        elif inner == "token_count":
            self._count(record, table(body.get("info")))
        elif inner == "user_message":
            self._builder.user(text(body.get("message")))
        elif inner == "agent_message":
            self._give(parts_of(text(body.get("message"))))
        elif inner == "agent_reasoning":
            self._give((thought(body.get("text")),))
        elif inner == "turn_aborted":
            self._builder.interrupt(text(body.get("reason")) or "aborted")
            self._tally.merge(record, inner)
        elif _REPEATED.fullmatch(inner):
            self._tally.skip(record, f"{inner} is for the screen; the items say the same")
        else:
            self._builder.put(Note(kind=inner or "event", text=text(body.get("message")), data=body))

    def _count(self, record: Record, info: dict[str, Any]) -> None:
        self._tally.merge(record, "token_count")
        total, last = info.get("total_token_usage"), table(info.get("last_token_usage"))
        if total is None or total == self._spent:
            return
        self._spent = total
        found = usage_of(
            input=last.get("input_tokens"),
            output=last.get("output_tokens"),
            cache_read=last.get("cached_input_tokens"),
            reasoning=last.get("reasoning_output_tokens"),
        )
        if found is not None and self._response:
            self._builder.spent(self._response, found, self._model)

    def _compacted(self, body: dict[str, Any]) -> None:
        summary = text(body.get("message"))
        replaced = len(items(body.get("replacement_history")))
        if summary:
            covers = (self._builder.first_id, self._builder.last_id)
            self._builder.put(Compaction(summary=summary, covers=covers, meta={"replacement": replaced}))
        else:
            # A summary that only the vendor can read replaces nothing here, so history stays in view.
            self._builder.put(Note(kind="compacted", data={"replacement": replaced}))


def _session(source: Source, tally: Tally) -> ImportedSession | None:
    found = list(_items(source, tally))
    ids = (text(item.body.get("id")) for item in found if item.kind == "session_meta")
    named = next(filter(None, ids), "")
    builder = Builder(tally, source, AGENT, named or source.path.stem, named_by_file=not named)
    reader = _Reader(builder, tally, found)
    for place, item in enumerate(found):
        reader.put(place, item)
    return builder.finish()


def _matches(head: bytes, path: Path) -> bool:
    return bool(_ENVELOPE.search(head) or _FIRST.match(head))


def _read(source: Source) -> Transcript:
    tally = Tally("codex", source)
    return tally.transcript([_session(source, tally)])


CODEX = Importer("codex", _matches, _read)
