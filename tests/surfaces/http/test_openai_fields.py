"""What programs send to completions, field by field, as the clients of several frameworks do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import openai
import pydantic
import pytest

from stratalog.testing.model_server import ModelServer
from stratalog.testing.scripted import Call, Reply
from surfaces.http.conftest import Running
from surfaces.http.test_openai import (
    OFF,
    PIXEL,
    WEATHER,
    Client,
    Message,
    assistant,
    echo,
    result,
    said,
    sent,
    user,
)

Modelled = Callable[..., tuple[Running, ModelServer]]


BY_ID = {"type": "file", "file": {"file_id": "f"}}


class City(pydantic.BaseModel):
    name: str
    rain: bool


# --- parameters ---


def test_tools_are_chosen_as_the_client_says(modelled: Modelled) -> None:
    """One by its name, none, several at once or not; what a tool is forced by is so for one reply alone, and
    without tools nothing of them is told to the model."""
    call = Reply(calls=(Call("weather", {"city": "京"}, id="a"),))
    service, model = modelled([call, Reply(text="Rain."), Reply(text="no"), Reply(text="plain")], toml=OFF)
    client = Client(service)
    named = {"type": "function", "function": {"name": "weather"}}
    first = client.ask("go", tools=[WEATHER], tool_choice=named, parallel_tool_calls=False)
    body = model.requests[-1].body
    assert (body["tool_choice"], body["parallel_tool_calls"]) == (named, False)
    made = first.choices[0].message.tool_calls
    assert [(each.function.name, each.function.arguments) for each in made] == [("weather", '{"city":"京"}')]
    assert (first.choices[0].finish_reason, first.choices[0].message.content) == ("tool_calls", None)
    client.ask(result(made[0], "rain"), tools=[WEATHER], tool_choice="auto")
    assert model.requests[-1].body["tool_choice"] == "auto"
    client.ask("never", tools=[WEATHER], tool_choice="none")
    assert model.requests[-1].body["tool_choice"] == "none"
    client.ask("bare", parallel_tool_calls=True, tool_choice="auto")
    bare = set(model.requests[-1].body)
    assert not bare & {"tools", "tool_choice", "parallel_tool_calls"}
    with pytest.raises(openai.BadRequestError, match="names none") as unknown:
        client.ask("x", tools=[WEATHER], tool_choice={"type": "function", "function": {"name": "other"}})
    assert unknown.value.param == "tool_choice"


def test_a_form_of_the_reply_is_asked_for(modelled: Modelled) -> None:
    """A JSON schema goes to the model as it is; the client's own helper reads the reply by it, streamed
    too."""
    service, model = modelled(lambda request: '{"name": "北京", "rain": true}', toml=OFF)
    client = Client(service)
    asked: Any = {"model": "agent:helper", "messages": [user("?")], "response_format": City}
    parsed = client.sdk.chat.completions.parse(**asked)
    assert parsed.choices[0].message.parsed == City(name="北京", rain=True)
    form = model.requests[-1].body["response_format"]
    assert (form["type"], form["json_schema"]["name"], form["json_schema"]["strict"]) == (
        "json_schema",
        "City",
        True,
    )
    with client.sdk.chat.completions.stream(**asked) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == City(name="北京", rain=True)


@pytest.mark.parametrize(
    ("options", "counted"),
    [(None, False), ({"include_usage": False}, False), ({"include_usage": True}, True)],
)
def test_what_a_stream_cost_is_told_where_it_is_asked_for(
    modelled: Modelled, options: dict[str, bool] | None, counted: bool
) -> None:
    """In a last chunk without choices, and null in those before; else no chunk has the field."""
    service, _ = modelled([Reply(text="one two three")], toml=OFF)
    client = Client(service)
    lines = client.raw("x", stream=True, stream_options=options).http_response.read().decode().splitlines()
    assert lines[-2] == "data: [DONE]"
    chunks = [each for each in lines if each.startswith("data: {")]
    assert [('"usage"' in each) for each in chunks] == [counted] * len(chunks)
    assert ['"choices":[]' in each for each in chunks] == [False] * (len(chunks) - 1) + [counted]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"n": 3}, "one reply is made for each request"),
        ({"logprobs": True, "top_logprobs": 2}, "how likely words were is not told"),
        ({"modalities": ["audio"]}, "replies are words alone"),
        ({"functions": [{"name": "f"}]}, "send `tools`"),
        ({"web_search_options": {}}, "nothing is looked for on the web here"),
        ({"messages": [{"role": "function", "name": "f", "content": "x"}]}, r"messages\[0\].role"),
        (
            {"messages": [{"role": "user", "content": [BY_ID]}]},
            "file_data",
        ),
        ({"seed": 2**64}, "seed"),
    ],
)
def test_what_is_refused_is_told_clearly(service: Running, wrong: dict[str, Any], words: str) -> None:
    """By the name of the field, and with the reason."""
    sdk = Client(service).sdk
    with pytest.raises(openai.BadRequestError, match=words) as refused:
        sdk.chat.completions.create(**{"model": "agent:helper", "messages": [user("x")], **wrong})
    assert refused.value.param
    assert refused.value.param.partition("[")[0] in wrong


def test_as_langchain_asks(modelled: Modelled) -> None:
    """Its fields, with nulls where nothing was said, its parts and its empty words beside calls."""
    service, model = modelled(echo, toml=OFF)
    client = Client(service, "agent", session="")
    call = {"type": "function", "id": "c1", "function": {"name": "weather", "arguments": "{}"}}
    body = {
        "messages": [
            {"content": "Be brief.", "role": "system"},
            {
                "content": [{"type": "text", "text": "It rains? "}, {"type": "text", "text": "Say."}],
                "role": "user",
            },
            {"content": "", "role": "assistant", "tool_calls": [call], "name": None, "refusal": None},
            {"content": "yes", "role": "tool", "tool_call_id": "c1", "name": "weather", "status": "success"},
            {"content": "", "role": "assistant"},
            {"content": "And now?", "role": "user", "name": None},
        ],
        "model": "agent:helper",
        "stream": False,
        "n": 1,
        "stop": None,
        "temperature": 0.5,
        "max_completion_tokens": 64,
        "logprobs": None,
        "tools": [WEATHER],
        "user": "carl",
        "metadata": {"session": "lc", "run": "7"},
        "store": False,
        "prompt_cache_key": "k",
    }
    answer = service.client(client.sdk.api_key).post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["stratalog"]["session"] == "lc"
    assert answer.headers["x-stratalog-ignored"] == "prompt_cache_key"
    assert [each["role"] for each in sent(model)] == ["system", "user", "assistant", "tool", "user"]
    assert model.requests[-1].body["temperature"] == 0.5
    assert model.requests[-1].body["max_completion_tokens"] == 64
    assert said(service, "lc") == ["It rains? \n\nSay.", "And now?", "5: And now?"]
    with pytest.raises(openai.NotFoundError):
        client.ask("x", user="dora", headers={"x-stratalog-session": "lc"})


# --- messages ---


def test_parts_of_a_message_are_sent_on(modelled: Modelled) -> None:
    """Words and images, in their order, by their address or in themselves; the history with them is known
    again."""
    service, model = modelled(lambda request: "seen", toml=OFF)
    client = Client(service)
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": "This"},
        {"type": "image_url", "image_url": {"url": "https://a.example/cat.png", "detail": "low"}},
        {"type": "text", "text": "and this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    ]
    asked = {"role": "user", "content": parts}
    client.ask(asked)
    told = sent(model)[0]["content"]
    assert [each["type"] for each in told] == ["text", "image_url", "text", "image_url"]
    assert told[1]["image_url"]["url"] == "https://a.example/cat.png"
    assert told[3]["image_url"]["url"].endswith(PIXEL)
    client.ask(asked, assistant("seen"), "and?")
    assert [each["role"] for each in sent(model)] == ["user", "assistant", "user"]
    other = {
        "role": "user",
        "content": [*parts[:1], {"type": "image_url", "image_url": {"url": "https://b"}}],
    }
    parted = client.raw(other, assistant("seen"), "and?")
    assert parted.headers["x-stratalog-session"] != "trip"


@pytest.mark.parametrize("empty", [None, "", []])
def test_a_reply_without_words_keeps_nobody_from_going_on(modelled: Modelled, empty: object) -> None:
    """A history with one, as other services make them, is gone on with without it, and is known again."""
    service, model = modelled(echo, toml=OFF)
    client = Client(service, session="")
    history = [user("one"), {"role": "assistant", "content": empty}, user("again")]
    first = client.raw(*history)
    assert sent(model) == [user("one"), user("again")]
    on = client.raw(*history, assistant("2: again"), "three")
    assert on.headers["x-stratalog-session"] == first.headers["x-stratalog-session"]
    assert sent(model) == [user("one"), user("again"), assistant("2: again"), user("three")]


def test_who_edits_without_a_session_parts_too(modelled: Modelled) -> None:
    """A program that names no session, resends all, takes back its last message and says another: two
    conversations, each with its own history, and neither doubled."""
    service, model = modelled(lambda request: Reply(text=f"reply {request.number}"), toml=OFF)
    client = Client(service, session="")
    history = [user("Hi")]
    history.append(assistant(client.text(*history)))
    first = client.raw(*history, "two")
    edited = client.raw(*history, "two, rather")
    names = [each.headers["x-stratalog-session"] for each in (first, edited)]
    assert names[0] != names[1]
    assert sent(model) == [*history, user("two, rather")]
    for name, words, answer in zip(names, ("two", "two, rather"), (first, edited), strict=True):
        reply = answer.parse().choices[0].message.content
        on = client.raw(*history, words, assistant(reply), "three")
        assert on.headers["x-stratalog-session"] == name
        assert sent(model) == [*history, user(words), assistant(reply), user("three")]
        third = on.parse().choices[0].message.content
        assert said(service, name) == ["Hi", history[1]["content"], words, reply, "three", third]


def test_system_words_of_any_place_and_role(modelled: Modelled) -> None:
    """`system` and `developer`, as text or parts, at the beginning or in between, are the system's words,
    once each time, and are no part of what a conversation is known by."""
    service, model = modelled(echo, toml=OFF)
    client = Client(service, session="")
    rules: Message = {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}
    first = client.raw(rules, "Hi")
    reply = first.parse().choices[0].message.content
    late: Message = {"role": "system", "content": "Be kind."}
    on = client.raw({"role": "system", "content": "Be quick."}, "Hi", assistant(reply), late, "and?")
    assert on.headers["x-stratalog-session"] == first.headers["x-stratalog-session"]
    assert sent(model) == [
        {"role": "system", "content": "Be quick.\n\nBe kind."},
        user("Hi"),
        assistant(reply),
        user("and?"),
    ]


# --- headers ---


def test_headers_are_read_in_one_way(modelled: Modelled) -> None:
    """Names are percent-encoded UTF-8, and refused where they are not, as the user's are; a key means itself,
    and each is sent once."""
    service, model = modelled(echo, toml=OFF)
    client = Client(service, "agent", session="")
    done = client.raw("x", headers={"x-stratalog-session": "%E9%87%8C", "stratalog-user": "%E5%B0%8F"})
    assert done.headers["x-stratalog-session"] == "%E9%87%8C"
    assert done.parse().stratalog["session"] == "里"
    raw = service.client(client.sdk.api_key)
    body = {"model": "agent:helper", "messages": [user("x")]}
    for headers in (
        [("x-stratalog-session", "%"), ("x-stratalog-agent", "a")],
        [("x-stratalog-session", "caf\u00e9".encode("latin-1"))],
        [("x-stratalog-session", "a"), ("x-stratalog-session", "a")],
        [("x-stratalog-user", "a"), ("stratalog-user", "b")],
        [("x-stratalog-agent", "%e5%b0")],
    ):
        refused = raw.post("/v1/chat/completions", json=body, headers=httpx.Headers(headers))
        assert refused.status_code == 400, headers
    before = model.facts.requests
    keyed = {"x-stratalog-session": "keyed"}
    for key in ("50%", "50%", "%35%30%25"):
        assert client.ask("x", headers={**keyed, "idempotency-key": key})
    assert model.facts.requests == before + 2
