"""A chat completion from its chunks: OpenAI's, and what servers that are compatible with it make of them.

Seen in the field and borne: usage in a chunk of its own or never; calls without an index, all with the
index 0, or with the id and name repeated or empty in each piece; arguments as an object; reasoning as
`reasoning_content` or `reasoning`, or in tags at the beginning of the text (see `tagged`; in the message it
is `reasoning_content`); content that is null or a list of parts; no finish reason; a whole reply to a request
to stream.

A reply that ends in order but gives no reason is taken when the end of its bytes was marked (so nothing was
cut) and its calls are whole; its stop is then `other`, or `tools`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from stratalog.ids import new_ulid
from stratalog.models.contract import Completed, ReasoningDelta, TextDelta
from stratalog.models.faults import Faulted, told
from stratalog.models.replies.contract import Delta, cut, is_json, require, table, text, usage
from stratalog.models.replies.tagged import Tagged

Stop = Literal["end", "tools", "length", "refusal", "other"]

_STOPS: dict[str, Stop] = {
    "stop": "end",
    "eos": "end",
    "end_turn": "end",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
}
_REASONING = ("reasoning_content", "reasoning")


class _Call:
    """A call under way: its JSON without the arguments, and the arguments as they were written."""

    def __init__(self) -> None:
        self.json: dict[str, Any] = {}
        self.name = ""
        self.arguments = ""

    def add(self, piece: dict[str, Any]) -> None:
        function = table(piece.get("function"))
        given = function.get("arguments")
        name = text(function.get("name"))
        if name != self.name and not self.arguments:  # repeated by some servers, sent in pieces by others
            self.name += name
        self.arguments += given if isinstance(given, str) else _dumped(given)
        for key, value in piece.items():
            if key not in ("index", "function", "type") and value not in (None, ""):
                self.json[key] = value

    def message(self) -> dict[str, Any]:
        rest = {key: value for key, value in self.json.items() if key != "id"}
        function = {"name": self.name, "arguments": self.arguments}
        return {
            "id": self.json.get("id") or f"call_{new_ulid()}",
            "type": "function",
            "function": function,
            **rest,
        }


class ChatReply:
    """See `replies.contract.Reply`."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._id = ""
        self._tagged = Tagged()
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._finish = ""
        self._usage: dict[str, Any] = {}

    def take(self, data: object) -> Iterator[Delta]:
        chunk = table(data)
        if chunk.get("error"):
            raise Faulted(told(chunk["error"]))
        self._id = text(chunk.get("id")) or self._id
        self._model = text(chunk.get("model")) or self._model
        self._count(chunk.get("usage"))
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if table(choice).get("index") in (0, None):
                self._finish = text(table(choice).get("finish_reason")) or self._finish
                self._count(table(choice).get("usage"))
                yield from self._delta(table(table(choice).get("delta")))

    def whole(self, data: object) -> Iterator[Delta]:
        reply = table(data)
        choices = reply.get("choices")
        if isinstance(choices, list):
            moved = [{**table(choice), "delta": table(choice).get("message")} for choice in choices]
            reply = {**reply, "choices": moved}
        yield from self.take(reply)

    def rest(self) -> Iterator[Delta]:
        yield from self._kept(self._tagged.rest())

    def completed(self, *, framed: bool) -> Completed:
        for _ in self.rest():
            pass  # kept, if nobody asked for it
        words, refusal = "".join(self._text), "".join(self._refusal)
        if not self._finish and not self._ended_in_order(framed):
            raise cut()
        stop = _STOPS.get(self._finish, "other")
        if refusal:
            stop = "refusal"
        elif self._calls and stop in ("end", "other"):
            stop = "tools"
        require(text=words + refusal, calls=bool(self._calls), stop=stop, reason=self._finish)
        message: dict[str, Any] = {"role": "assistant", "content": words or None}
        if refusal:
            message["refusal"] = refusal
        message.update({name: "".join(pieces) for name, pieces in self._reasoning.items()})
        message.update(self._lists)
        if self._calls:
            message["tool_calls"] = [call.message() for call in self._calls]
        counted = self._usage
        asked, made = (
            table(counted.get("prompt_tokens_details")),
            table(counted.get("completion_tokens_details")),
        )
        return Completed(
            message=message,
            stop=stop,
            model=self._model,
            response_id=self._id,
            usage=usage(
                input=counted.get("prompt_tokens"),
                output=counted.get("completion_tokens"),
                cache_read=asked.get("cached_tokens") or counted.get("prompt_cache_hit_tokens"),
                cache_write=asked.get("cache_write_tokens"),
                reasoning=made.get("reasoning_tokens"),
            ),
        )

    def _ended_in_order(self, framed: bool) -> bool:
        """Whether a reply that gives no reason for its end may be taken. One without anything at all was
        cut."""
        begun = bool(self._text or self._refusal or self._calls)
        return framed and begun and all(is_json(call.arguments or "{}") for call in self._calls)

    def _count(self, counted: object) -> None:
        if any(table(counted).values()):
            self._usage = table(counted)

    def _delta(self, delta: dict[str, Any]) -> Iterator[Delta]:
        for name in _REASONING:
            yield from self._thought(name, text(delta.get(name)))
        content = delta.get("content")
        if isinstance(content, list):
            yield from self._parts(content)
        elif text(content):
            yield from self._kept(self._tagged.take(text(content)))
        if text(delta.get("refusal")):
            self._refusal.append(delta["refusal"])
            yield TextDelta(delta["refusal"])
        for name in ("reasoning_details", "annotations", "images"):
            if isinstance(delta.get(name), list) and delta[name]:
                self._lists.setdefault(name, []).extend(delta[name])
        pieces = delta.get("tool_calls")
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                self._call(piece).add(piece)

    def _thought(self, name: str, thought: str) -> Iterator[Delta]:
        if not thought:
            return
        self._tagged.text_only()
        self._reasoning.setdefault(name, []).append(thought)
        # Some servers send the same thought under both names; it is kept under both and shown once.
        if name == next(iter(self._reasoning)):
            yield ReasoningDelta(thought)

    def _parts(self, parts: list[Any]) -> Iterator[Delta]:
        for part in map(table, parts):
            inner = part.get("thinking")
            if isinstance(inner, list):
                for thought in inner:
                    yield from self._thought("reasoning_content", text(table(thought).get("text")))
            elif text(part.get("text")):
                yield from self._kept(self._tagged.take(part["text"]))

    def _kept(self, deltas: Iterator[Delta]) -> Iterator[Delta]:
        """The deltas of the text, put where they belong in the message."""
        for delta in deltas:
            if isinstance(delta, TextDelta):
                self._text.append(delta.text)
            else:
                self._reasoning.setdefault(_REASONING[0], []).append(delta.text)
            yield delta

    def _call(self, piece: dict[str, Any]) -> _Call:
        """The call that the piece belongs to: by its index unless id or name says that another one began,
        else by its id, else the last."""
        index, call_id = piece.get("index"), text(piece.get("id"))
        name = text(table(piece.get("function")).get("name"))
        if isinstance(index, int):
            found = self._by_index.get(index)
        else:
            by_id = (call for call in self._calls if call_id and call.json.get("id") == call_id)
            found = next(by_id, None if call_id or not self._calls else self._calls[-1])
        if found is None or self._another(found, call_id, name, indexed=isinstance(index, int)):
            found = _Call()
            self._calls.append(found)
        if isinstance(index, int):
            self._by_index[index] = found
        return found

    @staticmethod
    def _another(call: _Call, call_id: str, name: str, *, indexed: bool) -> bool:
        known = call.json.get("id")
        if call_id and known:
            return bool(call_id != known)
        if not name or not call.name:
            return False
        # Without ids, a name after whole arguments begins the next call, even of the same tool.
        if call.arguments:
            return is_json(call.arguments)
        return not indexed and name != call.name


def _dumped(arguments: Any) -> str:
    return "" if arguments is None else msgspec.json.encode(arguments).decode()
