"""context/shapes/openai_responses.py: items, there and back."""

from __future__ import annotations

from context.shapes.conversations import sealed, signed
from stratalog.context.shapes.contract import Prompt, Tool
from stratalog.context.shapes.openai_responses import OpenAIResponsesShape
from stratalog.types import Assistant, Data, File, Image, Reasoning, Text, ToolCall, ToolResult, User

SHAPE = OpenAIResponsesShape()


def test_a_whole_request() -> None:
    """Instructions with the summary, reasoning sealed before what came of it, calls with the arguments as
    the model wrote them, results in parts where they have images, nothing stored."""
    prompt = Prompt(
        system=("Be kind.",),
        summary="They talked.",
        entries=(
            User(content="Add."),
            Assistant(
                content=(sealed("hm"), Text(text="I add.")), response="r", meta={"phase": "commentary"}
            ),
            ToolCall(call_id="c1", name="add", args={"a": 1}, response="r"),
            ToolCall(call_id="c2", name="add", args="nonsense", response="r"),
            ToolResult(call_id="c1", content="1"),
            ToolResult(call_id="c2", content=(Text(text="see"), Image(url="https://x/y.png"))),
        ),
        tools=(Tool("add", "Adds.", {"type": "object"}),),
        max_output=5,
    )
    assert SHAPE.body(prompt) == {
        "instructions": "Be kind.\n\nSummary of the conversation so far:\nThey talked.",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Add."}]},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": "sealed hm",
            },
            {
                "type": "message",
                "role": "assistant",
                "phase": "commentary",
                "content": [{"type": "output_text", "text": "I add."}],
            },
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":1}'},
            {"type": "function_call", "call_id": "c2", "name": "add", "arguments": "nonsense"},
            {"type": "function_call_output", "call_id": "c1", "output": "1"},
            {
                "type": "function_call_output",
                "call_id": "c2",
                "output": [
                    {"type": "input_text", "text": "see"},
                    {"type": "input_image", "image_url": "https://x/y.png", "detail": "auto"},
                ],
            },
        ],
        "store": False,
        "tools": [
            {
                "type": "function",
                "name": "add",
                "description": "Adds.",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "max_output_tokens": 16,
    }


def test_reasoning_that_it_does_not_take() -> None:
    """Another provider's, one without a seal, and its own with nothing after it are left out; one that was
    imported without its id is sent without."""
    said = (
        Reasoning(text="a"),
        signed("b"),
        Reasoning(redacted="opaque"),
        Reasoning(redacted="gAAAAAx"),
        Text(text="Hi."),
        sealed("c"),
    )
    body = SHAPE.body(Prompt(entries=(User(content="q"), Assistant(content=said))))
    assert body["input"][1:] == [
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAAx"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
    ]


def test_files_and_own_parts() -> None:
    """A PDF by its bytes, any file by its address, parts and items of the provider's own kinds as they are;
    items of its kinds that somebody has to answer are not."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    own = {"type": "input_image", "file_id": "file-1", "detail": "low"}
    entries = (
        User(
            content=(
                File(media_type="application/pdf", data=b"%PDF"),
                File(url="https://x/a.docx"),
                Data(kind="input_image", value=own),
            )
        ),
        Assistant(
            content=(
                Data(kind="web_search_call", value=search),
                Data(kind="computer_call", value={"type": "computer_call"}),
                Text(text="Found."),
            )
        ),
    )
    user, *rest = SHAPE.body(Prompt(entries=entries))["input"]
    assert user["content"] == [
        {
            "type": "input_file",
            "filename": "file.pdf",
            "file_data": "data:application/pdf;base64,JVBERg==",
        },
        {"type": "input_file", "file_url": "https://x/a.docx"},
        own,
    ]
    assert [item["type"] for item in rest] == ["web_search_call", "message"]


def test_a_reply() -> None:
    """Reasoning, phases, refusals, items of the provider's tools, and calls of both kinds, in order."""
    search = {"type": "web_search_call", "id": "ws_1"}
    output = [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
            "encrypted_content": "sealed",
        },
        search,
        {
            "type": "message",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "One."}, {"type": "output_text", "text": "Two."}],
        },
        {"type": "message", "phase": "final_answer", "content": [{"type": "refusal", "refusal": "No."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": "{a"},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": None},
        {"type": "custom_tool_call", "call_id": "c2", "name": "sh", "input": "ls"},
    ]
    assert SHAPE.entries({"output": output}, "r") == [
        Assistant(
            content=(
                Reasoning(text="a\n\nb", signature="rs_1", redacted="sealed"),
                Data(kind="web_search_call", value=search),
                Text(text="One."),
                Text(text="Two."),
            ),
            response="r",
            meta={"phase": "commentary"},
        ),
        Assistant(content="No.", response="r", meta={"phase": "final_answer", "refusal": True}),
        ToolCall(call_id="c1", name="add", args="{a", response="r"),
        Assistant(content=(Reasoning(),), response="r"),
        ToolCall(call_id="c2", name="sh", args="ls", response="r"),
    ]
