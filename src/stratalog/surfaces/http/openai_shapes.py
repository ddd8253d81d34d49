"""OpenAI's chat completions as they stand on the wire: what its clients send. What they are answered is in
`openai_replies`.

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

from stratalog.engine.completing import Asked, Tool
from stratalog.engine.reconciling import Sent, check_sent, said_of
from stratalog.engine.running import ELSEWHERE
from stratalog.engine.tuning import MOST, OPTIONS, Options
from stratalog.errors import InvalidInput
from stratalog.ids import new_ulid
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
    User,
)

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DATA: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,", re.ASCII)
_SOUNDS: Final = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_PLACE: Final = re.compile(r" - at `\$\.?([^`]*)`$")
_FIELD: Final = re.compile(r"\w*")
_WHY: Final = {
    "n": "one reply is made for each request",
    "logprobs": "how likely words were is not told",
    "top_logprobs": "how likely words were is not told",
    "modalities": "replies are words alone",
    "audio": "replies are words alone",
    "functions": "send `tools`",
    "function_call": "send `tool_choice`",
    "web_search_options": "nothing is looked for on the web here",
}


class ChatText(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    text: str


class ChatRefusal(msgspec.Struct, frozen=True, tag_field="type", tag="refusal"):
    refusal: str


class ChatImageUrl(msgspec.Struct, frozen=True):
    url: str


class ChatImage(msgspec.Struct, frozen=True, tag_field="type", tag="image_url"):
    image_url: ChatImageUrl


class ChatSoundData(msgspec.Struct, frozen=True):
    data: str
    format: Literal["wav", "mp3"]


class ChatSound(msgspec.Struct, frozen=True, tag_field="type", tag="input_audio"):
    input_audio: ChatSoundData


class ChatFileData(msgspec.Struct, frozen=True):
    file_data: str
    filename: str = ""


class ChatFile(msgspec.Struct, frozen=True, tag_field="type", tag="file"):
    file: ChatFileData


AnyPart: TypeAlias = ChatText | ChatRefusal | ChatImage | ChatSound | ChatFile
Words: TypeAlias = str | list[ChatText]


class SystemMessage(msgspec.Struct, frozen=True, tag_field="role", tag="system"):
    content: Words


class DeveloperMessage(msgspec.Struct, frozen=True, tag_field="role", tag="developer"):
    content: Words


class UserMessage(msgspec.Struct, frozen=True, tag_field="role", tag="user"):
    content: str | list[AnyPart]
    name: str | None = None


class FunctionCalled(msgspec.Struct, frozen=True):
    name: str
    arguments: str


class CallMade(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    function: FunctionCalled


class AssistantMessage(msgspec.Struct, frozen=True, tag_field="role", tag="assistant"):
    content: str | list[ChatText | ChatRefusal] | None = None
    refusal: str | None = None
    tool_calls: list[CallMade] | None = None


class ToolMessage(msgspec.Struct, frozen=True, tag_field="role", tag="tool"):
    tool_call_id: str
    content: Words


AnyMessage: TypeAlias = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


class FunctionTool(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    function: dict[str, Any]


class NamedFunction(msgspec.Struct, frozen=True):
    name: str


class ChosenFunction(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    function: NamedFunction


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class ResponseForm(msgspec.Struct, frozen=True, omit_defaults=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = None


_Most: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] | None
_Penalty: TypeAlias = Annotated[float, msgspec.Meta(ge=-2, le=2)] | None
_Seed: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request, as far as it is known here."""

    model: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    messages: Annotated[list[AnyMessage], msgspec.Meta(min_length=1, max_length=10_000)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: Annotated[list[FunctionTool], msgspec.Meta(max_length=128)] | None = None
    tool_choice: Literal["auto", "none", "required"] | ChosenFunction | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: _Most = None
    max_completion_tokens: _Most = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    frequency_penalty: _Penalty = None
    presence_penalty: _Penalty = None
    logit_bias: dict[str, float] | None = None
    seed: _Seed = None
    stop: str | Annotated[list[str], msgspec.Meta(max_length=4)] | None = None
    response_format: ResponseForm | None = None
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
        raise _wrong(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidInput("the body is not JSON") from None
    known = set(ChatRequest.__struct_fields__)
    unknown = sorted(name for name, value in table.items() if name not in known and value is not None)
    return Read(request, tuple(ascii(name)[1:-1][:64] for name in unknown))


def _wrong(reason: str) -> InvalidInput:
    """The error for a field that is wrong, by what msgspec says of it."""
    found = _PLACE.search(reason)
    place = found[1] if found else ""
    field = _FIELD.match(place)
    why = _WHY.get(field[0]) if field else None
    if why is not None:
        return InvalidInput(f"`{place}` cannot be so here", param=place, hint=why)
    told = _PLACE.sub("", reason)
    return InvalidInput(f"`{place}`: {told}" if place else told, param=place)


def asked_of(
    request: ChatRequest, body: bytes, *, model: str, key: str, again: bool, named: bool, memory: bool
) -> Asked:
    """What the request asks. Raises `InvalidInput`."""
    sent = (_sent(each, place) for place, each in _conversation(request.messages))
    messages = tuple(each for each in sent if each is not None)
    check_sent([each.said for each in messages])
    systems = [each for each in request.messages if isinstance(each, SystemMessage | DeveloperMessage)]
    words = "\n\n".join(filter(None, (_words(each.content) for each in systems)))
    tools = tuple(_tool(each, place) for place, each in enumerate(request.tools or ()))
    if isinstance(request.tool_choice, ChosenFunction):
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
        sent = _sent(each, place)
        if isinstance(each, UserMessage) and sent is not None:
            return hashlib.sha256(msgspec.json.encode(sent.said)).hexdigest()
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
    if isinstance(request.tool_choice, ChosenFunction):
        made["tool_choice"] = {"type": "function", "function": {"name": request.tool_choice.function.name}}
    own = {each.function["name"]: each.function for each in request.tools or ()}
    return Options(values=made, functions=own)


def _sent(message: AnyMessage, place: int) -> Sent | None:
    """The message as entries; None for a reply without words and calls, which a model may have made."""
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
    return None if said is None else Sent(said, entries)


def _reply(message: AssistantMessage) -> tuple[AnyEntry, ...]:
    response = new_ulid()
    content = message.content or ""
    if not isinstance(content, str):
        content = "".join(part.text if isinstance(part, ChatText) else part.refusal for part in content)
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
        case ChatText():
            return Text(text=part.text)
        case ChatRefusal():
            return Text(text=part.refusal)
        case ChatImage():
            url = part.image_url.url
            kind, data = _inline(url, where) if url.startswith("data:") else ("", b"")
            return Image(media_type=kind, data=data) if data else Image(url=url)
        case ChatSound():
            sound = part.input_audio
            return Audio(media_type=_SOUNDS[sound.format], data=_decoded(sound.data, where))
        case ChatFile():
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
