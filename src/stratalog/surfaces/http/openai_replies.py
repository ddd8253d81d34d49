"""What OpenAI's clients are answered, as it stands on the wire: a reply, the chunks of one, and models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from stratalog.engine.completing import Answer
from stratalog.types import ToolCall, Usage

Finish: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]
_PIECE: Final = 1_000  # characters of a call's arguments in one chunk


class PromptTokens(msgspec.Struct, frozen=True):
    """Of those, the ones that the provider had in its cache."""

    cached_tokens: int


class CompletionTokens(msgspec.Struct, frozen=True):
    """Of those, the ones that the model thought with."""

    reasoning_tokens: int


class CompletionUsage(msgspec.Struct, frozen=True):
    """What the provider counted, of all that it was asked for this reply."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokens
    completion_tokens_details: CompletionTokens


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What is told beside the reply: its session's chat, its turn, and what is not as it was asked for."""

    session: str
    turn: str
    warnings: list[str] | UnsetType = UNSET


class FunctionToCall(msgspec.Struct, frozen=True):
    """`arguments` is JSON, as the model wrote it."""

    name: str
    arguments: str


class CallToMake(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    """A call that the client performs."""

    id: str
    function: FunctionToCall


class ReplyMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    """The reply. `content` is null where the model only calls, or refuses in words of its own."""

    content: str | None
    refusal: str | None
    tool_calls: list[CallToMake] | UnsetType = UNSET


class ReplyChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The only one that there is."""

    index: int
    message: ReplyMessage
    finish_reason: Finish
    logprobs: None


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True, tag_field="object", tag="chat.completion"):
    """A reply. `model` is the one that answered, `created` seconds UTC; `usage` is null where the provider
    told nothing."""

    id: str
    created: int
    model: str
    choices: list[ReplyChoice]
    usage: CompletionUsage | None
    stratalog: Beside


class FunctionPiece(msgspec.Struct, frozen=True, kw_only=True):
    """Some more of a call: its name first, then its arguments in pieces."""

    name: str | UnsetType = UNSET
    arguments: str


class CallPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the call of this index; the first has its id."""

    index: int
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET
    function: FunctionPiece


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be put after what came before."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    refusal: str | UnsetType | None = UNSET
    tool_calls: list[CallPiece] | UnsetType = UNSET


class ChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The only one that there is; the last has the reason why the reply ended."""

    index: int
    delta: Delta
    finish_reason: Finish | None
    logprobs: None


class ChatCompletionChunk(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="object", tag="chat.completion.chunk"
):
    """A piece of a reply. The first says who speaks, and has `stratalog`; with `include_usage` the last has
    no choices, and `usage`, which is null in the others."""

    id: str
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: CompletionUsage | UnsetType | None = UNSET
    stratalog: Beside | UnsetType = UNSET


class ModelView(msgspec.Struct, frozen=True, kw_only=True, tag_field="object", tag="model"):
    """An agent, as a model; `created` is when its first session in sight was, seconds UTC, or 0."""

    id: str
    created: int
    owned_by: str


class ModelList(msgspec.Struct, frozen=True, kw_only=True, tag_field="object", tag="list"):
    """The agents that have settings of their own, or sessions in sight, and the ordinary one."""

    data: list[ModelView]


def completion(answer: Answer, beside: Beside) -> ChatCompletion:
    """The reply as one object."""
    message = ReplyMessage(
        content=None if answer.refusal else answer.text or None,
        refusal=answer.text if answer.refusal else None,
        tool_calls=[
            CallToMake(each.call_id, FunctionToCall(each.name, _written(each))) for each in answer.calls
        ]
        or UNSET,
    )
    return ChatCompletion(
        id=f"chatcmpl-{answer.entry}",
        created=answer.at // 1_000,
        model=answer.model,
        choices=[ReplyChoice(index=0, message=message, finish_reason=finish(answer), logprobs=None)],
        usage=usage(answer.usage),
        stratalog=beside,
    )


class Chunks:
    """The chunks of one reply, each a line of the stream. `counted`: they say what it cost, at the end."""

    def __init__(self, id: str, created: int, model: str, beside: Beside, *, counted: bool) -> None:
        self._empty = ChatCompletionChunk(
            id=f"chatcmpl-{id}",
            created=created,
            model=model,
            choices=[],
            usage=None if counted else UNSET,
        )
        self._beside, self._counted = beside, counted

    def first(self) -> bytes:
        """Says who speaks, and of which session it is."""
        delta = Delta(role="assistant", content="", refusal=None)
        return line(msgspec.structs.replace(self._with(delta), stratalog=self._beside))

    def words(self, text: str) -> bytes:
        return line(self._with(Delta(content=text)))

    def last(self, answer: Answer) -> Iterator[bytes]:
        """The calls, why it ended, and what it cost."""
        for place, call in enumerate(answer.calls):
            begun = FunctionPiece(name=call.name, arguments="")
            yield self._call(CallPiece(index=place, id=call.call_id, type="function", function=begun))
            written = _written(call)
            for at in range(0, len(written), _PIECE):
                piece = FunctionPiece(arguments=written[at : at + _PIECE])
                yield self._call(CallPiece(index=place, function=piece))
        yield line(self._with(Delta(), finish(answer)))
        if self._counted:
            yield line(msgspec.structs.replace(self._empty, usage=usage(answer.usage)))
        yield b"data: [DONE]\n\n"

    def _call(self, piece: CallPiece) -> bytes:
        return line(self._with(Delta(tool_calls=[piece])))

    def _with(self, delta: Delta, reason: Finish | None = None) -> ChatCompletionChunk:
        choice = ChunkChoice(index=0, delta=delta, finish_reason=reason, logprobs=None)
        return msgspec.structs.replace(self._empty, choices=[choice])


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


def line(event: msgspec.Struct) -> bytes:
    """One event of a stream."""
    return b"data: %s\n\n" % msgspec.json.encode(event)


def finish(answer: Answer) -> Finish:
    """Why the reply ended, in OpenAI's words."""
    if answer.calls:
        return "tool_calls"
    if answer.stop == "length":
        return "length"
    return "content_filter" if answer.stop == "refusal" and not answer.refusal else "stop"


def usage(counted: Usage | None) -> CompletionUsage | None:
    """What the provider counted; None where it told nothing."""
    if counted is None:
        return None
    return CompletionUsage(
        prompt_tokens=counted.input,
        completion_tokens=counted.output,
        total_tokens=counted.input + counted.output,
        prompt_tokens_details=PromptTokens(counted.cache_read),
        completion_tokens_details=CompletionTokens(counted.reasoning),
    )


def models(agents: dict[str, int]) -> ModelList:
    """The agents, with the time of the first session of each, in milliseconds."""
    return ModelList(data=[model(name, at) for name, at in agents.items()])


def model(agent: str, at: int) -> ModelView:
    return ModelView(id=f"agent:{agent}", created=at // 1_000, owned_by="stratalog")


def _written(call: ToolCall) -> str:
    return call.args if isinstance(call.args, str) else msgspec.json.encode(call.args or {}).decode()
