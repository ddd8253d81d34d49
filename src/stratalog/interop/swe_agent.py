"""SWE-agent's trajectories: a `.traj` file with the `history` of messages and the `trajectory` of steps.

The history is what the model saw, and is what is read; a step of the trajectory repeats one of its answers.
Steps that are not in the history, such as the last, are read from the trajectory, and all of them are when
a file has no history.

Where the model calls functions, its calls and their results are in the messages. Elsewhere its command is in
`action`: then the thought becomes the words, the command a call of `command` that is numbered, and the
observation that comes back in the user's place its result. The first message in the user's place is the
task. Demonstrations are marked as injected. The patch that was submitted is a note, how the run ended is in
the session's meta. A trajectory has no times, and tokens only of the whole run, which are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stratalog.errors import ImportFailed
from stratalog.interop.build import Builder, items, table, text
from stratalog.interop.content import content, parts_of
from stratalog.interop.contract import ImportedSession, Importer, Source, Transcript
from stratalog.interop.records import Record, Tally, document, parse
from stratalog.types import Note, Part, System, ToolCall, ToolResult

AGENT = "swe-agent"
_LISTS = re.compile(rb'"(trajectory|history)"\s*:\s*\[')
_FIELDS = re.compile(rb'"(message_type|is_demo|execution_time)"\s*:')
_STEP = re.compile(rb'"observation"\s*:.*"response"\s*:', re.DOTALL)


class _Reader:
    """Puts the messages and steps of one run."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._open: list[str] = []
        self.answers = 0

    def message(self, record: Record, place: int) -> None:
        value = record.value
        role, said, demo = text(value.get("role")), value.get("content"), value.get("is_demo") is True
        self._builder.at(record, "", None, place)
        if role == "assistant" and not demo:
            self.answers += 1
            self._answer(value, said, f"step-{self.answers}")
        elif role == "system":
            self._builder.put(System(content=content(said)))
        elif role == "tool" or (role == "user" and self._open and not demo):
            given = items(value.get("tool_call_ids")) or [value.get("tool_call_id")]
            self._result(text(given[0]), said)
        elif role == "user" or demo:
            if content(said):
                marks = {"kind": "demonstration", "role": role} if demo else None
                self._builder.user(content(said), by_program=demo, meta=marks)
        else:
            self._builder.put(Note(kind=f"message:{role}", data=value))

    def step(self, record: Record, place: int) -> None:
        value = record.value
        self.answers += 1
        self._builder.at(record, f"step-{place}")
        self._answer(value, value.get("response"), f"step-{self.answers}")
        if self._open and value.get("observation") is not None:
            self._result("", value["observation"])

    def _answer(self, value: dict[str, Any], said: Any, numbered: str) -> None:
        calls = list(_calls(value, numbered))
        action = text(value.get("action")).strip()
        if action and not calls:
            calls = [ToolCall(call_id=numbered, name="command", args={"command": action})]
        words = value.get("thought") if isinstance(value.get("thought"), str) and calls else said
        reasoned = [part for block in items(value.get("thinking_blocks")) for part in parts_of(block)]
        given: list[Part | ToolCall] = [*reasoned, *parts_of(words), *calls]
        self._builder.output(given, response=self._builder.response(fresh=True))
        self._open = [call.call_id for call in calls]

    def _result(self, call_id: str, said: Any) -> None:
        answered = call_id or (self._open[0] if self._open else "")
        self._open = [call for call in self._open if call != answered]
        self._builder.put(ToolResult(call_id=answered, content=content(said)))


def _calls(value: dict[str, Any], numbered: str) -> Iterator[ToolCall]:
    for place, call in enumerate(items(value.get("tool_calls"))):
        function = table(table(call).get("function"))
        given = function.get("arguments")
        yield ToolCall(
            call_id=text(table(call).get("id")) or f"{numbered}-{place}",
            name=text(function.get("name")),
            args=parse(given) if isinstance(given, str) else given,
        )


def _session(source: Source, tally: Tally) -> ImportedSession | None:
    value = document(source)
    run = table(value)
    history, steps = run.get("history"), run.get("trajectory")
    if not isinstance(history, list) and not isinstance(steps, list):
        raise ImportFailed(
            "there is no run in this file", path=source.path, hint="expected {history, trajectory, info}"
        )
    holder = tally.record({name: item for name, item in run.items() if name not in ("history", "trajectory")})
    tally.merge(holder, "run")
    builder = Builder(tally, source, AGENT, source.path.stem, named_by_file=True)
    info = table(run.get("info"))
    set_up = parse(text(run.get("replay_config")))
    model = text(table(table(table(set_up).get("agent")).get("model")).get("name"))
    facts = {"model": model, "exit_status": info.get("exit_status"), "environment": run.get("environment")}
    builder.meta |= {name: fact for name, fact in facts.items() if text(fact)}
    reader = _Reader(builder)
    for place, record in enumerate(_elements(history, tally)):
        reader.message(record, place)
    told = reader.answers
    for place, record in enumerate(_elements(steps, tally)):
        if place < told:
            tally.merge(record, "step that the history has")
        else:
            reader.step(record, place)
    patch = text(info.get("submission"))
    if patch:
        builder.at(holder, "submission")
        builder.put(Note(kind="submission", text=patch))
    status = text(info.get("exit_status"))
    if status and not status.startswith("submitted"):
        builder.interrupt(status)
    return builder.finish()


def _elements(values: Any, tally: Tally) -> Iterator[Record]:
    for value in items(values):
        if isinstance(value, dict):
            yield tally.record(value)
        else:
            tally.damage(f"a {type(value).__name__}, not an object")


def _matches(head: bytes, path: Path) -> bool:
    shaped = _FIELDS.search(head) or _STEP.search(head)
    return bool(_LISTS.search(head) and shaped) and path.suffix.lower() != ".jsonl"


def _read(source: Source) -> Transcript:
    tally = Tally("swe_agent", source)
    return tally.transcript([_session(source, tally)])


SWE_AGENT = Importer("swe_agent", _matches, _read)
