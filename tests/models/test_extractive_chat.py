"""models/extractive_chat.py: without a model the answer is what was said, or that nothing fits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.asking import ask, completed, words
from stratalog.context.shapes.contract import Prompt, Tool
from stratalog.context.shapes.openai_chat import OpenAIChatShape
from stratalog.models.contract import Event, Request, TextDelta
from stratalog.models.extractive import extract
from stratalog.models.extractive_chat import ExtractiveChat
from stratalog.tokens.rough import count_text
from stratalog.types import Assistant, Text, ToolCall, ToolResult, Usage, User

TOOLS = (Tool("look", "Looks.", {"type": "object", "properties": {}}),)
SAID = [
    "My sister Ana lives in Lisbon.",
    "The staging database password rotates every 14 days.",
    "I am allergic to peanuts. Please keep that in mind!",
    "Our launch date is 9 October 2026.",
    "My dog is called Biscuit and he sleeps a lot.",
    "The red folder holds Ana's old invoices.",
]
SAID_ZH = [
    "我妹妹安娜住在里斯本。",
    "测试数据库的密码每十四天更换一次。",
    "老周对花生过敏，订餐要注意。",
    "项目代号叫做北极星。",
    "服务器部署在法兰克福机房。",
    "会议改到星期四下午。",
    "我叫王明。",
]


def events(prompt: Prompt) -> list[Event]:
    """What the model streams for the prompt, in a request as it is sent."""
    return ask(ExtractiveChat(count_text), Request(model="extractive", body=OpenAIChatShape().body(prompt)))


def told(*said: Any, summary: str = "", system: tuple[str, ...] = ()) -> str:
    """The reply to these entries; a string is the user's."""
    entries = tuple(
        User(id=f"e{number}", content=each) if isinstance(each, str) else each
        for number, each in enumerate(said)
    )
    return words(events(Prompt(system=system, summary=summary, entries=entries, tools=TOOLS)))


def chat(said: list[str], last: str) -> str:
    turns: list[Any] = []
    for each in said:
        turns += [each, Assistant(content="Noted.")]
    return told(*turns, last)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("Where does Ana live?", SAID[0]),
        ("where is my sister living", SAID[0]),
        ("How often does the staging password rotate?", SAID[1]),
        ("What am I allergic to?", "I am allergic to peanuts."),
        ("When is the launch?", SAID[3]),
        ("Tell me the name of my dog.", SAID[4]),
    ],
)
def test_a_question_is_answered_by_what_was_said(asked: str, found: str) -> None:
    """Of six messages the one sentence that fits is quoted, whole and alone."""
    assert chat(SAID, asked) == f'You said: "{found}"'


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("安娜住在哪里？", SAID_ZH[0]),
        ("我叫什么？", SAID_ZH[6]),
        ("告诉我数据库密码多久更换", SAID_ZH[1]),
        ("谁对花生过敏？", SAID_ZH[2]),
        ("项目代号是什么？", SAID_ZH[3]),
        ("服务器部署在哪里", SAID_ZH[4]),
    ],
)
def test_a_question_in_chinese(asked: str, found: str) -> None:
    """The same in Chinese, answered in Chinese."""
    assert chat(SAID_ZH, asked) == f"你说过：“{found}”"


def test_the_language_is_the_last_messages() -> None:
    """What is quoted stays as it was said; the words around it are in the asker's language."""
    assert (
        chat(["Ana lives in Lisbon.", "Bo likes tea."], "Ana 住在哪里？") == "你说过：“Ana lives in Lisbon.”"
    )
    assert chat(["我的妹妹 Ana 住在里斯本。"], "Where is Ana?") == 'You said: "我的妹妹 Ana 住在里斯本。"'


def test_at_most_three_are_quoted_the_newest_first() -> None:
    """Of five that fit alike, the last three, a line each."""
    said = [f"Ana called on {day}." for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")]
    lines = chat(said, "When did Ana call?").split("\n")
    assert lines == [f'You said: "{each}"' for each in (said[4], said[3], said[2])]


def test_what_answers_nothing_is_not_quoted() -> None:
    """Questions asked before, replies and the message itself; a sentence said twice is quoted once."""
    said = [SAID[0], "Where does Ana live?", SAID[0], "Does Ana live in Oslo?"]
    assert chat(said, "Where does Ana live?") == f'You said: "{SAID[0]}"'
    only = told("Hello there.", Assistant(content="Ana lives in Oslo."), "Where does Ana live?")
    assert only.startswith("I found nothing")


def test_a_tools_result_is_quoted() -> None:
    """Tools' words are said to be theirs."""
    call = ToolCall(call_id="c1", name="weather", args={})
    result = ToolResult(call_id="c1", content=(Text(text="Oslo: rain.\nLisbon: sun, 24 degrees."),))
    told_so = told("Look.", call, result, Assistant(content="Done."), "How many degrees in Lisbon?")
    assert told_so == 'A tool answered: "Lisbon: sun, 24 degrees."'


@pytest.mark.parametrize("ours", [True, False])
def test_only_a_summary(ours: bool) -> None:
    """What compaction left is found, whoever wrote it; the rest of the system's words are not quoted."""
    entries = [User(id=f"e{number}", content=each) for number, each in enumerate(SAID)]
    summary = extract(entries, "", 400, count_text) if ours else " ".join(SAID)
    found = told("Where does Ana live?", summary=summary, system=("Ana lives in Rome, they say.",))
    assert found == f'The summary of this conversation says: "{SAID[0]}"'


@pytest.mark.parametrize(
    ("statement", "reply"),
    [
        ("My sister Ana moved to Porto.", "Noted. No language model is configured"),
        ("See https://example.org/?ana=1", "Noted. No language model is configured"),
        ("安娜搬到了波尔图。", "已记下。尚未配置语言模型"),
    ],
)
def test_a_statement_is_noted(statement: str, reply: str) -> None:
    """Nothing is quoted at someone who asked nothing."""
    assert chat(SAID, statement).startswith(reply)


@pytest.mark.parametrize(
    ("asked", "reply"),
    [
        ("What is the capital of Mongolia?", "I found nothing about that in this conversation, and no"),
        ("蒙古的首都是哪里？", "在这次对话中没有找到相关的内容，而且尚未配置语言模型"),
        ("???", "I found nothing"),
    ],
)
def test_nothing_fits(asked: str, reply: str) -> None:
    """It says so, and why it cannot say more; with no history too."""
    assert chat(SAID + SAID_ZH, asked).startswith(reply)
    assert told(asked).startswith(reply)


@pytest.mark.parametrize("body", [{}, {"messages": []}, {"messages": [{"role": "user", "content": None}]}])
def test_an_empty_request(body: dict[str, Any]) -> None:
    """There is a reply even so."""
    found = ask(ExtractiveChat(), Request(model="extractive", body=body))
    assert words(found).startswith("I found nothing")


def test_the_stream_and_what_it_cost() -> None:
    """The deltas joined are the completed text, which the counter given has counted; no tool is called."""
    said = ("Ana called on Monday.", "Ana called on Friday.", "When did Ana call?")
    found = events(Prompt(entries=tuple(User(content=each) for each in said), tools=TOOLS))
    last = completed(found)
    assert len([each for each in found if isinstance(each, TextDelta)]) == 2
    assert last.message == {"role": "assistant", "content": words(found)}
    assert (last.stop, last.model) == ("end", "extractive")
    assert last.usage == Usage(input=sum(map(count_text, said)), output=count_text(words(found)))


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system", "tool"]), st.text()), max_size=8))
def test_any_messages(said: list[tuple[str, str]]) -> None:
    """Never empty, never an error, and the same again for the same request."""
    body = {"messages": [{"role": role, "content": content} for role, content in said]}
    first = ask(ExtractiveChat(), Request(model="extractive", body=body))
    assert words(first).strip()
    assert completed(first).message["content"] == words(first)
    assert ask(ExtractiveChat(), Request(model="extractive", body=body)) == first
