"""ChatGPT's conversations: a tree of messages in `mapping`, one conversation or a list of them in a file.

The main line is the chain that ends at `current_node`; answers that were regenerated and prompts that were
edited are branches, each a session `<conversation>:branch-<first message>`. All output between two inputs
is one response.

A message to a recipient other than `all` is a call of that tool and has no id, so the call takes the
message's id, and a `tool` message answers the newest open call of its name. Custom instructions stand in
the user's place and are marked as injected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stratalog.interop.build import Builder, chat_id, items, table, text
from stratalog.interop.content import content_of, parts_of, thought
from stratalog.interop.contract import ImportedSession, Importer, Source, Transcript
from stratalog.interop.records import Record, Tally, document, parse, utc_ms
from stratalog.interop.tree import unravel
from stratalog.types import Data, Note, Part, System, Text, ToolCall, ToolResult

AGENT = "chatgpt"
_INSTRUCTIONS = ("user_profile", "user_instructions", "model_set_context")
_MAPPING = re.compile(rb'"mapping"\s*:\s*\{')


class _Node(NamedTuple):
    record: Record
    key: str
    message: dict[str, Any]


def _parts(body: dict[str, Any]) -> tuple[Part, ...]:
    """The parts of a message's content, whichever of ChatGPT's content types it has."""
    kind = text(body.get("content_type"))
    if kind == "thoughts":
        found = [table(item) for item in items(body.get("thoughts"))]
        pairs = [(text(item.get("summary")), text(item.get("content"))) for item in found]
        return tuple(thought("\n".join(filter(None, pair))) for pair in pairs)
    if kind in ("text", "multimodal_text"):
        return tuple(
            Data(kind=text(item.get("content_type")) or "part", value=item)
            if isinstance(item, dict) and "type" not in item
            else part
            for item in items(body.get("parts"))
            for part in parts_of(item)
        )
    words = text(body.get("text")) or text(body.get("result"))
    if words:
        return (Text(text=words),)
    return (Data(kind=kind or "content", value=body),) if body else ()


def _put(builder: Builder, node: _Node, open_calls: list[tuple[str, str]]) -> None:
    message = node.message
    author, body, facts = (table(message.get(field)) for field in ("author", "content", "metadata"))
    role, recipient = text(author.get("role")), text(message.get("recipient")) or "all"
    builder.at(node.record, node.key, utc_ms(message.get("create_time")))
    parts = _parts(body)
    kind = text(body.get("content_type"))
    if not parts:
        return
    if kind == "reasoning_recap":
        builder.put(Note(kind=kind, text=text(body.get("content"))))
    elif kind in ("user_editable_context", "model_editable_context"):
        given = [text(body.get(field)) for field in _INSTRUCTIONS]
        builder.user("\n\n".join(filter(None, given)), by_program=True, meta={"kind": kind})
    elif role == "user":
        builder.user(content_of(parts))
    elif role == "assistant" and recipient != "all":
        words = "\n".join(part.text for part in parts if isinstance(part, Text))
        open_calls.append((recipient, node.key))
        call = ToolCall(call_id=node.key, name=recipient, args=parse(words))
        builder.output((call,), model=text(facts.get("model_slug")))
    elif role == "assistant":
        builder.output(parts, model=text(facts.get("model_slug")))
    elif role == "tool":
        name = text(author.get("name"))
        call_id = _answered(open_calls, name) or node.key
        builder.put(ToolResult(call_id=call_id, name=name, content=content_of(parts)))
    elif role == "system":
        builder.put(System(content=content_of(parts)))
    else:
        builder.put(Note(kind=f"message:{role}", data=message))


def _answered(open_calls: list[tuple[str, str]], name: str) -> str:
    """The newest open call of the tool, which is open no more. `a.b` may be answered in the name of `a`."""
    for place in range(len(open_calls) - 1, -1, -1):
        called, call_id = open_calls[place]
        if called == name or called.partition(".")[0] == name.partition(".")[0]:
            del open_calls[place]
            return call_id
    return ""


def _nodes(mapping: dict[str, Any], tally: Tally) -> tuple[list[_Node], list[int | None]]:
    """The nodes with parents before their children, and for each its parent's place.

    The order in `mapping` is none, so children are walked in the order their parent lists them.
    """
    known = {key: value for key, value in mapping.items() if isinstance(value, dict)}
    for key in mapping.keys() - known.keys():
        tally.damage(f"the node {key!a} is a {type(mapping[key]).__name__}, not an object")
    roots = [key for key, value in known.items() if text(value.get("parent")) not in known]
    nodes: list[_Node] = []
    parents: list[int | None] = []
    places: dict[str, int] = {}
    # The whole mapping follows the roots, so that nodes in a circle, which no root reaches, are kept too.
    todo = [*reversed(known), *reversed(roots)]
    while todo:
        key = todo.pop()
        if key in places:
            continue
        value = known[key]
        places[key] = len(nodes)
        parents.append(places.get(text(value.get("parent"))))
        nodes.append(_Node(tally.record(value), key, table(value.get("message"))))
        children = [child for child in items(value.get("children")) if isinstance(child, str)]
        todo += [child for child in reversed(children) if child in known]
    return nodes, parents


def _sessions(source: Source, tally: Tally) -> Iterator[ImportedSession | None]:
    value = document(source)
    talks = value if isinstance(value, list) else [value]
    for number, talk in enumerate(talks, 1):
        if isinstance(talk, dict) and isinstance(talk.get("mapping"), dict):
            stem = source.path.stem if len(talks) == 1 else f"{source.path.stem}:{number}"
            yield from _conversation(source, tally, talk, stem)
        else:
            tally.damage("not a conversation with a mapping")


def _conversation(
    source: Source, tally: Tally, talk: dict[str, Any], stem: str
) -> Iterator[ImportedSession | None]:
    holder = tally.record({name: item for name, item in talk.items() if name != "mapping"})
    tally.merge(holder, "conversation")
    named = text(talk.get("conversation_id")) or text(talk.get("id"))
    session = named or stem
    base = chat_id(session)
    nodes, parents = _nodes(talk["mapping"], tally)
    current = text(talk.get("current_node"))

    def leaf(members: Sequence[int]) -> int:
        named = [place for place in members if nodes[place].key == current]
        return named[0] if named else members[-1]

    made: dict[int, str] = {}
    for number, line in enumerate(unravel(parents, leaf)):
        first = nodes[line.members[0]]
        chat = f"{base}:branch-{chat_id(first.key)}" if number else ""
        builder = Builder(tally, source, AGENT, session, chat, named_by_file=not named)
        model, gizmo = text(talk.get("default_model_slug")), text(talk.get("gizmo_id"))
        builder.meta |= {name: fact for name, fact in (("model", model), ("gizmo", gizmo)) if fact}
        if number:
            builder.branches(base, made.get(line.fork, "") if line.fork is not None else "")
            tally.note(f"{base}: the message {first.key} begins a branch, kept as {chat}")
        else:
            builder.at(holder, "title", utc_ms(talk.get("create_time")))
            builder.title(text(talk.get("title")))
        open_calls: list[tuple[str, str]] = []
        for place in line.members:
            if not nodes[place].message:
                tally.merge(nodes[place].record, "node without a message")
                continue
            _put(builder, nodes[place], open_calls)
            made[place] = builder.last_id
        yield builder.finish()


def _matches(head: bytes, path: Path) -> bool:
    return _MAPPING.search(head) is not None and path.suffix.lower() != ".jsonl"


def _read(source: Source) -> Transcript:
    tally = Tally("chatgpt", source)
    return tally.transcript(_sessions(source, tally))


CHATGPT = Importer("chatgpt", _matches, _read)
