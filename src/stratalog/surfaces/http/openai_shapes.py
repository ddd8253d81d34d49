"""OpenAI's chat completions as they stand on the wire: what is sent, and what its clients are answered.

A request is checked here: what changes the reply and cannot be done is refused, in OpenAI's shape; what does
not is left out, and told of in a header.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from stratalog.engine.completing import Answer, Asked, Tool
from stratalog.engine.reconciling import Sent, check_sent, said_of
from stratalog.engine.running import ELSEWHERE
from stratalog.engine.tuning import MOST, OPTIONS, Options
from stratalog.errors import InvalidInput
from stratalog.ids import new_ulid
from stratalog.surfaces.http.errors import Problem
from stratalog.types import (
    AnyEntry,
    Assistant,
    Audio,
    Content,
    File,
    Image,
    Part,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    User,
)

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DATA: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,", re.ASCII)
_SOUNDS: Final = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_PLACE: Final = re.compile(r" - at `\$\.?([^`]*)`$")


class TextPart(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    text: str


class RefusalPart(msgspec.Struct, frozen=True, tag_field="type", tag="refusal"):
    refusal: str


class ImageUrl(msgspec.Struct, frozen=True):
    url: str


class ImagePart(msgspec.Struct, frozen=True, tag_field="type", tag="image_url"):
    image_url: ImageUrl


class Sound(msgspec.Struct, frozen=True):
    data: str
    format: Literal["wav", "mp3"]


class SoundPart(msgspec.Struct, frozen=True, tag_field="type", tag="input_audio"):
    input_audio: Sound


class Filed(msgspec.Struct, frozen=True):
    file_data: str
    filename: str = ""


class FilePart(msgspec.Struct, frozen=True, tag_field="type", tag="file"):
    file: Filed


AnyPart: TypeAlias = TextPart | RefusalPart | ImagePart | SoundPart | FilePart
Words: TypeAlias = str | list[TextPart]


class SystemMessage(msgspec.Struct, frozen=True, tag_field="role", tag="system"):
    content: Words


class DeveloperMessage(msgspec.Struct, frozen=True, tag_field="role", tag="developer"):
    content: Words


class UserMessage(msgspec.Struct, frozen=True, tag_field="role", tag="user"):
    content: str | list[AnyPart]
    name: str | None = None


class Function(msgspec.Struct, frozen=True):
    name: str
    arguments: str


class CallMade(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    function: Function


class AssistantMessage(msgspec.Struct, frozen=True, tag_field="role", tag="assistant"):
    content: str | list[TextPart | RefusalPart] | None = None
    refusal: str | None = None
    tool_calls: list[CallMade] | None = None


class ToolMessage(msgspec.Struct, frozen=True, tag_field="role", tag="tool"):
    tool_call_id: str
    content: Words


AnyMessage: TypeAlias = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


class FunctionTool(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    function: dict[str, Any]


class Named(msgspec.Struct, frozen=True):
    name: str


class NamedChoice(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    function: Named


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class Form(msgspec.Struct, frozen=True, omit_defaults=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = None


_Most: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] | None
_Penalty: TypeAlias = Annotated[float, msgspec.Meta(ge=-2, le=2)] | None


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request, as far as it is known here."""

    model: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    messages: Annotated[list[AnyMessage], msgspec.Meta(min_length=1, max_length=10_000)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: Annotated[list[FunctionTool], msgspec.Meta(max_length=128)] | None = None
    tool_choice: Literal["auto", "none", "required"] | NamedChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: _Most = None
    max_completion_tokens: _Most = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    frequency_penalty: _Penalty = None
    presence_penalty: _Penalty = None
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    stop: str | Annotated[list[str], msgspec.Meta(max_length=4)] | None = None
    response_format: Form | None = None
    reasoning_effort: Annotated[str, msgspec.Meta(max_length=20)] | None = None
    verbosity: Annotated[str, msgspec.Meta(max_length=20)] | None = None
    service_tier: Annotated[str, msgspec.Meta(max_length=20)] | None = None
    n: Literal[1] | None = None
    logprobs: Literal[False] | None = None
    top_logprobs: Literal[0] | None = None
    modalities: list[Literal["text"]] | None = None
    audio: None = None
    functions: None = None
    function_call: None = None
    web_search_options: None = None
    user: Annotated[str, msgspec.Meta(max_length=1_024)] | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None


class Read(msgspec.Struct, frozen=True):
    """A request as it was read, and the names of its fields that nobody knows, in order."""

    request: ChatRequest
    unknown: tuple[str, ...]


def read(body: bytes) -> Read:
    """The request. Raises `InvalidInput`, whose `where` has the `param` that is wrong."""
    try:
        table = msgspec.json.decode(body, type=dict[str, Any])
        request = msgspec.convert(table, ChatRequest)
    except msgspec.ValidationError as error:
        place = _PLACE.search(str(error))
        raise InvalidInput(
            _PLACE.sub("", str(error)), param=place[1] if place else "", hint="it cannot be done so here"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidInput("the body is not JSON") from None
    known = set(ChatRequest.__struct_fields__)
    unknown = sorted(name for name, value in table.items() if name not in known and value is not None)
    return Read(request, tuple(ascii(name)[1:-1][:64] for name in unknown))


def asked_of(
    request: ChatRequest, body: bytes, *, model: str, key: str, again: bool, named: bool, memory: bool
) -> Asked:
    """What the request asks. Raises `InvalidInput`."""
    messages = tuple(_sent(each, place) for place, each in _conversation(request.messages))
    check_sent([each.said for each in messages])
    systems = [each for each in request.messages if isinstance(each, SystemMessage | DeveloperMessage)]
    words = "\n\n".join(filter(None, (_words(each.content) for each in systems)))
    tools = tuple(_tool(each, place) for place, each in enumerate(request.tools or ()))
    if isinstance(request.tool_choice, NamedChoice):
        _must_have(request.tool_choice.function.name, tools)
    elif request.tool_choice == "required" and not tools:
        raise InvalidInput("a tool choice needs `tools`", param="tool_choice")
    return Asked(
        messages=messages,
        system=words if systems else None,
        tools=tools,
        options=_options(request),
        model=model,
        key=key,
        digest=hashlib.sha256(body).hexdigest(),
        again=again,
        named=named,
        memory=memory,
    )


def opening_of(request: ChatRequest) -> str:
    """A name for the conversation by the first message of its user. Raises `InvalidInput` where it has
    none."""
    for place, each in _conversation(request.messages):
        if isinstance(each, UserMessage):
            return hashlib.sha256(msgspec.json.encode(_sent(each, place).said)).hexdigest()
    raise InvalidInput(
        "the request names no session, and has no message of a user", hint="send X-Stratalog-Session"
    )


def _conversation(messages: Sequence[AnyMessage]) -> Iterator[tuple[int, AnyMessage]]:
    for place, each in enumerate(messages):
        if not isinstance(each, SystemMessage | DeveloperMessage):
            yield place, each


def _options(request: ChatRequest) -> Options:
    values = {name: getattr(request, name) for name in OPTIONS if getattr(request, name) is not None}
    most = request.max_completion_tokens or request.max_tokens
    if most is not None:
        values[MOST] = most
    made = msgspec.to_builtins(values)
    if isinstance(request.tool_choice, NamedChoice):
        made["tool_choice"] = {"type": "function", "function": {"name": request.tool_choice.function.name}}
    own = {each.function["name"]: each.function for each in request.tools or ()}
    return Options(values=made, functions=own)


def _sent(message: AnyMessage, place: int) -> Sent:
    entries: tuple[AnyEntry, ...]
    match message:
        case UserMessage():
            meta = {"name": message.name} if message.name else None
            entries = (User(content=_content(message.content, place), meta=meta),)
        case ToolMessage():
            words = _words(message.content)
            entries = (ToolResult(call_id=message.tool_call_id, content=words),)
        case AssistantMessage():
            entries = _reply(message)
        case _:
            entries = ()
    said = said_of(entries)
    if said is None:
        raise InvalidInput("a message says nothing", param=f"messages[{place}]")
    return Sent(said, entries)


def _reply(message: AssistantMessage) -> tuple[AnyEntry, ...]:
    response = new_ulid()
    content = message.content or ""
    if not isinstance(content, str):
        content = "".join(part.text if isinstance(part, TextPart) else part.refusal for part in content)
    calls = [
        ToolCall(
            call_id=each.id,
            name=each.function.name,
            args=_arguments(each.function.arguments),
            response=response,
            meta={ELSEWHERE: True},
        )
        for each in message.tool_calls or ()
    ]
    words = Assistant(content=content or message.refusal or "", response=response)
    return (words, *calls)


def _arguments(written: str) -> Any:
    try:
        return msgspec.json.decode(written) if written else {}
    except msgspec.MsgspecError:
        return written


def _words(content: Words) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)


def _content(content: str | list[AnyPart], place: int) -> Content:
    if isinstance(content, str):
        return content
    parts = tuple(_part(part, f"messages[{place}].content[{at}]") for at, part in enumerate(content))
    return parts[0].text if len(parts) == 1 and isinstance(parts[0], Text) else parts


def _part(part: AnyPart, where: str) -> Part:
    match part:
        case TextPart():
            return Text(text=part.text)
        case RefusalPart():
            return Text(text=part.refusal)
        case ImagePart():
            url = part.image_url.url
            kind, data = _inline(url, where) if url.startswith("data:") else ("", b"")
            return Image(media_type=kind, data=data) if data else Image(url=url)
        case SoundPart():
            sound = part.input_audio
            return Audio(media_type=_SOUNDS[sound.format], data=_decoded(sound.data, where))
        case FilePart():
            kind, data = _inline(part.file.file_data, where)
            return File(media_type=kind, name=part.file.filename, data=data)


def _inline(url: str, where: str) -> tuple[str, bytes]:
    found = _DATA.match(url)
    if found is None:
        raise InvalidInput("that is no data: URL in base64", param=where)
    return found[1] or "application/octet-stream", _decoded(url[found.end() :], where)


def _decoded(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("that is no base64", param=where) from None


def _tool(tool: FunctionTool, place: int) -> Tool:
    function = tool.function
    name, description = function.get("name"), function.get("description") or ""
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    fits = isinstance(name, str) and _NAME.fullmatch(name)
    if not fits or not isinstance(description, str) or not isinstance(parameters, dict):
        raise InvalidInput("that is no function that a model may call", param=f"tools[{place}].function")
    return Tool(str(name), description, parameters)


def _must_have(name: str, tools: Sequence[Tool]) -> None:
    if name not in {each.name for each in tools}:
        raise InvalidInput("the tool choice names none of the `tools`", param="tool_choice")


# --- what is answered ---


def completion(answer: Answer, told: dict[str, Any]) -> dict[str, Any]:
    """The reply as one object."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.refusal:
        message |= {"content": None, "refusal": answer.text}
    if answer.calls:
        message["tool_calls"] = [_call(each) for each in answer.calls]
    choice = {"index": 0, "message": message, "finish_reason": finish(answer), "logprobs": None}
    return {
        "id": f"chatcmpl-{answer.entry}",
        "object": "chat.completion",
        "created": answer.at // 1_000,
        "model": answer.model,
        "choices": [choice],
        "usage": usage(answer.usage),
        "stratalog": told,
    }


class Chunks:
    """The chunks of one reply, each a line of the stream. `counted`: they say what it cost, at the end."""

    def __init__(self, id: str, created: int, model: str, told: dict[str, Any], *, counted: bool) -> None:
        self._head = {
            "id": f"chatcmpl-{id}",
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        self._told, self._counted = told, counted

    def first(self) -> bytes:
        """Says who speaks, and of which session it is."""
        return self._chunk({"role": "assistant", "content": "", "refusal": None}, more=self._told)

    def words(self, text: str) -> bytes:
        return self._chunk({"content": text})

    def last(self, answer: Answer) -> Iterator[bytes]:
        """The calls, why it ended, and what it cost."""
        for place, call in enumerate(answer.calls):
            made = _call(call)
            written = made["function"]["arguments"]
            made["function"]["arguments"] = ""
            yield self._chunk({"tool_calls": [{"index": place, **made}]})
            for at in range(0, len(written), 1_000):
                piece = {"index": place, "function": {"arguments": written[at : at + 1_000]}}
                yield self._chunk({"tool_calls": [piece]})
        yield self._chunk({}, reason=finish(answer))
        if self._counted:
            yield line({**self._head, "choices": [], "usage": usage(answer.usage)})
        yield b"data: [DONE]\n\n"

    def _chunk(
        self, delta: dict[str, Any], *, reason: str | None = None, more: dict[str, Any] | None = None
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        told: dict[str, Any] = {**self._head, "choices": [choice]}
        if self._counted:
            told["usage"] = None
        return line(told | ({"stratalog": more} if more else {}))


class Telling:
    """The words of a reply as they are sent on: those of a further round after a blank line. A reply that the
    model begins anew is told on where it says again what was told; else it is `broken`."""

    def __init__(self) -> None:
        self.sent = ""
        self.broken = False
        self._before, self._now = "", ""

    def take(self, text: str) -> str:
        """What is to be sent for some more words."""
        self._now += text
        return self._rest(self._whole())

    def over(self) -> None:
        """The round is over."""
        self._before, self._now = self._whole(), ""

    def anew(self) -> None:
        """The words of this round so far are void."""
        self._now = ""

    def end(self, text: str) -> str:
        """What is still to be sent of the whole reply."""
        if not self.sent:
            return text
        self.broken = self.broken or self.sent != self._whole()
        return ""

    def _whole(self) -> str:
        return f"{self._before}\n\n{self._now}" if self._before and self._now else self._before + self._now

    def _rest(self, whole: str) -> str:
        if whole.startswith(self.sent):
            piece, self.sent = whole[len(self.sent) :], whole
            return piece
        self.broken = self.broken or not self.sent.startswith(whole)
        return ""


def line(data: dict[str, Any]) -> bytes:
    """One event of a stream."""
    return b"data: %s\n\n" % msgspec.json.encode(data)


def finish(answer: Answer) -> str:
    """Why the reply ended, in OpenAI's words."""
    if answer.calls:
        return "tool_calls"
    if answer.stop == "length":
        return "length"
    return "content_filter" if answer.stop == "refusal" and not answer.refusal else "stop"


def usage(counted: Usage | None) -> dict[str, Any] | None:
    """What the provider counted; None where it told nothing."""
    if counted is None:
        return None
    return {
        "prompt_tokens": counted.input,
        "completion_tokens": counted.output,
        "total_tokens": counted.input + counted.output,
        "prompt_tokens_details": {"cached_tokens": counted.cache_read},
        "completion_tokens_details": {"reasoning_tokens": counted.reasoning},
    }


def models(agents: dict[str, int]) -> dict[str, Any]:
    """The list of models: the agents."""
    return {"object": "list", "data": [model(name, at) for name, at in agents.items()]}


def model(agent: str, at: int) -> dict[str, Any]:
    return {"id": f"agent:{agent}", "object": "model", "created": at // 1_000, "owned_by": "stratalog"}


_KINDS: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict",
}
_CODES: Final = {
    "ContextOverflow": "context_length_exceeded",
    "ModelInputTooLong": "context_length_exceeded",
    "SpendLimit": "insufficient_quota",
    "SessionBusy": "session_busy",
    "NotFound": "not_found",
}


def error(problem: Problem) -> dict[str, Any]:
    """The problem in OpenAI's shape."""
    kind = "server_error" if problem.status >= 500 else _KINDS.get(problem.status, "invalid_request_error")
    words = ". ".join(filter(None, (problem.detail or problem.title, problem.hint)))
    return {
        "error": {
            "message": words,
            "type": kind,
            "param": problem.where.get("param") or problem.where.get("option"),
            "code": _CODES.get(problem.error),
        }
    }


def _call(call: ToolCall) -> dict[str, Any]:
    written = call.args if isinstance(call.args, str) else msgspec.json.encode(call.args or {}).decode()
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": written}}
