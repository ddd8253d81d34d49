"""A chat model where none is configured: it answers with what was said, word for word, and makes nothing up.

Deterministic and at once, in English and Chinese, from the request alone. The sentences of the user, of tools
and of the summary are weighed by the words that they share with the last message, the rarer the heavier, and
the best few are quoted. It never calls a tool, and never says nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Final, Literal, NamedTuple

import regex

from stratalog.models.contract import Completed, Event, Request, TextDelta
from stratalog.models.extractive import LONGEST, LOOKED_AT, SENTENCES, carried, terms_of
from stratalog.types import Usage

SUMMARY: Final = "Summary of the conversation so far:\n"
"""What stands before the summary in a request's system message."""

_MOST: Final = 3  # quotes
_NEARLY: Final = 0.6  # of the best one's weight, from which another is quoted too

Origin = Literal["user", "summary", "tool"]
Language = Literal["en", "zh"]

_HAN = regex.compile(r"\p{Han}")
_ASKS = regex.compile(
    r"？|\?(?![A-Za-z0-9=&])"  # but not the one in an address
    r"|^\W*(?:what|where|when|who|whom|whose|which|why|how|tell me|remind me|do|does|did|is|are|was|were"
    r"|can you|could you|list|show me|find|look up|search for)\b"
    r"|什么|什麼|哪|谁|誰|(?<![好十])[几幾][个個點点天位号號]|多少|怎么|怎麼|怎样|为何|為何|是否|是不是|有没有|有沒有|[吗嗎呢]\W*$"
    r"|告诉我|告訴我|提醒我|还记得|還記得|记不记得|列出|查一下|找一下",
    regex.IGNORECASE,
)
_QUESTION = regex.compile(r"[?？][\"'”’）)]*$|[吗嗎呢]$")
# Words that are in every question and tell nothing of what is asked for, as terms.
_ASKING_WORDS = """
    what where when who whom whose which why how do does did be been am can could will would should has have
    had tell remind me my mine you your we our us he him his she her they them their its about there any some
    please know remember said say told mentioned again at by from as if not no so than then list show find
    search look up don
    什么 什麼 么是 麼是 是什 哪里 哪裡 哪儿 哪兒 在哪 谁是 誰是 是谁 是誰 多少 怎么 怎麼 怎样 怎樣 为何 為何
    是否 是不 不是 有没 有沒 没有 沒有 告诉 告訴 诉我 訴我 提醒 醒我 记得 記得 还记 還記 我们 我們 你们 你們
    他们 他們 她们 她們 我的 你的 他的 她的 的是 我是 你是 知道 一下 请问 請問
"""
_ASKING = frozenset(_ASKING_WORDS.split())
_ENDING = regex.compile(r"(?<=[a-z]{3})(?:ing|ed|es|s|e)$")

_SAID: Final[dict[Language, dict[Origin, str]]] = {
    "en": {
        "user": 'You said: "{}"',
        "summary": 'The summary of this conversation says: "{}"',
        "tool": 'A tool answered: "{}"',
    },
    "zh": {
        "user": "你说过：“{}”",
        "summary": "对话摘要中写道：“{}”",
        "tool": "工具的结果中写道：“{}”",
    },
}
_NOTED: Final[dict[Language, str]] = {
    "en": "Noted. No language model is configured, so I can only keep what you say and find it again.",
    "zh": "已记下。尚未配置语言模型，我只能保存你说的话，并在你问起时找出来。",
}
_NOTHING: Final[dict[Language, str]] = {
    "en": "I found nothing about that in this conversation, and no language model is configured.",
    "zh": "在这次对话中没有找到相关的内容，而且尚未配置语言模型。",
}


class _Heard(NamedTuple):
    """A sentence that may be quoted, and its telling words."""

    origin: Origin
    text: str
    terms: frozenset[str]


class ExtractiveChat:
    """See `contract.Model`. `count` counts a text's tokens for the usage that is told; where none is given,
    four bytes of UTF-8 are taken for a token."""

    shape: Final = "openai_chat"

    def __init__(self, count: Callable[[str], int] | None = None) -> None:
        self._count = count or _about

    async def stream(self, request: Request) -> AsyncGenerator[Event, None]:
        """The reply, a line at a time. Raises nothing of its own."""
        lines = _reply(request.body)
        for line in lines:
            yield TextDelta(line)
        text = "".join(lines)
        sent = sum(self._count(words) for _, words in _messages(request.body))
        yield Completed(
            message={"role": "assistant", "content": text},
            stop="end",
            model=request.model,
            usage=Usage(input=sent, output=self._count(text)),
        )

    async def close(self) -> None:
        """There is nothing to close; other models have connections."""


def _about(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def _reply(body: dict[str, Any]) -> list[str]:
    """The lines of the reply, each but the last with its line break."""
    messages = list(_messages(body))
    last = max((at for at, (role, _) in enumerate(messages) if role == "user"), default=-1)
    asked = messages[last][1] if last >= 0 else ""
    language: Language = "zh" if _HAN.search(asked) else "en"
    if asked.strip() and not _ASKS.search(asked):
        return [_NOTED[language]]
    heard = [
        sentence for at, message in enumerate(messages) if at != last for sentence in _sentences(*message)
    ]
    quoted = [_SAID[language][each.origin].format(each.text) for each in _fitting(asked, heard)]
    if not quoted:
        return [_NOTHING[language]]
    return [*(f"{line}\n" for line in quoted[:-1]), quoted[-1]]


def _messages(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The role and the words of each message."""
    for message in body.get("messages", ()):
        content = message.get("content") or ""
        if not isinstance(content, str):
            content = "\n".join(part["text"] for part in content if part.get("type") == "text")
        yield message.get("role", ""), content


def _sentences(role: str, words: str) -> Iterator[_Heard]:
    """What may be quoted of a message. What the assistant said is none of it, for it may have been a quote,
    and neither is a question, for it answers none."""
    origin: Origin
    match role:
        case "user" | "tool":
            origin = role
            pieces = SENTENCES.findall(words[:LOOKED_AT])
            found = [" ".join(piece.split()).strip("-*#> |;；") for piece in pieces]
        case "system":
            origin = "summary"
            found = [sentence.text for sentence in carried(words.partition(SUMMARY)[2])]
        case _:
            return
    for text in found:
        if not _QUESTION.search(text):
            yield _Heard(origin, text if len(text) <= LONGEST else f"{text[:LONGEST]}…", _telling(text))


def _fitting(asked: str, heard: list[_Heard]) -> list[_Heard]:
    """The few that share the most telling words with what is asked, the best first, of equals the newest."""
    wanted = _telling(asked)
    newest = list({each.text: each for each in heard}.values())[::-1]
    spread = Counter(term for each in newest for term in each.terms & wanted)
    shared = [sorted(each.terms & wanted) for each in newest]
    weights = [sum(math.log(1 + len(newest) / spread[term]) for term in terms) for terms in shared]
    best = max(weights, default=0.0)
    order = sorted(range(len(newest)), key=lambda at: -weights[at])
    return [newest[at] for at in order[:_MOST] if weights[at] > 0 and weights[at] >= _NEARLY * best]


def _telling(text: str) -> frozenset[str]:
    """The terms of a text without those of any question, and without English endings."""
    return frozenset(_ENDING.sub("", term) for term in terms_of(text) if term not in _ASKING)
