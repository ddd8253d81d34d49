"""OpenHands' events: a folder with a file for each, a trajectory that was downloaded, or JSON lines of them.

Two generations are read. In the first an event has an `action` or an `observation`, numbers for ids and the
model's response in `tool_call_metadata`; in the second (the software agent SDK) its `kind` is the name of its
class. A folder `sessions/<id>/events` or `conversations/<id>/events` is one session of that id; a trajectory
is a list of events, or an object with it as `trajectory` or `history`, as evaluations write one on a line.

An agent's action is a call, with what it thought before it as its words, and the observation that names it
is the result. What finishes a task is said rather than called. Condensations are compactions; commands that
a person ran stand in the user's place, marked as injected, and so does what the agent's context added to a
prompt. States of the program are skipped. Screenshots, the trees of web pages and definitions of tools are
not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stratalog.errors import ImportFailed
from stratalog.interop.build import Builder, items, table, text, usage_of
from stratalog.interop.content import content, content_of, parts_of, thought
from stratalog.interop.contract import ImportedSession, Importer, Source, Transcript
from stratalog.interop.records import Record, Tally, document, parse, records, utc_ms
from stratalog.types import Compaction, Image, Note, Part, System, Text, ToolCall, ToolResult

AGENT = "openhands"
_EVENT = re.compile(rb'"(action|observation)"\s*:\s*"')
_FACTS = re.compile(rb'"(args|extras)"\s*:\s*\{')
_SOURCE = re.compile(rb'"source"\s*:\s*"(agent|user|environment)"')
_KIND = re.compile(
    rb'"kind"\s*:\s*"(MessageEvent|ActionEvent|ObservationEvent|SystemPromptEvent|AgentErrorEvent'
    rb'|ConversationStateUpdateEvent|Condensation)"'
)
_LISTS = ("trajectory", "history", "events")
_NAMES = ("instance_id", "conversation_id", "id")
_STATES = ("change_agent_state", "agent_state_changed", "null", "ConversationStateUpdateEvent")
_NOT_KEPT = ("screenshot", "set_of_marks", "dom_object", "axtree_object", "extra_element_properties")


class _Reader:
    """Puts the events of one conversation."""

    def __init__(self, builder: Builder, tally: Tally) -> None:
        self._builder, self._tally = builder, tally
        self._ids: dict[str, str] = {}
        self._calls: dict[str, str] = {}  # of each action, by the id of its event
        self._by_hand: set[str] = set()  # events of commands that a person ran
        self._finished: set[str] = set()  # calls that were put as words
        self._responses: set[str] = set()

    def put(self, record: Record) -> None:
        event = record.value
        given = event.get("id")
        own = str(given) if isinstance(given, str | int) and not isinstance(given, bool) else ""
        key = own if own and own not in self._ids else record.key()
        self._builder.at(record, key, utc_ms(event.get("timestamp")))
        if isinstance(event.get("kind"), str):
            self._second(record, event, event["kind"], own)
        elif isinstance(event.get("observation"), str):
            self._observed(record, event, event["observation"])
        else:
            self._acted(record, event, text(event.get("action")), own)
        self._ids[own or key] = self._builder.last_id

    # The first generation.

    def _acted(self, record: Record, event: dict[str, Any], action: str, own: str) -> None:
        args, agent = table(event.get("args")), event.get("source") != "user"
        words = text(args.get("content"))
        if action in _STATES or action == "recall":
            self._tally.skip(record, f"{action or 'it'} marks a state of the program")
        elif action == "system":
            self._builder.put(System(content=words))
        elif action == "message" and agent:
            self._say(event, (*_thinking(args), *parts_of(words)))
        elif action == "message":
            images = [Image(url=url) for url in items(args.get("image_urls")) if isinstance(url, str)]
            said = content_of((*parts_of(words), *images))
            if said:
                self._builder.user(said)
        elif action == "finish":
            final = text(args.get("final_thought")) or text(table(args.get("outputs")).get("content"))
            self._say(event, (*_thinking(args), *parts_of(final or text(event.get("message")))))
        elif action == "condensation" and text(args.get("summary")):
            self._condense(text(args.get("summary")), items(args.get("forgotten_event_ids")), args)
        elif action == "run" and not agent:
            self._by_hand.add(own)
            self._builder.user(f"Ran `{text(args.get('command'))}`", by_program=True, meta={"kind": "run"})
        elif action and agent and not action.startswith("condensation"):
            self._call(event, action, args, own)
        else:
            self._builder.put(
                Note(kind=action or "event", text=text(event.get("message")), data=args or None)
            )

    def _call(self, event: dict[str, Any], action: str, args: dict[str, Any], own: str) -> None:
        facts = table(event.get("tool_call_metadata"))
        model = table(facts.get("model_response"))
        call_id = text(facts.get("tool_call_id")) or f"event-{own}"
        made = _called(model, call_id)
        rest = {name: item for name, item in args.items() if name not in ("thought", "thought_content")}
        self._calls[own] = call_id
        call = ToolCall(
            call_id=call_id,
            name=text(facts.get("function_name")) or action,
            args=rest if made is None else made,
        )
        self._say(event, (*_thinking(args), call))

    def _say(self, event: dict[str, Any], given: tuple[Part | ToolCall, ...]) -> None:
        model = table(table(event.get("tool_call_metadata")).get("model_response"))
        response = text(model.get("id"))
        if response in self._responses:
            # The words stand with the first of the calls that one response made.
            given = tuple(piece for piece in given if isinstance(piece, ToolCall)) or given
        self._responses.update(filter(None, [response]))
        used = next(
            (
                item
                for item in items(table(event.get("llm_metrics")).get("token_usages"))
                if response and table(item).get("response_id") == response
            ),
            table(model.get("usage")),
        )
        self._builder.output(
            given,
            model=text(model.get("model")),
            response=response,
            usage=usage_of(
                input=used.get("prompt_tokens"),
                output=used.get("completion_tokens"),
                cache_read=used.get("cache_read_tokens"),
                cache_write=used.get("cache_write_tokens"),
            ),
        )

    def _observed(self, record: Record, event: dict[str, Any], kind: str) -> None:
        words, extras = text(event.get("content")), table(event.get("extras"))
        cause = str(event.get("cause"))
        facts = table(event.get("tool_call_metadata"))
        call_id = text(facts.get("tool_call_id")) or self._calls.get(cause, "")
        if kind in _STATES:
            self._tally.skip(record, f"{kind} marks a state of the program")
        elif cause in self._by_hand:
            self._builder.user(words or "(no output)", by_program=True, meta={"kind": kind})
        elif call_id:
            failed = kind in ("error", "user_rejected") or event.get("success") is False
            self._builder.put(ToolResult(call_id=call_id, content=words, error=failed))
        else:
            rest = {name: item for name, item in extras.items() if name not in _NOT_KEPT and item}
            self._builder.put(Note(kind=kind, text=words, data=rest or None))

    # The second generation.

    def _second(self, record: Record, event: dict[str, Any], kind: str, own: str) -> None:
        call_id = text(event.get("tool_call_id"))
        if kind in _STATES:
            self._tally.skip(record, f"{kind} marks a state of the program")
        elif kind == "SystemPromptEvent":
            for field in ("system_prompt", "dynamic_context"):
                prompt = content(event.get(field))
                if prompt:
                    self._builder.put(System(content=prompt))
        elif kind == "MessageEvent":
            self._message(event)
        elif kind == "ActionEvent":
            self._action(event, own)
        elif kind == "ObservationEvent" and call_id in self._finished:
            self._tally.merge(record, "end of the task")
        elif kind == "ObservationEvent":
            seen = table(event.get("observation"))
            failed = seen.get("is_error") is True or bool(seen.get("error"))
            said = content_of((*parts_of(_seen(seen)), *parts_of(event.get("extended_content"))))
            self._builder.put(ToolResult(call_id=call_id, content=said, error=failed))
        elif kind in ("AgentErrorEvent", "UserRejectObservation"):
            why = text(event.get("error")) or text(event.get("rejection_reason"))
            self._builder.put(ToolResult(call_id=call_id, content=why, error=True))
        elif kind == "Condensation" and text(event.get("summary")):
            self._condense(text(event["summary"]), items(event.get("forgotten_event_ids")), {})
        elif kind == "CondensationSummaryEvent":
            self._builder.user(text(event.get("summary")), by_program=True, meta={"kind": kind})
        else:
            rest = {name: item for name, item in event.items() if name not in ("id", "timestamp", "kind")}
            self._builder.put(Note(kind=kind, data=rest or None))

    def _message(self, event: dict[str, Any]) -> None:
        message = table(event.get("llm_message"))
        said = _plain(message.get("content"))
        if event.get("source") == "agent":
            response = text(event.get("llm_response_id"))
            self._builder.output((*_reasoned(message), *parts_of(said)), response=response)
        elif content(said):
            self._builder.user(content(said), by_program=event.get("source") != "user")
        added = content(event.get("extended_content"))
        if added:
            self._builder.user(added, by_program=True, meta={"kind": "context"})

    def _action(self, event: dict[str, Any], own: str) -> None:
        call = table(event.get("tool_call"))
        function = table(call.get("function")) or call
        call_id = text(event.get("tool_call_id")) or text(call.get("id")) or f"event-{own}"
        name = text(event.get("tool_name")) or text(function.get("name"))
        given = function.get("arguments")
        args = parse(given) if isinstance(given, str) else (given or event.get("action"))
        said: list[Part | ToolCall] = [*_reasoned(event), *parts_of(event.get("thought"))]
        final = text(table(event.get("action")).get("message")) or text(table(args).get("message"))
        if name == "finish" and final:
            self._finished.add(call_id)
            said.append(Text(text=final))
        else:
            said.append(ToolCall(call_id=call_id, name=name, args=args))
        self._builder.output(said, response=text(event.get("llm_response_id")))

    def _condense(self, summary: str, forgotten: list[Any], args: dict[str, Any]) -> None:
        ids = [str(item) for item in forgotten]
        if not ids and isinstance(args.get("forgotten_events_start_id"), int):
            ids = [str(args["forgotten_events_start_id"]), str(args.get("forgotten_events_end_id"))]
        known = [self._ids[event] for event in ids if self._ids.get(event)]
        covers = (known[0], known[-1]) if known else (self._builder.first_id, self._builder.last_id)
        self._builder.put(Compaction(summary=summary, covers=covers))


def _thinking(args: dict[str, Any]) -> Iterator[Part]:
    """What the agent thought before it acted: text, or an object that keeps the reasoning apart."""
    given = args.get("thought")
    if isinstance(given, dict):
        if text(given.get("reasoning_content")):
            yield thought(given["reasoning_content"])
        given = given.get("text")
    yield from parts_of(text(given))


def _reasoned(message: dict[str, Any]) -> Iterator[Part]:
    blocks = [part for item in items(message.get("thinking_blocks")) for part in parts_of(item)]
    if blocks:
        yield from blocks
    elif text(message.get("reasoning_content")):
        yield thought(message["reasoning_content"])


def _called(response: dict[str, Any], call_id: str) -> Any:
    """The arguments of the call as the model gave them; None when the event does not have them."""
    for choice in items(response.get("choices")):
        for call in items(table(table(choice).get("message")).get("tool_calls")):
            if table(call).get("id") == call_id:
                given = table(table(call).get("function")).get("arguments")
                return parse(given) if isinstance(given, str) else given
    return None


def _plain(value: Any) -> Any:
    """Content with the pictures of a block as blocks of their own."""
    done: list[Any] = []
    for block in value if isinstance(value, list) else [value]:
        urls = items(table(block).get("image_urls"))
        done += [{"type": "image", "url": url} for url in urls] if urls else [block]
    return done


def _seen(observation: dict[str, Any]) -> Any:
    """The content of a second observation; of tools without one, all that they say."""
    for field in ("content", "output"):
        if observation.get(field) not in (None, "", []):
            return _plain(observation[field])
    rest = {name: item for name, item in observation.items() if name not in _NOT_KEPT and item is not None}
    return {"type": text(rest.get("kind")) or "observation", **rest} if rest else ""


def _conversations(source: Source, tally: Tally) -> Iterator[tuple[str, list[Record]]]:
    """The events of each conversation, under the name that the source has for it."""
    if source.path.suffix.lower() in (".jsonl", "") or source.path.name == "events":
        loose: list[Record] = []
        for record in records(source, tally):
            held = _held(record.value)
            if held is None:
                loose.append(record)
            else:
                tally.merge(record, "conversation")
                yield _named(record.value), _elements(held, tally, record)
        yield "", loose
        return
    value = document(source)
    held = value if isinstance(value, list) else _held(table(value))
    if held is None:
        if not isinstance(value, dict):
            raise ImportFailed(
                "there are no events in this file",
                path=source.path,
                hint="expected a list of events, or an object with `trajectory` or `history`",
            )
        held = [value]
    yield _named(table(value)), _elements(held, tally, None)


def _held(value: dict[str, Any]) -> list[Any] | None:
    return next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)


def _named(value: dict[str, Any]) -> str:
    if _held(value) is None:
        return ""
    return next((text(value.get(name)) for name in _NAMES if text(value.get(name))), "")


def _elements(values: list[Any], tally: Tally, holder: Record | None) -> list[Record]:
    line, offset = (holder.line, holder.offset) if holder else (0, 0)
    found: list[Record] = []
    for value in values:
        # Trajectories of the first versions pair each action with its observation.
        for event in value if isinstance(value, list) else [value]:
            if isinstance(event, dict):
                found.append(tally.record(event, line, offset))
            else:
                tally.damage(f"a {type(event).__name__}, not an object", line, offset)
    return found


def _sessions(source: Source, tally: Tally) -> Iterator[ImportedSession | None]:
    folder = source.path.parent.name if source.path.name == "events" else ""
    used: set[str] = set()
    for number, (named, found) in enumerate(_conversations(source, tally), 1):
        if not found:
            continue
        own = named if named not in used else ""
        name = own or folder or (source.path.stem if number == 1 else f"{source.path.stem}:{number}")
        used.add(name)
        builder = Builder(tally, source, AGENT, name, named_by_file=not (own or folder))
        reader = _Reader(builder, tally)
        for record in found:
            reader.put(record)
        yield builder.finish()


def _matches(head: bytes, path: Path) -> bool:
    first = _EVENT.search(head) and _SOURCE.search(head) and _FACTS.search(head)
    return bool(first or _KIND.search(head))


def _read(source: Source) -> Transcript:
    tally = Tally("openhands", source)
    return tally.transcript(_sessions(source, tally))


OPENHANDS = Importer("openhands", _matches, _read)
