"""Chats of LlamaIndex, kept in logs: `StratalogChatStore` is the framework's `BaseChatStore`.

    store = StratalogChatStore(memory)
    buffer = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key="ana")

Each key is a session. A message is one entry, and one more for each call that it makes; they are durable when
a method returns, and come back exactly as they were given. What is deleted or replaced is withdrawn by an
entry: no model sees it any more, and the log, its transcripts and a search still have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from llama_index.core.base.llms.types import (
    ChatMessage,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.storage.chat_store.base import BaseChatStore

from stratalog.engine import Problem, Session
from stratalog.engine.core import Stratalog
from stratalog.engine.reading import standing, withdrawal
from stratalog.errors import InvalidInput
from stratalog.interop.content import content_of
from stratalog.interop.exact import as_json, kept, restored
from stratalog.interop.naming import named
from stratalog.interop.records import storable
from stratalog.interop.waiting import Memory, engine_of
from stratalog.keys import session_key
from stratalog.types import (
    AnyEntry,
    Assistant,
    Content,
    Data,
    Note,
    Part,
    Reasoning,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
)

CHANNEL: Final = "llama-index"
_MARK: Final = "llama_index"
_OF_TOOLS: Final = (MessageRole.TOOL, MessageRole.FUNCTION)
_OF_THE_SYSTEM: Final = (MessageRole.SYSTEM, MessageRole.DEVELOPER)


class _Kept(NamedTuple):
    """A message and the entries that it is."""

    message: ChatMessage
    entries: list[AnyEntry]


class StratalogChatStore(BaseChatStore):
    """The chats of one agent in `memory`, which its user opens and closes.

    A key is any text and is kept as it is; `InvalidKey` for an empty one. Several stores, in several
    processes, may have the same keys: what reads and then writes holds the session meanwhile. A message
    comes back as pydantic's JSON of it says; one that has none is `InvalidInput`, and nothing is written.
    """

    _engine: Stratalog = PrivateAttr()
    _agent: str = PrivateAttr()

    def __init__(self, memory: Memory, *, agent: str = "llama_index") -> None:
        super().__init__()
        self._engine = engine_of(memory)
        self._agent = agent

    @classmethod
    def class_name(cls) -> str:
        return "StratalogChatStore"

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Makes these the messages of the key, in one append. Those that it begins with already stay."""
        log = self._log(key)
        with log.held(wait=None) as fence:
            before = self._messages(log)
            same = _common([each.message for each in before], messages)
            gone = [entry for each in before[same:] for entry in each.entries]
            new = [entry for each in messages[same:] for entry in _entries(each)]
            entries = [*_withdrawn(gone), *_opened(log, key), *new]
            if entries:
                log.append(*entries, fence=fence or None)

    def get_messages(self, key: str) -> list[ChatMessage]:
        """The messages of the key; none for a key that there is not."""
        return [each.message for each in self._messages(self._log(key))]

    def add_message(self, key: str, message: ChatMessage) -> None:
        """Appends one message."""
        log = self._log(key)
        log.append(*_opened(log, key), *_entries(message))

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Withdraws all messages and forgets the key; None where there is none. The session stays."""
        log = self._log(key)
        with log.held(wait=None) as fence:
            if not _is_open(log):
                return None
            found = self._messages(log)
            gone = [entry for each in found for entry in each.entries]
            log.append(*_withdrawn(gone), _told(key, is_open=False), fence=fence)
        return [each.message for each in found]

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Withdraws the message at this place, from the end if it is negative; None where there is none."""
        log = self._log(key)
        with log.held(wait=None) as fence:
            found = self._messages(log)
            if not -len(found) <= idx < len(found):
                return None
            log.append(*_withdrawn(found[idx].entries), fence=fence)
        return found[idx].message

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Withdraws the newest message; None where there is none."""
        return self.delete_message(key, -1)

    def get_keys(self) -> list[str]:
        """The keys in the order in which they were first used. Reads the list of sessions, and no log."""
        listed = self._engine.sessions(agent=self._agent, channel=CHANNEL).sessions
        told = [(meta, meta.metadata.get(_MARK)) for meta in sorted(listed, key=lambda each: each.created_at)]
        return [
            each["key"]
            for meta, each in told
            if isinstance(each, dict) and each.get("open") and meta.key == str(self._log(each["key"]).key)
        ]

    def _log(self, key: str) -> Session:
        chat = named("the chat", key)
        return self._engine.session(session_key(self._agent, CHANNEL, chat, self._engine.tenant))

    def _messages(self, log: Session) -> list[_Kept]:
        listed = standing(log.entries())
        found: list[_Kept] = []
        for at, entry in enumerate(listed):
            mark = (entry.meta or {}).get(_MARK)
            if isinstance(mark, dict) and isinstance(mark.get("n"), int):
                entries = listed[at : at + 1 + mark["n"]]
                message = _message(mark, entries)
                if message is None:
                    self._engine.note(Problem("a message has lost entries; left out", key=str(log.key)))
                else:
                    found.append(_Kept(message, entries))
        return found


def _entries(message: ChatMessage) -> list[AnyEntry]:
    """The entries of a message. Raises `InvalidInput`."""
    try:
        dump = as_json(message.model_dump(mode="json"))
    except ValueError as error:
        raise InvalidInput(f"the message cannot be kept, for it has no JSON: {error}") from error
    more = dump["additional_kwargs"]
    said = _content(message, dump["blocks"])
    made: AnyEntry
    if message.role == MessageRole.USER:
        made = User(content=said)
    elif message.role in _OF_THE_SYSTEM:
        made = System(content=said)
    elif message.role in _OF_TOOLS:
        made = ToolResult(
            call_id=str(more.get("tool_call_id") or ""), name=str(more.get("name") or ""), content=said
        )
    else:
        made = Assistant(content=said)
    calls = [
        ToolCall(call_id=block.tool_call_id or "", name=block.tool_name, args=storable(told["tool_kwargs"]))
        for block, told in zip(message.blocks, dump["blocks"], strict=True)
        if isinstance(block, ToolCallBlock)
    ]
    entries = [made, *calls]
    mark = kept(dump, entries) | {"n": len(calls)}
    return [msgspec.structs.replace(made, meta={_MARK: mark}), *calls]


def _content(message: ChatMessage, dumps: Sequence[Any]) -> Content:
    """What a message says, but for the calls that it makes."""
    parts: list[Part] = []
    for block, dump in zip(message.blocks, dumps, strict=True):
        if isinstance(block, TextBlock):
            parts.append(Text(text=block.text))
        elif isinstance(block, ThinkingBlock) and block.content is not None:
            parts.append(Reasoning(text=block.content))
        elif not isinstance(block, ToolCallBlock):
            parts.append(Data(kind=str(dump.get("block_type") or "block"), value=dump))
    return content_of(parts)


def _message(mark: dict[str, Any], entries: list[AnyEntry]) -> ChatMessage | None:
    """The message that entries are; None where some of them are lost."""
    last = entries[0].seq + mark["n"]
    if entries[-1].seq != last or not all(isinstance(each, ToolCall) for each in entries[1:]):
        return None
    try:
        return ChatMessage.model_validate(restored(mark, entries))
    except LookupError:
        return None


def _common(one: Sequence[ChatMessage], other: Sequence[ChatMessage]) -> int:
    """How many messages both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, yours) in pairs if mine != yours), min(len(one), len(other)))


def _withdrawn(entries: Iterable[AnyEntry]) -> list[AnyEntry]:
    gone = list(entries)
    return [withdrawal(gone)] if gone else []


def _is_open(log: Session) -> bool:
    told = log.meta.metadata.get(_MARK)
    return isinstance(told, dict) and bool(told.get("open"))


def _opened(log: Session, key: str) -> list[AnyEntry]:
    return [] if _is_open(log) else [_told(key, is_open=True)]


def _told(key: str, *, is_open: bool) -> Note:
    """Says of a session which key it is, and whether there is that key."""
    return Note(kind="metadata", data={_MARK: {"key": key, "open": is_open}})
