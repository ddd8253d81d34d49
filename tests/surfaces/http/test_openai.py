"""OpenAI's own client against `/v1`: a conversation that is remembered, and nothing of it said twice."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from openai import OpenAI

from stratalog import Stratalog
from stratalog.engine.proxying import Completions
from stratalog.testing.model_server import Break, ModelServer, Refuse
from stratalog.testing.scripted import Call, Gate, Reply
from stratalog.types import Assistant, System, TurnEnd, User
from surfaces.http.conftest import PATIENCE, TENANT, Running, configure
from surfaces.http.test_ending import Process

OFF = "[memory]\nenabled = false"
Modelled = Callable[..., tuple[Running, ModelServer]]
Message = dict[str, Any]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "strict": True,
    },
}
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()


class Client:
    """OpenAI's client with a token of these roles, and the session that it names, if any."""

    def __init__(
        self,
        service: Running,
        *roles: str,
        user: str = "",
        tenant: str = TENANT,
        session: str = "trip",
        days: float = 0,
    ) -> None:
        made = service.tokens.make(tenant, roles=roles or ("user",), user=user or "ana", days=days)
        self.session, self.token = session, made.token
        self.sdk = OpenAI(base_url=f"{service.url}/v1", api_key=made.text, max_retries=0, timeout=PATIENCE)

    def ask(self, *messages: Message | str, headers: dict[str, str] | None = None, **how: Any) -> Any:
        """The completion of these messages."""
        return self.raw(*messages, headers=headers, **how).parse()

    def raw(self, *messages: Message | str, headers: dict[str, str] | None = None, **how: Any) -> Any:
        named = {"x-stratalog-session": self.session} if self.session else {}
        return self.sdk.chat.completions.with_raw_response.create(
            model=how.pop("model", "agent:helper"),
            messages=[each if isinstance(each, dict) else user(each) for each in messages],  # type: ignore[arg-type]
            extra_headers=named | (headers or {}),
            **how,
        )

    def text(self, *messages: Message | str, **how: Any) -> str:
        return str(self.ask(*messages, **how).choices[0].message.content)


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def result(call: Any, text: str) -> Message:
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def log_of(service: Running, chat: str = "trip", agent: str = "helper", tenant: str = TENANT) -> list[Any]:
    with Stratalog(service.data, tenant=tenant) as memory:
        return list(memory.session(f"{agent}:http:{chat}").entries())


def said(service: Running, chat: str = "trip", **where: str) -> list[str]:
    """What the user and the model said in a session, in order."""
    entries = log_of(service, chat, **where)
    return [each.text for each in entries if isinstance(each, User | Assistant) and each.text]


def sent(model: ModelServer, number: int = -1) -> list[Message]:
    return list(model.requests[number].body["messages"])


def completions(service: Running) -> Completions:
    return service.service.completions


def echo(request: Any) -> Reply:
    """A reply that says how many messages it was sent, and the last of them."""
    messages = request.body["messages"]
    return Reply(text=f"{len(messages)}: {messages[-1]['content']}")


# --- whose history it is ---


def test_the_newest_message_is_enough(modelled: Modelled) -> None:
    """A client that names a session and sends its newest message alone has the history from the log, with its
    system's words as it said them last; nothing is doubled."""
    service, model = modelled(echo, toml=OFF)
    client = Client(service)
    first = client.raw({"role": "system", "content": "Be brief."}, "My sister lives in Lisbon.")
    assert first.headers["x-stratalog-session"] == "trip"
    done = first.parse()
    assert done.stratalog == {"session": "trip", "turn": first.headers["x-stratalog-turn"]}
    assert (done.object, done.choices[0].finish_reason, done.model) == ("chat.completion", "stop", "gpt-5")
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens > 0
    client.ask("她住在哪里？")
    assert sent(model) == [
        {"role": "system", "content": "Be brief."},
        user("My sister lives in Lisbon."),
        assistant("2: My sister lives in Lisbon."),
        user("她住在哪里？"),
    ]
    client.ask({"role": "developer", "content": "Be long."}, "And now?")
    assert [each["content"] for each in sent(model) if each["role"] == "system"] == ["Be long."]
    assert not [each for each in log_of(service) if isinstance(each, System)]
    assert said(service)[-2:] == ["And now?", "6: And now?"]


def test_a_whole_history_is_logged_once(modelled: Modelled) -> None:
    """A program that resends everything has one log of it, with each message once, and the model is sent just
    what the program sent."""
    service, model = modelled(echo, toml=OFF)
    client = Client(service)
    history: list[Message] = [{"role": "system", "content": "You are 助手."}]
    for number in range(5):
        history.append(user(f"message {number}  with\r\nspaces"))
        history.append(assistant(client.text(*history)))
    assert sent(model) == history[:-1]
    assert said(service) == [each["content"] for each in history[1:]]
    window = [*history[-4:], user("and with a window?")]
    client.ask(*window)
    assert len(sent(model)) == len(history) + 1


def test_a_conversation_that_was_held_elsewhere_comes_with_it(modelled: Modelled) -> None:
    """What a new session does not know of what is sent is logged before the message, tools and all."""
    service, model = modelled(echo, toml=OFF)
    calls = [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"京"}'}}]
    history: list[Message] = [
        assistant("Hello, what is it?"),
        user("one"),
        assistant("two"),
        user("three"),
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    ]
    client = Client(service)
    answer = client.text(*history)
    assert sent(model)[-5:] == history[1:]
    last = client.text(*history, assistant(answer), "four")
    assert sent(model)[-7:] == [*history[1:], assistant(answer), user("four")]
    assert said(service) == ["Hello, what is it?", "one", "two", "three", answer, "four", last]
    ends = [each.status for each in log_of(service) if isinstance(each, TurnEnd)]
    assert ends == ["answered"] * 3


def test_an_edited_history_parts_from_the_log(modelled: Modelled) -> None:
    """A message said otherwise, and a reply that is to be made anew, go on in sessions of their own, whose
    history is what was sent; the log that was is not touched, and each way is gone on."""
    service, model = modelled(lambda request: Reply(text=f"reply {request.number}"), toml=OFF)
    client = Client(service)
    one = client.text("one")
    two = client.text(user("one"), assistant(one), "two")
    before = said(service)

    edited = client.raw(user("one"), assistant(one), "two, otherwise")
    branch = edited.headers["x-stratalog-session"]
    assert branch.startswith("trip~")
    assert sent(model) == [user("one"), assistant(one), user("two, otherwise")]
    other = edited.parse().choices[0].message.content

    again = client.raw(user("one"), assistant(one), "two")
    assert again.headers["x-stratalog-session"] not in ("trip", branch)
    assert again.parse().choices[0].message.content not in (two, other)
    assert sent(model) == [user("one"), assistant(one), user("two")]

    foreign = client.raw(user("one"), assistant("said by nobody"), "and?")
    assert foreign.headers["x-stratalog-session"] not in ("trip", branch)
    assert sent(model) == [user("one"), assistant("said by nobody"), user("and?")]

    on = client.raw(user("one"), assistant(one), user("two, otherwise"), assistant(str(other)), "three")
    assert on.headers["x-stratalog-session"] == branch
    assert said(service) == before
    main = client.raw(user("one"), assistant(one), user("two"), assistant(two), "three")
    assert main.headers["x-stratalog-session"] == "trip"
    assert said(service) == [*before, "three", main.parse().choices[0].message.content]


def test_who_names_no_session_has_one_for_each_conversation(modelled: Modelled) -> None:
    """A conversation without a name is known by how it began and went on; the same first words again begin
    another. Its name is in the answer."""
    service, model = modelled(lambda request: Reply(text=f"reply {request.number}"), toml=OFF)
    client = Client(service, session="")
    first = client.raw("Hi")
    second = client.raw("Hi")
    names = [each.headers["x-stratalog-session"] for each in (first, second)]
    assert names[0] != names[1]
    assert sent(model) == [user("Hi")]
    for name, answer in zip(names, (first, second), strict=True):
        text = answer.parse().choices[0].message.content
        on = client.raw(user("Hi"), assistant(text), "go on")
        assert on.headers["x-stratalog-session"] == name
        assert said(service, name)[:3] == ["Hi", text, "go on"]
    named = client.raw("more", headers={"x-stratalog-session": names[0]})
    assert len(sent(model)) == 5
    assert named.headers["x-stratalog-session"] == names[0]
    fields = client.raw("and more", extra_body={"metadata": {"session": names[0]}})
    assert fields.headers["x-stratalog-session"] == names[0]
    other = Client(service, user="ben", session="").raw("Hi")
    assert other.headers["x-stratalog-session"] not in names


def test_a_session_has_any_name(modelled: Modelled) -> None:
    """Names that are not ASCII go percent-encoded in headers, and as they are in fields."""
    service, _ = modelled(echo, toml=OFF)
    client = Client(service, session="")
    one = client.raw("一", extra_body={"metadata": {"session": "里斯本 100%"}})
    header = one.headers["x-stratalog-session"]
    assert header.isascii()
    two = client.ask("二", headers={"x-stratalog-session": header})
    assert two.stratalog["session"] == "里斯本 100%"
    assert said(service, "里斯本 100%")[0::2] == ["一", "二"]


def test_what_other_surfaces_say_is_not_the_clients_to_know(modelled: Modelled) -> None:
    """A session that is used otherwise too goes on; its history has both."""
    service, model = modelled(echo, toml=OFF)
    client = Client(service)
    one = client.text("one")
    other = service.client(client.sdk.api_key)
    path = "/v1/agents/helper/sessions/trip/messages"
    assert other.post(path, json={"content": "beside"}).status_code == 200
    on = client.raw(user("one"), assistant(one), "two")
    assert on.headers["x-stratalog-session"] == "trip"
    assert [each["content"] for each in sent(model)] == ["one", one, "beside", "3: beside", "two"]


# --- whose it is ---


def test_nobody_reads_anothers(modelled: Modelled) -> None:
    """A session of another user, or of another tenant, is not there; headers and fields name users."""
    service, model = modelled(echo, toml=OFF)
    ana, ben = Client(service), Client(service, user="ben")
    ana.ask("secret of Ana")
    with pytest.raises(openai.NotFoundError) as missing:
        ben.ask("what did Ana say?")
    assert missing.value.code == "not_found"
    assert "secret" not in str(missing.value)
    with pytest.raises(openai.PermissionDeniedError):
        ben.ask("x", headers={"x-stratalog-user": "ana"})
    assert ben.text("hello", user="ana", headers={"x-stratalog-session": "of-ben"}) == "1: hello"
    elsewhere = Client(service, user="ana", tenant="zeta")
    assert elsewhere.text("hello") == "1: hello"
    agent = Client(service, "agent", session="")
    agent.session = "of-carl"
    agent.ask("one", user="carl")
    agent.ask("two", headers={"x-stratalog-user": "carl"})
    assert len(sent(model)) == 3
    with pytest.raises(openai.NotFoundError):
        agent.ask("three", user="dora")
    assert said(service, "of-carl")[0::2] == ["one", "two"]


def test_errors_are_those_that_the_client_knows(modelled: Modelled) -> None:
    """No token, one that may not talk, a broken body, a path and a model that there are not."""
    service, _ = modelled(echo, toml=OFF)
    with pytest.raises(openai.AuthenticationError):
        OpenAI(base_url=f"{service.url}/v1", api_key="strata_x_y", max_retries=0).models.list()
    with pytest.raises(openai.PermissionDeniedError):
        Client(service, "metrics").ask("x")
    client = Client(service)
    with pytest.raises(openai.NotFoundError):
        client.sdk.models.retrieve("agent:nobody")
    raw = service.client(client.sdk.api_key)
    for body in (b"", b"{", b"[]", b'{"model": "x"}', b'{"model": "x", "messages": [{"role": "king"}]}'):
        answer = raw.post("/v1/chat/completions", content=body)
        assert answer.status_code == 400
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
        assert answer.json()["error"]["type"] == "invalid_request_error"


def test_models_are_agents(modelled: Modelled) -> None:
    """Agents with settings or sessions of one's own, and the ordinary one."""
    service, _ = modelled(echo, toml=OFF)
    client = Client(service)
    client.ask("x")
    Client(service, user="ben", session="b").ask("x", model="agent:bens")
    assert [each.id for each in client.sdk.models.list()] == ["agent:assistant", "agent:helper"]
    assert client.sdk.models.retrieve("agent:helper").owned_by == "stratalog"


def test_a_model_is_named_as_a_program_has_it(modelled: Modelled) -> None:
    """An agent by its name, a model of the agent's provider by its own, or with its provider; one that cannot
    be had is answered for by the agent's own, which is told."""
    service, model = modelled(echo, toml=f'models = ["*"]\n{OFF}')
    client = Client(service, session="m")
    client.ask("x")
    asked: list[tuple[str, dict[str, str], str, str]] = [
        ("helper", {}, "helper", "gpt-5"),
        ("gpt-4o-mini", {}, "assistant", "gpt-4o-mini"),
        ("openai:gpt-4o", {"x-stratalog-agent": "helper"}, "helper", "gpt-4o"),
        ("assistant", {}, "assistant", "gpt-5"),
    ]
    for name, headers, agent, upstream in asked:
        done = client.ask(f"by {name}", model=name, headers=headers)
        assert model.requests[-1].body["model"] == upstream
        assert done.model == upstream
        assert f"by {name}" in said(service, "m", agent=agent)
    lost = client.ask("x", model="anthropic:claude-sonnet-4-5")
    assert lost.model == "gpt-5"
    assert lost.stratalog["warnings"] == [
        "the agent's own model answers: the one that was named cannot be had"
    ]


def test_a_user_names_no_model_that_the_operator_does_not_allow(modelled: Modelled) -> None:
    """It is refused by name, and costs and logs nothing; a token with the role `agent` names any."""
    service, model = modelled(echo, toml=OFF)
    with pytest.raises(openai.PermissionDeniedError, match="models"):
        Client(service).ask("x", model="gpt-5-pro")
    assert model.facts.requests == 0
    assert Client(service, "agent", session="b").ask("x", model="gpt-5-pro").model == "gpt-5-pro"


# --- streams ---


def test_a_stream_is_as_openai_sends_it(modelled: Modelled) -> None:
    """The role first, words as they come, the reason, what it cost where that is asked for; the client's own
    helper makes the same of it as of a whole reply."""
    service, _ = modelled([Reply(text="one two three"), Reply(text="four")], toml=OFF)
    client = Client(service)
    chunks = list(
        client.sdk.chat.completions.create(
            model="agent:helper",
            messages=[{"role": "user", "content": "Count."}],
            stream=True,
            stream_options={"include_usage": True},
            extra_headers={"x-stratalog-session": "trip"},
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(each.choices[0].delta.content or "" for each in chunks if each.choices) == "one two three"
    reasons = [each.choices[0].finish_reason for each in chunks if each.choices]
    assert reasons == [*[None] * (len(reasons) - 1), "stop"]
    assert [each.usage is not None for each in chunks] == [*[False] * (len(chunks) - 1), True]
    assert len({each.id for each in chunks}) == 1
    with client.sdk.chat.completions.stream(
        model="agent:helper", messages=[{"role": "user", "content": "On."}]
    ) as stream:
        assert stream.get_final_completion().choices[0].message.content == "four"


def test_who_leaves_does_not_end_the_turn(modelled: Modelled) -> None:
    """The reply is finished and logged; the same request sent again is answered with it, and a history that
    has only its beginning goes on."""
    gate = Gate()
    service, model = modelled([Reply(text="word " * 50, late_gate=gate), Reply(text="on")], toml=OFF)
    client = Client(service)
    stream = client.raw("Count.", stream=True).parse()
    with closing(stream.response):
        beginning = next(each.choices[0].delta.content for each in stream if each.choices[0].delta.content)
    gate.open()
    again = client.text("Count.", headers={"x-stainless-retry-count": "1"})
    assert again == "word " * 50
    assert model.facts.requests == 1
    assert client.text(user("Count."), assistant(beginning), "Go on.") == "on"
    assert said(service) == ["Count.", "word " * 50, "Go on.", "on"]


def test_a_reply_that_the_model_begins_anew_is_told_as_one(modelled: Modelled) -> None:
    """Where the connection to the model broke, what it says again is not said twice; where it says something
    else, the stream ends with an error and the whole reply is had by asking again."""
    cut = Break(reply=Reply(text="one two three four"), after=2, code="server_error")
    service, model = modelled([cut, "one two three four", cut, "quite another"], toml=OFF)
    client = Client(service)
    pieces = [each.choices[0].delta.content or "" for each in client.raw("Count.", stream=True).parse()]
    assert "".join(pieces) == "one two three four"
    with pytest.raises(openai.APIError, match="began its reply anew"):
        list(client.raw("Again.", stream=True).parse())
    assert client.text("Again.", headers={"x-stainless-retry-count": "1"}) == "quite another"
    assert model.facts.requests == 4


# --- tools ---


def test_the_clients_tools_are_called_by_the_client(modelled: Modelled) -> None:
    """Two calls at once, streamed with their arguments; the turn stays open, the results go on in it, and the
    tools come to the model as the client wrote them."""
    calls = (Call("weather", {"city": "北京"}), Call("weather", {"city": "Oslo " * 500}))
    service, model = modelled([Reply(text="Let me look.", calls=calls), Reply(text="Rain.")], toml=OFF)
    client = Client(service)
    with client.sdk.chat.completions.stream(
        model="agent:helper",
        messages=[{"role": "user", "content": "天气?"}],
        tools=[WEATHER],  # type: ignore[list-item]
        tool_choice="required",
        extra_headers={"x-stratalog-session": "trip"},
    ) as stream:
        pieces = [each for each in stream if each.type == "tool_calls.function.arguments.delta"]
        message = stream.get_final_completion().choices[0].message
    assert len(pieces) > 2
    assert message.content == "Let me look."
    assert message.tool_calls is not None
    assert [each.function.parsed_arguments for each in message.tool_calls] == [each.args for each in calls]
    assert model.requests[0].body["tools"][0] == WEATHER
    assert model.requests[0].body["tool_choice"] == "required"
    results = [result(each, f"rain {place}") for place, each in enumerate(message.tool_calls)]
    done = client.ask(*reversed(results), tools=[WEATHER])
    assert done.choices[0].message.content == "Rain."
    assert [each["content"] for each in sent(model) if each["role"] == "tool"] == ["rain 0", "rain 1"]
    entries = log_of(service)
    assert len({each.turn for each in entries if each.turn}) == 1
    assert [each.status for each in entries if isinstance(each, TurnEnd)] == ["answered"]


def test_a_whole_history_with_tools_is_logged_once(modelled: Modelled) -> None:
    """A program's loop over its tools, everything resent each time: the model is sent just that."""
    script = [Reply(calls=(Call("weather", {"city": str(number)}),)) for number in range(3)]
    service, model = modelled([*script, Reply(text="done"), Reply(text="more")], toml=OFF)
    client = Client(service, session="")
    history: list[Message] = [user("go")]
    while True:
        message = client.ask(*history, tools=[WEATHER]).choices[0].message
        history.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            break
        history += [result(each, "rain") for each in message.tool_calls]
    last = client.raw(*history, "and?", tools=[WEATHER])
    assert len(sent(model)) == len(history) + 1
    assert said(service, last.headers["x-stratalog-session"]) == ["go", "done", "and?", "more"]


def test_results_belong_to_calls(modelled: Modelled) -> None:
    """Those of no call, and too few, are refused and log nothing; those that came before have their reply."""
    calls = (Call("weather", {}, id="a"), Call("weather", {}, id="b"))
    service, model = modelled([Reply(calls=calls), Reply(text="done")], toml=OFF)
    client = Client(service)
    tool = {"role": "tool", "content": "rain"}
    with pytest.raises(openai.BadRequestError, match="no call"):
        client.ask({**tool, "tool_call_id": "a"})
    client.ask("go", tools=[WEATHER])
    before = len(log_of(service))
    for wrong in ([{**tool, "tool_call_id": "a"}], [{**tool, "tool_call_id": each} for each in "abc"]):
        with pytest.raises(openai.BadRequestError):
            client.ask(*wrong)
    with pytest.raises(openai.BadRequestError, match="calls have no result"):
        client.ask(
            "go",
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
                ],
            },
            "never mind",
        )
    assert len(log_of(service)) == before
    assert client.text("go", headers={"x-stainless-retry-count": "1"}) == "None"  # the calls once more
    both = [{**tool, "tool_call_id": each} for each in "ab"]
    assert client.text(*both) == client.text(*both) == "done"
    assert model.facts.requests == 2


def test_a_client_that_never_comes_back_loses_its_turn(modelled: Modelled) -> None:
    """At its deadline the turn is ended; the next message is answered, with a result that says so. Results
    that come later than that are refused."""
    script = [Reply(calls=(Call("weather", {}, id="a"),)), "on", "and on"]
    service, model = modelled(script, toml=f'models = ["extractive"]\n{OFF}')
    client = Client(service)
    client.ask("warm up", model="extractive", headers={"x-stratalog-session": "other"})
    completions(service).patience = 0.0
    client.ask("go", tools=[WEATHER])
    while "timed_out" not in [each.status for each in log_of(service) if isinstance(each, TurnEnd)]:
        threading.Event().wait(0.01)
    with pytest.raises(openai.BadRequestError, match="nobody waits"):
        client.ask({"role": "tool", "tool_call_id": "a", "content": "rain"})
    assert client.text("never mind", tools=[WEATHER]) == "on"
    assert sent(model)[-2]["content"].startswith("[no result")
    late = {"role": "tool", "tool_call_id": "a", "content": "rain"}
    assert client.text(late, "and?", tools=[WEATHER]) == "and on"
    assert "rain" in [each["content"] for each in sent(model)]


def test_another_message_ends_a_turn_that_waits(modelled: Modelled) -> None:
    """Who speaks instead of answering a call is answered."""
    service, model = modelled([Reply(calls=(Call("weather", {}, id="a"),)), Reply(text="on")], toml=OFF)
    client = Client(service)
    client.ask("go", tools=[WEATHER])
    assert client.text("never mind") == "on"
    assert [each["role"] for each in sent(model)] == ["user", "assistant", "tool", "user"]
    assert [each.status for each in log_of(service) if isinstance(each, TurnEnd)] == [
        "interrupted",
        "answered",
    ]


def test_what_the_service_performs_is_not_shown(modelled: Modelled) -> None:
    """Tools of the memory are offered where they are asked for, performed here beside the client's own, and
    known to nobody else; a history without them is the log's."""
    script = [
        Reply(text="I look.", calls=(Call("search_memory", {"query": "Lisbon"}),)),
        Reply(text="And ask.", calls=(Call("search_memory", {"query": "x"}), Call("weather", {}, id="a"))),
        Reply(text="All told."),
        Reply(text="more"),
    ]
    service, model = modelled(script, toml='[memory]\nmodel = "extractive"')
    client = Client(service)
    asks = {"x-stratalog-tools": "memory"}
    chunks = list(client.raw("go", tools=[WEATHER], headers=asks, stream=True).parse())
    text = "".join(each.choices[0].delta.content or "" for each in chunks)
    assert text == "I look.\n\nAnd ask."
    names = [
        each.function.name
        for chunk in chunks
        for each in chunk.choices[0].delta.tool_calls or ()
        if each.function.name
    ]
    assert names == ["weather"]
    offered = {each["function"]["name"] for each in model.requests[0].body["tools"]}
    assert {"weather", "search_memory"} <= offered
    call = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    history = [
        user("go"),
        {"role": "assistant", "content": text, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "rain"},
    ]
    answer = client.text(*history, tools=[WEATHER])
    assert answer == "All told."
    assert {each["function"]["name"] for each in model.requests[2].body["tools"]} == {
        "weather",
        "read_result",
    }
    on = client.raw(*history, assistant(answer), "more?")
    assert on.headers["x-stratalog-session"] == "trip"
    assert said(service) == ["go", "I look.", "And ask.", "All told.", "more?", "more"]


def test_what_is_known_comes_before_the_message(modelled: Modelled) -> None:
    """What was remembered of the user is recalled in any session of theirs, for them alone, and is not what
    the client sees as its history."""
    service, model = modelled(echo, toml='[memory]\nmodel = "extractive"')
    client = Client(service)
    kept = service.client(client.sdk.api_key).post(
        "/v1/memory/records", json={"key": "home", "text": "Ana lives in Lisbon, 安娜住在里斯本"}
    )
    assert kept.status_code in (200, 201), kept.text
    client.ask("Where in Lisbon do I live?")
    assert any("Ana lives in Lisbon" in str(each["content"]) for each in sent(model))
    ben = Client(service, user="ben", session="b")
    ben.ask("Where in Lisbon does Ana live?")
    assert not any("Ana lives in Lisbon" in str(each["content"]) for each in sent(model))
    assert said(service)[0] == "Where in Lisbon do I live?"


# --- parameters ---


def test_parameters_reach_the_model(modelled: Modelled) -> None:
    """Those that the provider has words for; the shorter of two lengths counts; others are told of."""
    service, model = modelled(echo, toml=OFF)
    client = Client(service)
    given = {
        "temperature": 0.25,
        "top_p": 0.5,
        "seed": 7,
        "stop": ["END"],
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "response_format": {"type": "json_object"},
        "reasoning_effort": "low",
    }
    raw = client.raw("x", **given, max_tokens=99, n=1, extra_body={"top_k": 4, "x-y": 1})
    body = model.requests[-1].body
    assert {name: body[name] for name in given} == given
    assert body["max_completion_tokens"] == 99
    assert raw.headers["x-stratalog-ignored"] == "top_k, x-y"
    client.ask("x", max_completion_tokens=1_000_000)
    assert model.requests[-1].body["max_completion_tokens"] == 4_096
    assert "temperature" not in model.requests[-1].body


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"temperature": 9}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools"),
        ({"tools": [WEATHER, WEATHER]}, None),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools"),
        ({"audio": {"voice": "alloy", "format": "wav"}}, "audio"),
    ],
)
def test_what_cannot_be_done_is_refused(service: Running, wrong: dict[str, Any], param: str | None) -> None:
    """What would change the reply, and is not done here, is a bad request that names it; none is logged."""
    client = Client(service)
    with pytest.raises(openai.BadRequestError) as refused:
        client.ask("x", **wrong)
    assert (refused.value.param or "").partition("[")[0] == (param or "")
    assert said(service) == []


def test_the_last_message_is_not_a_reply(service: Running) -> None:
    """A reply that is to be gone on with is refused."""
    with pytest.raises(openai.BadRequestError, match="last message"):
        Client(service).ask("x", assistant("Once upon"))


def test_a_reply_that_was_cut_says_so(modelled: Modelled) -> None:
    """Its reason is `length`; of a refusal it is told as one."""
    service, _ = modelled([Reply(text="a", stop="length"), Reply(refusal="I will not.")], toml=OFF)
    client = Client(service)
    assert client.ask("x").choices[0].finish_reason == "length"
    message = client.ask("y").choices[0].message
    assert (message.content, message.refusal) == (None, "I will not.")


def test_an_image_is_sent_on(modelled: Modelled) -> None:
    """Parts that are no words are logged and sent; another image is another message."""
    service, model = modelled(echo, toml=OFF)
    client = Client(service)

    def look(data: str) -> Message:
        url = f"data:image/png;base64,{data}"
        return {
            "role": "user",
            "content": [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": url}}],
        }

    history = [look(PIXEL)]
    done = client.raw(*history)
    assert sent(model)[0]["content"][1]["image_url"]["url"].endswith(PIXEL)
    reply = str(done.parse().choices[0].message.content)
    same = client.raw(*history, assistant(reply), "and?")
    assert same.headers["x-stratalog-session"] == "trip"
    assert len(sent(model)) == 3
    with pytest.raises(openai.BadRequestError):
        client.ask(look("???"))


def test_what_may_not_leave_does_not(modelled: Modelled) -> None:
    """A session whose words stay on this machine asks no model elsewhere, whichever is named."""
    service, model = modelled(echo, toml=f'reach = "world"\n{OFF}')
    client = Client(service)
    client.ask("x")
    with Stratalog(service.data, tenant=TENANT) as memory:
        memory.session("helper:http:trip").set_metadata(residency="local_only")
    for name in ("agent:helper", "gpt-4o"):
        with pytest.raises(openai.PermissionDeniedError):
            client.ask("secret", model=name, headers={"x-stratalog-agent": "helper"})
    assert model.facts.requests == 1


def test_what_is_too_long_is_told(modelled: Modelled) -> None:
    """A message that does not fit is a bad request with OpenAI's code for it."""
    service, model = modelled(echo, toml=f'windows = {{ "gpt-5" = 2000 }}\nmax_output = 100\n{OFF}')
    with pytest.raises(openai.BadRequestError) as long:
        Client(service).ask("word " * 20_000)
    assert long.value.code == "context_length_exceeded"
    assert model.facts.requests == 0


def test_who_asks_too_often_is_told(modelled: Modelled) -> None:
    """As the client knows it, with the seconds to wait."""
    service, _ = modelled(echo, toml=OFF, rate=1.0, burst=1)
    client = Client(service)
    client.ask("x")
    with pytest.raises(openai.RateLimitError) as often:
        client.ask("y")
    assert int(often.value.response.headers["retry-after"]) > 0


def test_an_abort_ends_a_completion(modelled: Modelled) -> None:
    """What is aborted elsewhere ends with an error that is not asked again after."""
    gate = Gate()
    service, _ = modelled([Reply(text="one two", late_gate=gate), Reply(text="on")], toml=OFF)
    client = Client(service)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.ask, "x")
        gate.wait_reached()
        ended = service.client(client.sdk.api_key).post("/v1/agents/helper/sessions/trip/abort")
        assert ended.json() == {"aborted": True}
        with pytest.raises(openai.ConflictError) as aborted:
            asked.result()
    gate.open()
    assert aborted.value.response.headers["x-should-retry"] == "false"
    assert client.text("y") == "on"


# --- once, and in order ---


def test_a_request_that_failed_is_gone_on_with(modelled: Modelled) -> None:
    """The client's own retries after an error of the provider leave one message in the log and one reply; the
    errors are those that it knows."""
    up = threading.Event()
    service, _ = modelled(lambda request: "up" if up.is_set() else Refuse(503, retry_after=0), toml=OFF)
    client = Client(service)
    for stream in (False, True):
        with pytest.raises(openai.InternalServerError) as failed:
            client.ask("x", stream=stream)
        assert failed.value.status_code == 503
        assert "127.0.0.1" not in str(failed.value)
    up.set()
    assert client.text("x") == "up"
    assert said(service) == ["x", "up"]


def test_what_the_provider_refuses_is_told(modelled: Modelled) -> None:
    """As an error with its status, without the provider's words."""
    service, _ = modelled([Refuse(400, message="secret words")], toml=OFF)
    with pytest.raises(openai.APIStatusError) as failed:
        Client(service).ask("x")
    assert failed.value.status_code == 502
    assert "secret" not in str(failed.value)


def test_a_key_is_one_request(modelled: Modelled) -> None:
    """The same key is answered with the same reply, streamed or not, with or without a session named; with
    another body it is refused."""
    service, model = modelled(lambda request: Reply(text=f"reply {request.number}"), toml=OFF)
    for session in ("trip", ""):
        client = Client(service, session=session)
        key = {"idempotency-key": f"k-{session}"}
        first, again = client.raw("x", headers=key), client.raw("x", headers=key)
        assert first.headers["x-stratalog-turn"] == again.headers["x-stratalog-turn"]
        assert first.parse().choices[0].message == again.parse().choices[0].message
        assert first.parse().id == again.parse().id
        with pytest.raises(openai.BadRequestError, match="another request"):
            client.ask("x", temperature=1, headers=key)
    assert model.facts.requests == 2
    client = Client(service)
    assert client.text("x") == client.text("x", headers={"x-stainless-retry-count": "2"})
    assert client.text("x") != client.text("x")


def test_one_sent_again_while_it_runs_waits_for_it(modelled: Modelled) -> None:
    """Two at once with one key are one turn, and both have its reply."""
    gate = Gate()
    service, model = modelled([Reply(text="once", gate=gate)], toml=OFF)
    client = Client(service)
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(client.text, "x", headers={"idempotency-key": "k"}) for _ in range(2)]
        gate.wait_reached()
        gate.open()
        assert [each.result() for each in both] == ["once", "once"]
    assert model.facts.requests == 1
    assert said(service) == ["x", "once"]


def test_a_busy_session_is_waited_for(modelled: Modelled) -> None:
    """One by one in the order of their coming; who waits too long is told so, and has left nothing."""
    gate = Gate()
    service, model = modelled(
        lambda request: Reply(text="late", gate=gate) if request.number == 1 else Reply(text="r"), toml=OFF
    )
    client = Client(service)
    client.ask("first")
    with ThreadPoolExecutor(8) as pool:
        slow = pool.submit(client.text, "slow")
        gate.wait_reached()
        completions(service).wait = 0.05
        with pytest.raises(openai.ConflictError) as busy:
            client.ask("impatient")
        assert busy.value.code == "session_busy"
        assert busy.value.response.headers["retry-after"] == "1"
        completions(service).wait = PATIENCE
        others = [pool.submit(client.text, f"message {number}") for number in range(4)]
        gate.open()
        assert slow.result() == "late"
        assert [each.result() for each in others] == ["r"] * 4
    words = said(service)
    assert "impatient" not in words
    assert words[:4] == ["first", "r", "slow", "late"]
    assert sorted(words[4::2]) == [f"message {number}" for number in range(4)]
    assert len(sent(model)) == 11


def test_conversations_that_begin_alike_do_not_wait_for_one_another(modelled: Modelled) -> None:
    """Many at once with the same first words, and no session named: each is answered while the first is not
    yet, in a session of its own."""
    gate = Gate()
    service, _ = modelled(
        lambda request: Reply(text=f"reply {request.number}", gate=gate if not request.number else None),
        toml=OFF,
    )
    client = Client(service, session="")
    with ThreadPoolExecutor(6) as pool:
        slow = pool.submit(client.raw, "Hi")
        gate.wait_reached()
        others = [each.result() for each in [pool.submit(client.raw, "Hi") for _ in range(5)]]
        gate.open()
        names = {each.headers["x-stratalog-session"] for each in (*others, slow.result())}
    assert len(names) == 6
    assert all(len(said(service, name)) == 2 for name in names)


def test_two_that_go_on_from_one_place_part(modelled: Modelled) -> None:
    """Of two requests at once with one history and other messages after it, one goes on in the session and
    the other parts from it: neither sees the other's."""
    gate = Gate()
    service, model = modelled(
        lambda request: Reply(text=f"reply {request.number}", gate=gate if request.number == 1 else None),
        toml=OFF,
    )
    client = Client(service)
    one = client.text("one")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(client.raw, "one", assistant(one), "two")
        gate.wait_reached()
        second = pool.submit(client.raw, "one", assistant(one), "three")
        gate.open()
        names = [each.result().headers["x-stratalog-session"] for each in (first, second)]
    assert names[0] == "trip"
    assert names[1].startswith("trip~")
    assert sent(model) == [user("one"), assistant(one), user("three")]


def test_many_sessions_at_once(modelled: Modelled) -> None:
    """Twenty programs that resend their history, streamed and not: each has its own, whole."""
    service, _ = modelled(echo, toml=OFF, burst=1_000)

    def talk(number: int) -> list[str]:
        client = Client(service, user=f"user-{number}", session="" if number % 2 else f"s-{number}")
        history: list[Message] = []
        for turn in range(3):
            history.append(user(f"{number}/{turn} 你好"))
            if turn % 2:
                chunks = client.raw(*history, stream=True).parse()
                text = "".join(each.choices[0].delta.content or "" for each in chunks)
            else:
                text = client.text(*history)
            history.append(assistant(text))
        return [each["content"] for each in history]

    with ThreadPoolExecutor(20) as pool:
        for number, words in enumerate(pool.map(talk, range(20))):
            expected = [
                (f"{number}/{turn} 你好", f"{2 * turn + 1}: {number}/{turn} 你好") for turn in range(3)
            ]
            assert words == [each for pair in expected for each in pair]


# --- how it ends ---


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., tuple[Path, ModelServer]]]:
    opened: list[ModelServer] = []

    def make(script: Any) -> tuple[Path, ModelServer]:
        model = ModelServer(script)
        model.__enter__()
        opened.append(model)
        configure(tmp_path / "data", OFF, model="openai:gpt-5", base_url=model.openai_url)
        return tmp_path / "data", model

    yield make
    for model in opened:
        model.__exit__(None, None, None)


@pytest.mark.crash
def test_a_kill_between_a_call_and_its_result(process: Callable[..., tuple[Path, ModelServer]]) -> None:
    """The service is killed while the client performs the tool: the next one takes the result, goes on in the
    same turn, and asked nothing in between."""
    data, model = process([Reply(calls=(Call("weather", {"city": "京"}, id="a"),)), Reply(text="Rain.")])
    first = Process(data, 0)
    sdk, token = _sdk(first)
    ask = {"model": "agent:helper", "tools": [WEATHER], "extra_headers": {"x-stratalog-session": "trip"}}
    history: list[Message] = [user("go")]
    message = sdk.chat.completions.create(messages=history, **ask).choices[0].message  # type: ignore[arg-type]
    first.kill()
    second = Process(data, 0)
    again = OpenAI(base_url=f"{second.url}/v1", api_key=token, max_retries=0)
    history += [message.model_dump(exclude_none=True), result(message.tool_calls[0], "rain")]  # type: ignore[index]
    done = again.chat.completions.create(messages=history, **ask)  # type: ignore[arg-type]
    assert done.choices[0].message.content == "Rain."
    second.kill()
    assert model.facts.requests == 2
    with Stratalog(data, tenant="acme") as memory:
        entries = list(memory.session("helper:http:trip").entries())
    assert [each.status for each in entries if isinstance(each, TurnEnd)] == ["answered"]
    assert len([each for each in entries if isinstance(each, User)]) == 1


@pytest.mark.crash
def test_a_kill_while_the_model_speaks(process: Callable[..., tuple[Path, ModelServer]]) -> None:
    """The same request sent to the next service is answered, and is in the log once."""
    gate = Gate()
    data, model = process([Reply(text="one two three", late_gate=gate), Reply(text="whole")])
    first = Process(data, 0)
    sdk, token = _sdk(first)
    ask = {"model": "agent:helper", "extra_headers": {"x-stratalog-session": "trip"}}
    stream = sdk.chat.completions.create(messages=[user("go")], stream=True, **ask)  # type: ignore[arg-type]
    next(iter(stream))
    gate.wait_reached()
    first.kill()
    with pytest.raises((openai.APIError, httpx2.HTTPError)):
        list(stream)
    gate.open()
    second = Process(data, 0)
    again = OpenAI(base_url=f"{second.url}/v1", api_key=token, max_retries=0)
    done = again.chat.completions.create(messages=[user("go")], **ask)  # type: ignore[arg-type]
    assert done.choices[0].message.content == "whole"
    second.kill()
    with Stratalog(data, tenant="acme") as memory:
        entries = list(memory.session("helper:http:trip").entries())
    assert [each.text for each in entries if isinstance(each, User | Assistant)] == ["go", "whole"]
    assert model.facts.requests == 2


def test_the_service_ends_after_its_turns(modelled: Modelled) -> None:
    """A turn that runs when the service is told to end is finished, and its client has the reply."""
    gate = Gate()
    service, _ = modelled([Reply(text="whole", gate=gate)], toml=OFF)
    client = Client(service)
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(client.text, "go")
        gate.wait_reached()
        ended = pool.submit(service.stop)
        while not service.service.turns.draining:
            threading.Event().wait(0.01)
        gate.open()
        assert asked.result() == "whole"
        ended.result()
    assert said(service) == ["go", "whole"]


def _sdk(process: Process) -> tuple[OpenAI, str]:
    token = process.client.headers["authorization"].removeprefix("Bearer ")
    return OpenAI(base_url=f"{process.url}/v1", api_key=token, max_retries=0), token
