"""What the model server refuses and what it takes: a table for each API, in the words of its provider."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from stratalog.models.contract import Shape
from stratalog.testing.model_server import Strictness, refusal_of
from stratalog.testing.scripted import signature_of

SCHEMA = {"type": "object", "properties": {}}
IMAGE = "data:image/png;base64,iVBORw0KGgo="


def user(content: Any = "Hello") -> dict[str, Any]:
    return {"role": "user", "content": content}


def said(content: Any = "Hi", *calls: str, **more: Any) -> dict[str, Any]:
    """An assistant message of chat completions, with calls of these ids."""
    made = [
        {"id": call, "type": "function", "function": {"name": "add", "arguments": "{}"}} for call in calls
    ]
    return {"role": "assistant", "content": content, **({"tool_calls": made} if calls else {}), **more}


def tool(call: str, content: Any = "3") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": content}


def system(content: Any = "Be kind.", role: str = "system") -> dict[str, Any]:
    return {"role": role, "content": content}


def chat(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": list(messages), **more}


CHAT_TOOLS = [{"type": "function", "function": {"name": "add", "parameters": SCHEMA}}]
CHAT_GOOD: dict[str, dict[str, Any]] = {
    "a message": chat(user()),
    "parts": chat(
        user([{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": IMAGE}}])
    ),
    "systems anywhere": chat(system(), user(), said(), system(role="developer"), user()),
    "the same role twice": chat(user(), user(), said(), said()),
    "the assistant first": chat(said(), user()),
    "parallel calls, answered in any order": chat(
        user(), said(None, "a", "b"), tool("b"), tool("a"), said("5")
    ),
    "calls with words": chat(user(), said("Wait.", "a"), tool("a"), user()),
    "the same id in another round": chat(user(), said(None, "a"), tool("a"), said(None, "a"), tool("a")),
    "a result in parts": chat(user(), said(None, "a"), tool("a", [{"type": "text", "text": "3"}])),
    "a refusal": chat(user(), said(None, refusal="No."), user()),
    "tools": chat(user(), tools=CHAT_TOOLS, tool_choice={"type": "function", "function": {"name": "add"}}),
    "numbers": chat(user(), temperature=2, top_p=0.5, max_completion_tokens=5, n=1),
    "stream with usage": chat(user(), stream=True, stream_options={"include_usage": True}),
    "arguments that are not JSON": chat(
        user(),
        said(
            None,
            "a",
            tool_calls=[{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}],
        ),
        tool("a"),
    ),
}
CHAT_BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no messages": ({}, "Missing required parameter: 'messages'"),
    "an empty list": (chat(), "[] is too short"),
    "an empty model": (chat(user(), model=""), "model parameter"),
    "an unknown field": (
        chat(user(), max_output_tokens=5),
        "Unrecognized request argument supplied: max_output_tokens",
    ),
    "an unknown role": (chat({"role": "human", "content": "Hello"}), "Invalid value: 'human'"),
    "no message": (chat("Hello"), "Invalid value: None"),
    "a field of another API": (
        chat(said("Hi", reasoning_content="Hm")),
        "'reasoning_content' was unexpected",
    ),
    "no content": (chat(user(None)), "expected a string or an array of objects, got null"),
    "content that is a number": (chat(user(3)), "got a number"),
    "empty parts": (chat(user([])), "empty array"),
    "an unknown part": (chat(user([{"type": "input_text", "text": "a"}])), "Invalid value: 'input_text'"),
    "an image of the assistant": (
        chat(said([{"type": "image_url", "image_url": {"url": IMAGE}}])),
        "Invalid value",
    ),
    "a text part without text": (chat(user([{"type": "text"}])), "text'"),
    "an image that is none": (
        chat(user([{"type": "image_url", "image_url": {"url": "cat.png"}}])),
        "Invalid image data",
    ),
    "an assistant that says nothing": (chat(user(), said(None), user()), "got null"),
    "an empty list of calls": (chat(user(), said("Hi", tool_calls=[])), "empty array"),
    "a call without id": (chat(said(None, "")), "id'"),
    "a call with too long an id": (chat(said(None, "a" * 41)), "string too long"),
    "the same id twice": (chat(said(None, "a", "a"), tool("a")), "Duplicate value for 'tool_call_id'"),
    "arguments as an object": (
        chat(
            said(
                None, tool_calls=[{"id": "a", "type": "function", "function": {"name": "f", "arguments": {}}}]
            )
        ),
        "expected a string",
    ),
    "a call of no kind": (
        chat(said(None, tool_calls=[{"id": "a", "function": {"name": "f", "arguments": ""}}])),
        "type'",
    ),
    "a call of a bad name": (
        chat(
            said(
                None,
                tool_calls=[{"id": "a", "type": "function", "function": {"name": "f g", "arguments": ""}}],
            )
        ),
        "function.name",
    ),
    "an orphan result": (chat(user(), tool("a")), "must be a response to a preceeding message"),
    "a result first": (chat(tool("a"), user()), "must be a response to a preceeding message"),
    "a result of another call": (
        chat(user(), said(None, "a"), tool("b")),
        "must be a response to a preceeding message",
    ),
    "a result after its round": (chat(said(None, "a"), tool("a"), user(), tool("a")), "must be a response"),
    "two results of one call": (chat(said(None, "a", "b"), tool("a"), tool("a"), tool("b")), "Duplicate"),
    "a call without result": (chat(user(), said(None, "a"), user()), "did not have response messages: a"),
    "one of two without result": (
        chat(said(None, "a", "b"), tool("a"), said()),
        "did not have response messages: b",
    ),
    "a call at the end": (chat(user(), said(None, "a")), "did not have response messages: a"),
    "a system within the round": (
        chat(said(None, "a"), system(), tool("a")),
        "did not have response messages: a",
    ),
    "a result without content": (chat(said(None, "a"), tool("a", None)), "expected a string, got null"),
    "no tools": (chat(user(), tools=[]), "[] is too short - 'tools'"),
    "a tool of a bad name": (
        chat(user(), tools=[{"type": "function", "function": {"name": "a b"}}]),
        "does not match pattern",
    ),
    "a tool of another API": (chat(user(), tools=[{"name": "add", "input_schema": SCHEMA}]), "type"),
    "two tools of one name": (chat(user(), tools=CHAT_TOOLS * 2), "must be unique"),
    "a schema that is none": (
        chat(
            user(), tools=[{"type": "function", "function": {"name": "a", "parameters": {"type": "string"}}}]
        ),
        "JSON Schema",
    ),
    "a choice without tools": (chat(user(), tool_choice="auto"), "only allowed when 'tools'"),
    "a choice of no tool": (
        chat(user(), tools=CHAT_TOOLS, tool_choice={"type": "function", "function": {"name": "sub"}}),
        "not found in 'tools'",
    ),
    "too warm": (chat(user(), temperature=2.1), "'temperature'"),
    "no output": (chat(user(), max_tokens=0), "'max_tokens'"),
    "two limits": (chat(user(), max_tokens=5, max_completion_tokens=5), "at the same time"),
    "usage without stream": (
        chat(user(), stream_options={"include_usage": True}),
        "only allowed when 'stream'",
    ),
}


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def call(call_id: str, **more: Any) -> dict[str, Any]:
    return item("function_call", call_id=call_id, name="add", arguments="{}", **more)


def output(call_id: str) -> dict[str, Any]:
    return item("function_call_output", call_id=call_id, output="3")


def thought(thought_id: str, **more: Any) -> dict[str, Any]:
    return item("reasoning", id=thought_id, summary=[], **more)


def responses(*items: Any, **more: Any) -> dict[str, Any]:
    return {"input": list(items), **more}


ANSWER = item(
    "message", role="assistant", id="msg_1", status="completed", content=[item("output_text", text="Hi")]
)
RESPONSES_TOOLS = [{"type": "function", "name": "add", "parameters": SCHEMA, "strict": True}]
RESPONSES_GOOD: dict[str, dict[str, Any]] = {
    "a string": {"input": "Hello", "instructions": "Be kind."},
    "messages": responses(system(), user(), ANSWER, user([item("input_text", text="And?")])),
    "an image": responses(user([item("input_image", image_url=IMAGE)])),
    "calls and outputs": responses(user(), call("a"), call("b"), output("b"), output("a"), ANSWER),
    "reasoning before its call": responses(user(), thought("rs_1"), call("a", id="fc_1"), output("a")),
    "reasoning before its message": responses(user(), thought("rs_1"), ANSWER),
    "sealed reasoning": responses(user(), thought("rs_1", encrypted_content="x"), ANSWER, store=False),
    "tools": responses(user(), tools=RESPONSES_TOOLS, tool_choice={"type": "function", "name": "add"}),
}
RESPONSES_BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no input": ({}, "Missing required parameter: 'input'"),
    "empty input": (responses(), "empty array"),
    "a field of another API": (responses(user(), max_tokens=20), "Unknown parameter: 'max_tokens'"),
    "messages of another API": ({"messages": [user()]}, "Unknown parameter: 'messages'"),
    "instructions in parts": (responses(user(), instructions=[{"text": "a"}]), "instructions"),
    "an unknown role": (responses(tool("a")), "Invalid value: 'tool'"),
    "an unknown item": (responses(item("thought")), "Invalid value: 'thought'"),
    "an item that is none": (responses("Hello"), "expected an object, got a string"),
    "no content": (responses(user(None)), "got null"),
    "the user's part of another API": (responses(user([item("text", text="a")])), "Invalid value: 'text'"),
    "the assistant's part of the user": (
        responses(user([item("output_text", text="a")])),
        "Invalid value: 'output_text'",
    ),
    "the user's part of the assistant": (
        responses(said([item("input_text", text="a")])),
        "Invalid value: 'input_text'",
    ),
    "a call without call_id": (responses(item("function_call", name="add", arguments="{}")), "call_id'"),
    "a call without arguments": (responses(item("function_call", call_id="a", name="add")), "arguments'"),
    "a call with another's id": (responses(call("a", id="a"), output("a")), "begins with 'fc'"),
    "a call without output": (responses(user(), call("a")), "No tool output found for function call a"),
    "one of two without output": (
        responses(call("a"), call("b"), output("a")),
        "No tool output found for function call b",
    ),
    "an orphan output": (responses(user(), output("a")), "No tool call found for function call output"),
    "an output before its call": (responses(output("a"), call("a")), "No tool call found"),
    "two outputs of one call": (
        responses(call("a"), output("a"), output("a")),
        "Duplicate function call output",
    ),
    "the same item twice": (responses(ANSWER, user(), ANSWER), "Duplicate item found with id msg_1"),
    "reasoning at the end": (responses(user(), thought("rs_1")), "without its required following item"),
    "reasoning before the user": (responses(thought("rs_1"), user()), "without its required following item"),
    "unsealed reasoning of nowhere": (
        responses(thought("rs_1"), ANSWER, store=False),
        "Items are not persisted",
    ),
    "a tool of another API": (responses(user(), tools=CHAT_TOOLS), "does not match pattern"),
    "too little output": (responses(user(), max_output_tokens=15), ">= 16"),
    "a response that is not known": (responses(user(), previous_response_id="resp_1"), "not found"),
}


def use(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "add", "input": {}, **more}


def result(call_id: str, content: Any = "3") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def text(words: str = "Well.", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def thinking(words: str = "Hm.", **more: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": signature_of(words), **more}


def search(name: str = "srvtoolu_1", **more: Any) -> dict[str, Any]:
    return {"type": "server_tool_use", "id": name, "name": "web_search", "input": {"query": "q"}, **more}


def hits(name: str = "srvtoolu_1", **more: Any) -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": name, "content": [], **more}


def messages(*turns: Any, **more: Any) -> dict[str, Any]:
    return {"max_tokens": 2000, "messages": list(turns), **more}


MARK = {"cache_control": {"type": "ephemeral"}}
TOOLS: dict[str, Any] = {"tools": [{"name": "add", "input_schema": SCHEMA}]}
ENABLED = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
MESSAGES_GOOD: dict[str, dict[str, Any]] = {
    "a message": messages(user()),
    "a system": messages(user(), system=[text("Be kind.", **MARK)]),
    "turns": messages(user(), said(), user([text(), PICTURE])),
    "the same role twice": messages(user(), user(), said(), said("And?"), user()),
    "a beginning of the reply": messages(user(), said("Once upon")),
    "calls and results": messages(
        user(), said([text(), use("a"), use("b")]), user([result("b"), result("a")]), **TOOLS
    ),
    "results with words after": messages(user(), said([use("a")]), user([result("a"), text()]), **TOOLS),
    "results in two messages of one role": messages(
        user(), said([use("a"), use("b")]), user([result("a")]), user([result("b")]), said(), **TOOLS
    ),
    "an empty result": messages(user(), said([use("a")]), user([result("a", "")]), **TOOLS),
    "a picture as result": messages(
        user(), said([use("a")]), user([result("a", [text(), PICTURE])]), **TOOLS
    ),
    "thinking with its call": messages(
        user(), said([thinking(), use("a")]), user([result("a")]), **TOOLS, **ENABLED
    ),
    "no thinking in rounds before": messages(
        user(), said([use("a")]), user([result("a"), text()]), said(), user(), **TOOLS
    ),
    "sealed thinking": messages(user(), said([{"type": "redacted_thinking", "data": "x"}, text()]), user()),
    "a search of the provider's": messages(user(), said([search(), hits(), text()]), user()),
    "a search that is still to be made": messages(user(), said([text(), search()])),
    "a search whose result came later": messages(user(), said([search()]), said([hits(), text()]), user()),
    "a search that waits for another result": messages(
        user(), said([search(), use("a")]), user([result("a")]), **TOOLS
    ),
    "a search whose result came after another's": messages(
        user(), said([search(), use("a")]), user([result("a")]), said([hits(), text()]), user(), **TOOLS
    ),
    "four marks": messages(
        user([text(**MARK)]), said([text(**MARK)]), user([text(**MARK)]), system=[text(**MARK)]
    ),
    "a mark within the tool's data": messages(
        user([text(**MARK)] * 4), said([use("a", input=MARK)]), user([result("a")]), **TOOLS
    ),
    "a choice": messages(user(), tool_choice={"type": "tool", "name": "add"}, **TOOLS),
}
MESSAGES_BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no limit": ({"messages": [user()]}, "max_tokens: Field required"),
    "no messages": ({"max_tokens": 5}, "messages: Field required"),
    "an empty list": (messages(), "at least one message is required"),
    "a limit of none": (messages(user(), max_tokens=0), "max_tokens"),
    "a field of another API": (messages(user(), n=1), "n: Extra inputs are not permitted"),
    "a field of another API's message": (
        messages({**user(), "name": "Ann"}),
        "Extra inputs are not permitted",
    ),
    "a system among the messages": (messages(system(), user()), 'Unexpected role "system"'),
    "an unknown role": (messages(user(), tool("a")), "Input should be 'user' or 'assistant'"),
    "the assistant first": (messages(said(), user()), 'first message must use the "user" role'),
    "empty words": (messages(user("")), "must have non-empty content"),
    "no blocks": (messages(user([])), "must have non-empty content"),
    "an empty assistant within": (messages(user(), said(""), user()), "must have non-empty content"),
    "an empty block": (messages(user([text("")])), "must be non-empty"),
    "a blank block": (messages(user([text(" \n")])), "must contain non-whitespace text"),
    "a blank message": (messages(user("  ")), "must contain non-whitespace text"),
    "an empty system block": (
        messages(user(), system=[text("")]),
        "system: text content blocks must be non-empty",
    ),
    "white space at the end": (messages(user(), said("Once upon ")), "cannot end with trailing whitespace"),
    "a part of another API": (
        messages(user([{"type": "image_url", "image_url": {"url": IMAGE}}])),
        "does not match",
    ),
    "a call of the user": (messages(user([use("a")]), **TOOLS), "can only be in `assistant` messages"),
    "a result of the assistant": (
        messages(user(), said([result("a")]), **TOOLS),
        "can only be in `user` messages",
    ),
    "a call without result": (
        messages(user(), said([use("a")]), user(), **TOOLS),
        "without `tool_result` blocks",
    ),
    "a call at the end": (messages(user(), said([use("a")]), **TOOLS), "without `tool_result` blocks"),
    "one of two without result": (
        messages(user(), said([use("a"), use("b")]), user([result("a")]), **TOOLS),
        "immediately after: b",
    ),
    "a result after words": (
        messages(user(), said([use("a")]), user([text(), result("a")]), **TOOLS),
        "without `tool_result` blocks",
    ),
    "a result too late": (
        messages(user(), said([use("a")]), user(), said(), user([result("a")]), **TOOLS),
        "without `tool_result` blocks",
    ),
    "an orphan result": (messages(user([result("a")]), **TOOLS), "unexpected `tool_use_id` found"),
    "a result of the round before": (
        messages(user(), said([use("a")]), user([result("a")]), said(), user([result("a")]), **TOOLS),
        "unexpected `tool_use_id` found",
    ),
    "two results of one call": (
        messages(user(), said([use("a")]), user([result("a"), result("a")]), **TOOLS),
        "must have a single result",
    ),
    "the same id twice": (
        messages(
            user(), said([use("a")]), user([result("a")]), said([use("a")]), user([result("a")]), **TOOLS
        ),
        "ids must be unique",
    ),
    "an id that is none": (
        messages(user(), said([use("a b")]), user([result("a b")]), **TOOLS),
        "tool_use.id",
    ),
    "input as a string": (
        messages(user(), said([use("a", input="{}")]), user([result("a")]), **TOOLS),
        "valid dictionary",
    ),
    "an empty block in a result": (
        messages(user(), said([use("a")]), user([result("a", [text("")])]), **TOOLS),
        "must be non-empty",
    ),
    "calls without tools": (messages(user(), said([use("a")]), user([result("a")])), "must define tools"),
    "thinking without signature": (
        messages(user(), said([{"type": "thinking", "thinking": "Hm."}]), user()),
        "signature",
    ),
    "thinking that was changed": (
        messages(user(), said([thinking("Hm.", signature=signature_of("Ha."))]), user()),
        "Invalid `signature`",
    ),
    "thinking left out": (
        messages(user(), said([use("a")]), user([result("a")]), **TOOLS, **ENABLED),
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`",
    ),
    "thinking after the call": (
        messages(user(), said([use("a"), thinking()]), user([result("a")]), **TOOLS, **ENABLED),
        "Expected `thinking`",
    ),
    "thinking last": (
        messages(user(), said([text(), thinking()]), user()),
        "messages.1: The final block in an assistant message cannot be `thinking`.",
    ),
    "only sealed thinking": (
        messages(user(), said([{"type": "redacted_thinking", "data": "x"}]), user()),
        "The final block in an assistant message cannot be `thinking`.",
    ),
    "a search without its result": (
        messages(user(), said([search(), text()]), user()),
        "messages.1: `web_search` tool use with id `srvtoolu_1` was found without a corresponding",
    ),
    "a search answered in another round": (
        messages(user(), said([search()]), user(), said([hits(), text()]), user()),
        "was found without a corresponding `web_search_tool_result` block",
    ),
    "a result without its search": (
        messages(user(), said([hits(), text()]), user()),
        "messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks: srvtoolu_1",
    ),
    "two results of a search": (messages(user(), said([search(), hits(), hits()])), "unexpected"),
    "a search with a foreign id": (
        messages(user(), said([search("call_1"), hits("call_1"), text()])),
        "messages.1.content.0.server_tool_use.id: String should match pattern",
    ),
    "a search of the user's": (messages(user([search()])), "does not match any of the expected tags"),
    "a result of a search without content": (
        messages(user(), said([search(), hits(content=None)])),
        "web_search_tool_result.content: Field required",
    ),
    "a mark on thinking": (messages(user(), said([thinking(**MARK), text()]), user()), "cache_control"),
    "five marks": (messages(user([text(**MARK)] * 5)), "maximum of 4 blocks"),
    "a budget over the limit": (messages(user(), **ENABLED, max_tokens=1024), "must be greater than"),
    "a budget too small": (messages(user(), thinking={"type": "enabled", "budget_tokens": 5}), "1024"),
    "too warm": (messages(user(), temperature=1.5), "temperature"),
    "a tool of another API": (messages(user(), tools=CHAT_TOOLS), "name"),
    "a tool without schema": (messages(user(), tools=[{"name": "add"}]), "input_schema: Field required"),
    "two tools of one name": (messages(user(), tools=TOOLS["tools"] * 2), "must be unique"),
    "a choice without tools": (messages(user(), tool_choice={"type": "auto"}), "tool_choice"),
    "an image of no kind": (
        messages(
            user([{"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "x"}}])
        ),
        "media_type",
    ),
}

GOOD: dict[Shape, dict[str, dict[str, Any]]] = {
    "openai_chat": CHAT_GOOD,
    "openai_responses": RESPONSES_GOOD,
    "anthropic": MESSAGES_GOOD,
}
BAD: dict[Shape, dict[str, tuple[dict[str, Any], str]]] = {
    "openai_chat": CHAT_BAD,
    "openai_responses": RESPONSES_BAD,
    "anthropic": MESSAGES_BAD,
}


@pytest.mark.parametrize(
    ("shape", "case"), [(shape, case) for shape, cases in GOOD.items() for case in cases]
)
def test_taken(shape: Shape, case: str) -> None:
    """What the API documents is taken, and the body is left as it was."""
    body = copy.deepcopy(GOOD[shape][case])
    assert refusal_of(shape, body) == ""
    assert body == GOOD[shape][case]


@pytest.mark.parametrize(("shape", "case"), [(shape, case) for shape, cases in BAD.items() for case in cases])
def test_refused(shape: Shape, case: str) -> None:
    """What the API refuses is refused, with the reason."""
    body, reason = BAD[shape][case]
    assert reason in refusal_of(shape, body)


ONE_SYSTEM, ALTERNATE = Strictness(one_system=True), Strictness(alternate=True)


@pytest.mark.parametrize(
    ("shape", "strict", "body", "reason"),
    [
        ("openai_chat", ONE_SYSTEM, chat(system(), user()), ""),
        ("openai_chat", ONE_SYSTEM, chat(system(), system(), user()), "at the beginning"),
        ("openai_chat", ONE_SYSTEM, chat(user(), system()), "at the beginning"),
        ("openai_chat", ALTERNATE, chat(system(), user(), said(), user()), ""),
        ("openai_chat", ALTERNATE, chat(user(), said(None, "a"), tool("a"), said(), user()), ""),
        (
            "openai_chat",
            ALTERNATE,
            chat(user(), said(None, "a"), tool("a"), said(None, "b"), tool("b"), said()),
            "",
        ),
        ("openai_chat", ALTERNATE, chat(user(), user()), "must alternate"),
        ("openai_chat", ALTERNATE, chat(system(), said(), user()), "must alternate"),
        ("openai_chat", ALTERNATE, chat(user(), said(), said()), "must alternate"),
        ("anthropic", ALTERNATE, messages(user(), said(), user()), ""),
        ("anthropic", ALTERNATE, messages(user(), user()), "roles must alternate"),
        (
            "openai_chat",
            Strictness(unknown_fields=True),
            chat(said("Hi", reasoning_content="Hm"), top_k=4),
            "",
        ),
    ],
)
def test_what_some_servers_demand(
    shape: Shape, strict: Strictness, body: dict[str, Any], reason: str
) -> None:
    """Chat templates and older APIs are stricter, others laxer; a test says which it wants."""
    found = refusal_of(shape, body, strict)
    assert (reason in found) if reason else found == ""
