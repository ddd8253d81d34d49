"""A session that follows a thread: the messages of a graph's state, in the log, each once by its id.

What is said is appended when a checkpoint first has it. What a graph edits or removes later stays as it was.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Sequence
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from stratalog.engine.core import Stratalog
from stratalog.engine.graphs import Checkpoints
from stratalog.errors import InvalidKey
from stratalog.interop.content import content
from stratalog.keys import SessionKey, session_key
from stratalog.types import AnyEntry, Assistant, Note, System, ToolCall, ToolResult, Usage, User

CHANNEL: Final = "langgraph"
_META: Final = "langgraph"  # in an entry's meta: the id of its message


class Follower:
    """Appends the messages of threads to the sessions of one agent."""

    def __init__(self, memory: Stratalog, tables: Checkpoints, agent: str) -> None:
        session_key(agent, CHANNEL, "any", memory.tenant)  # raises for an agent that cannot be called so
        self._memory = memory
        self._tables = tables
        self._agent = agent

    def follow(self, thread: str, values: Sequence[Any], users: Collection[str]) -> None:
        """Appends those of the messages that the session does not have yet, and which have an id. The users
        become those of a session that is new."""
        said = {
            each.id: each
            for each in values
            if isinstance(each, BaseMessage) and each.id and not isinstance(each, RemoveMessage)
        }
        if not said or not self._tables.unmirrored(thread, said):
            return
        session = self._memory.session(session_of(self._memory.tenant, self._agent, thread))
        with self._tables.mirroring(thread, str(session.key)) as mirror:
            if session.end > mirror.seq:  # by others, or by who was killed before it was noted
                had = [entry.meta or {} for entry in session.entries(after=mirror.seq)]
                mirror.note({str(meta[_META]) for meta in had if _META in meta}, session.end)
            new = [id for id in said if not mirror.has(id)]
            if new:
                if users and not session.end:  # before what they say, so that no crash leaves it nobody's
                    session.set_metadata(users=sorted(users))
                written = session.append(*[entry for id in new for entry in entries_of(said[id])])
                mirror.note(new, written[-1].seq)


def session_of(tenant: str, agent: str, thread: str) -> SessionKey:
    """The key of the session that follows a thread. One whose id no chat can have goes by its digest."""
    try:
        return session_key(agent, CHANNEL, thread, tenant)
    except InvalidKey:
        digest = hashlib.sha256(thread.encode("utf-8", "surrogatepass")).hexdigest()
        return session_key(agent, CHANNEL, f"thread-{digest[:32]}", tenant)


def entries_of(message: BaseMessage) -> list[AnyEntry]:
    """What a message says, as entries. Of a class that has none here, it is a note. What is no JSON in it is
    told in the nearest that is, for the log must not stop a graph."""
    meta: dict[str, Any] = {_META: message.id}
    said = content(_json(message.content))
    match message:
        case HumanMessage():
            return [User(content=said, meta=meta)]
        case SystemMessage():
            return [System(content=said, meta=meta)]
        case AIMessage():
            model = message.response_metadata.get("model_name")
            reply = Assistant(
                content=said,
                model=model if isinstance(model, str) else "",
                response=message.id or "",
                usage=_usage(message),
                meta=meta,
            )
            calls = [
                ToolCall(
                    call_id=call["id"] or "",
                    name=call["name"],
                    args=_json(call["args"]),
                    response=message.id or "",
                    meta=meta,
                )
                for call in message.tool_calls
            ]
            return [reply, *calls] if said or not calls else list(calls)
        case ToolMessage():
            return [
                ToolResult(
                    call_id=message.tool_call_id,
                    name=message.name or "",
                    content=said,
                    error=message.status == "error",
                    meta=meta,
                )
            ]
        case _:
            return [Note(kind=CHANNEL, text=str(message.text), data={"type": message.type}, meta=meta)]


def _json(value: Any) -> Any:
    """Bytes in base64, as they stand in other messages, and text for all else that is none."""
    if isinstance(value, str):
        return value
    return json.loads(json.dumps(value, default=_told), parse_constant=str)


def _told(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, (bytes, bytearray)) else str(value)


def _usage(message: AIMessage) -> Usage | None:
    used = message.usage_metadata
    return Usage(input=used["input_tokens"], output=used["output_tokens"]) if used else None
