"""ShareGPT's form of conversations: `{"conversations": [{"from", "value"}]}`, as JSON lines or in a list.

Data sets for training are in it, and what Hermes saves as trajectories. `human` and `user` are prompts, `gpt`
and its like replies, `system` is the system's; tools answer as `tool`, `observation` or `function_response`,
and call as `function_call` or inside a reply.

In a reply, `<think>` is reasoning and `<tool_call>` a call, in a tool's turn `<tool_response>` is a result,
as Hermes models write them. A result that names its call gives the call its id; else calls and results go
together in their order. Each conversation is a session, named by its id, else by the file and its number in
it. Definitions of tools are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from stratalog.interop.build import Builder, items, text
from stratalog.interop.content import content, parts_of, thought
from stratalog.interop.contract import ImportedSession, Importer, Source, Transcript
from stratalog.interop.records import Record, Tally, document, parse, records, utc_ms
from stratalog.types import Content, Data, Note, Part, System, Text, ToolCall, ToolResult

AGENT = "sharegpt"
_SHAPE = re.compile(rb'"conversations?"\s*:\s*\[')
_TURN = re.compile(rb'"from"\s*:\s*"(system|human|user|gpt|assistant|chatgpt|model|bing|bard)"')
_THINK = re.compile(r"\s*<think>\s*(.*?)\s*(?:</think>\s*|\Z)", re.DOTALL)
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
_RESPONSE = re.compile(r"<tool_response>\s*(.*?)\s*(?:</tool_response>|\Z)", re.DOTALL)
_NAMES = ("id", "conversation_id", "session_id")
_PEOPLE = ("human", "user")
_MODELS = ("gpt", "assistant", "chatgpt", "model", "bing", "bard")
_TOOLS = ("tool", "observation", "function_response", "function", "ipython")
_CALLS = ("function_call", "tool_call")
_FACTS = ("model", "completed", "partial", "source", "prompt_index")


class _Answer(NamedTuple):
    """What a tool answered; `call_id` and `name` as far as it says them."""

    call_id: str
    name: str
    content: Content


def _answers(value: Any) -> Iterator[_Answer]:
    words = text(value)
    if not words.lstrip().startswith("<tool_response>"):
        yield _Answer("", "", words if isinstance(value, str) else content(value))
        return
    for found in _RESPONSE.finditer(words):
        told = parse(found[1])
        if isinstance(told, dict) and "content" in told:
            said = told["content"]
            plain = said if isinstance(said, str) else (Data(kind="response", value=said),)
            yield _Answer(text(told.get("tool_call_id")), text(told.get("name")), plain)
        else:
            yield _Answer("", "", found[1])


def _pieces(value: Any, bare: bool) -> Iterator[Part | dict[str, Any]]:
    """A reply in order: reasoning, words, and calls as the objects that they are."""
    if not isinstance(value, str):
        yield from parts_of(value)
        return
    found = _THINK.match(value)
    if found:
        if found[1]:
            yield thought(found[1])
        value = value[found.end() :]
    if bare and not value.lstrip().startswith("<tool_call>"):
        told = parse(value)
        yield told if isinstance(told, dict) else {"arguments": value}
        return
    at = 0
    for found in _CALL.finditer(value):
        told = parse(found[1])
        if not isinstance(told, dict) or "name" not in told:
            continue  # the words speak of such a tag
        if value[at : found.start()].strip():
            yield Text(text=value[at : found.start()].strip())
        yield told
        at = found.end()
    if value[at:].strip():
        yield Text(text=value[at:].strip() if at else value)


class _Talk:
    """Puts the turns of one conversation."""

    def __init__(self, builder: Builder, turns: list[Record], began: int | None, model: str) -> None:
        self._builder, self._turns, self._began, self._model = builder, turns, began, model
        self._open: dict[str, None] = {}  # calls without a result, the oldest first

    def put(self, place: int) -> None:
        turn = self._turns[place]
        who, value = text(turn.value.get("from")) or text(turn.value.get("role")), turn.value.get("value")
        ts = utc_ms(turn.value.get("timestamp")) or self._began
        self._builder.at(turn, text(turn.value.get("id")), ts, place)
        if who in _PEOPLE:
            if content(value):
                self._builder.user(content(value))
        elif who == "system":
            self._builder.put(System(content=content(value)))
        elif who in _MODELS or who in _CALLS:
            self._reply(place, value, who in _CALLS)
        elif who in _TOOLS:
            for answer in _answers(value):
                call_id = answer.call_id or next(iter(self._open), f"turn-{place}")
                self._open.pop(call_id, None)
                self._builder.put(ToolResult(call_id=call_id, name=answer.name, content=answer.content))
        else:
            self._builder.put(Note(kind=f"turn:{who}", data=turn.value))

    def _reply(self, place: int, value: Any, bare: bool) -> None:
        told = self._told(place)
        given: list[Part | ToolCall] = []
        calls = 0
        for piece in _pieces(value, bare):
            if isinstance(piece, dict):
                own = told[calls] if calls < len(told) else ""
                call = _call(own or f"turn-{place}-{calls}", piece)
                self._open[call.call_id] = None
                given.append(call)
                calls += 1
            else:
                given.append(piece)
        self._builder.output(given, model=self._model, response=self._builder.response(fresh=True))

    def _told(self, place: int) -> list[str]:
        """The ids of the calls as the results after the reply say them."""
        ids: list[str] = []
        for turn in self._turns[place + 1 :]:
            if turn.value.get("from") not in _TOOLS:
                break
            ids += [answer.call_id for answer in _answers(turn.value.get("value"))]
        return ids


def _call(call_id: str, told: dict[str, Any]) -> ToolCall:
    args = told.get("arguments", told.get("parameters"))
    return ToolCall(
        call_id=call_id, name=text(told.get("name")), args=parse(args) if isinstance(args, str) else args
    )


def _holders(source: Source, tally: Tally) -> Iterator[tuple[Record, list[Any]]]:
    if source.path.suffix.lower() == ".json":
        value = document(source)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                held = _held(item)
                yield tally.record({name: it for name, it in item.items() if it is not held}), items(held)
            else:
                tally.damage(f"a {type(item).__name__}, not an object")
        return
    for record in records(source, tally):
        yield record, items(_held(record.value))


def _held(value: dict[str, Any]) -> Any:
    given = value.get("conversations")
    return given if isinstance(given, list) else value.get("conversation")


def _sessions(source: Source, tally: Tally) -> Iterator[ImportedSession | None]:
    used: set[str] = set()
    for number, (holder, values) in enumerate(_holders(source, tally), 1):
        if not values:
            tally.skip(holder, "no list of conversations")
            continue
        tally.merge(holder, "conversation")
        value = holder.value
        own = next((text(value.get(name)) for name in _NAMES if text(value.get(name))), "")
        own = own if own not in used else ""
        name = own or (source.path.stem if number == 1 else f"{source.path.stem}:{number}")
        used.add(name)
        builder = Builder(tally, source, AGENT, name, named_by_file=not own)
        builder.meta |= {fact: value[fact] for fact in _FACTS if value.get(fact) not in (None, "")}
        began = utc_ms(value.get("timestamp")) or utc_ms(value.get("created_at"))
        builder.at(holder, "head", began)
        if text(value.get("system")):
            builder.put(System(content=value["system"]))
        builder.title(text(value.get("title")))
        if value.get("tools"):
            tally.note(f"{builder.chat}: definitions of tools are not kept")
        turns = [tally.record(turn, holder.line, holder.offset) for turn in values if isinstance(turn, dict)]
        for turn in values:
            if not isinstance(turn, dict):
                tally.damage(f"a {type(turn).__name__}, not an object", holder.line, holder.offset)
        talk = _Talk(builder, turns, began, text(value.get("model")))
        for place in range(len(turns)):
            talk.put(place)
        yield builder.finish()


def _matches(head: bytes, path: Path) -> bool:
    return _SHAPE.search(head) is not None and _TURN.search(head) is not None


def _read(source: Source) -> Transcript:
    tally = Tally("sharegpt", source)
    return tally.transcript(_sessions(source, tally))


SHAREGPT = Importer("sharegpt", _matches, _read)
