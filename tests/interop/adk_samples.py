"""A scripted model, short ways to say things, and any events and steps, for tests of the ADK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import BaseSessionService
from google.genai import types
from hypothesis import strategies as st
from pydantic import PrivateAttr

T = TypeVar("T")
Reply = str | types.Part | list[LlmResponse]
OF_ANA = {"app_name": "shop", "user_id": "ana"}


class Scripted(BaseLlm):
    """A model that answers what it is told to, in order; `asked` are the requests that it had."""

    model: str = "scripted"
    _replies: list[Reply] = PrivateAttr(default_factory=list)
    _asked: list[str] = PrivateAttr(default_factory=list)

    @classmethod
    def of(cls, *replies: Reply) -> Scripted:
        made = cls()
        made._replies = list(replies)
        return made

    @property
    def asked(self) -> list[str]:
        return self._asked

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        said = [part.text or "" for content in llm_request.contents for part in content.parts or []]
        self._asked.append("\n".join(said))
        reply = self._replies.pop(0)
        if isinstance(reply, list):
            for each in reply:
                yield each
        else:
            part = types.Part(text=reply) if isinstance(reply, str) else reply
            yield LlmResponse(content=types.Content(role="model", parts=[part]))


def call(name: str, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


def piece(text: str, *, partial: bool) -> LlmResponse:
    return LlmResponse(
        content=types.Content(role="model", parts=[types.Part(text=text)]), partial=partial or None
    )


def said(text: str, author: str = "user", **fields: Any) -> Event:
    role = "user" if author == "user" else "model"
    fields.setdefault("invocation_id", "i1")
    return Event(author=author, content=types.Content(role=role, parts=[types.Part(text=text)]), **fields)


def state(**delta: Any) -> EventActions:
    return EventActions(state_delta={key.replace("__", ":"): value for key, value in delta.items()})


def run(body: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(body())


async def ask(runner: Runner, text: str, session: str = "s", **how: Any) -> list[Event]:
    message = types.Content(role="user", parts=[types.Part(text=text)])
    return [
        event
        async for event in runner.run_async(user_id="ana", session_id=session, new_message=message, **how)
    ]


async def loaded(service: BaseSessionService, id: str = "s", **how: Any) -> Session:
    found = await service.get_session(**(OF_ANA | how), session_id=id)
    assert found is not None
    return found


def texts(session: Session) -> list[str]:
    return [part.text for event in session.events for part in event.content.parts if part.text]


def dumps(session: Session | None) -> Any:
    return session.model_dump(mode="json") if session is not None else None


def dumps_of(event: Event) -> Any:
    return event.model_dump(mode="json")


KEYS = st.sampled_from(["a", "b", "app:a", "user:a", "user:b", "temp:a"])
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.none() | st.integers(), max_size=2),
)
DELTAS = st.dictionaries(KEYS, VALUES, max_size=3)
USERS = st.sampled_from(["ana", "ben"])
IDS = st.sampled_from(["s", "t"])
STEPS = st.one_of(
    st.tuples(st.just("create"), USERS, IDS, DELTAS),
    st.tuples(st.just("append"), USERS, IDS, DELTAS),
    st.tuples(st.just("append"), USERS, IDS, DELTAS),
    st.tuples(st.just("again"), USERS, IDS, st.just({})),
    st.tuples(st.just("delete"), USERS, IDS, st.just({})),
)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.text(max_size=6), JSON, max_size=3)


def made(kind: Callable[..., T], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Objects of these fields and no others, which `builds` would draw by their types."""
    return st.fixed_dictionaries(fields).map(lambda given: kind(**given))


BLOBS = made(
    types.Blob,
    mime_type=st.sampled_from(["image/png", "audio/wav", "application/pdf"]),
    data=st.binary(max_size=20),
    display_name=st.none() | st.text(max_size=5),
)
PARTS = st.one_of(
    made(types.Part, text=st.text(max_size=20), thought=st.none() | st.booleans()),
    made(types.Part, text=st.text(max_size=5), thought_signature=st.binary(max_size=5)),
    made(types.Part, inline_data=BLOBS),
    made(
        types.Part,
        file_data=made(types.FileData, file_uri=st.text(max_size=9), mime_type=st.just("image/png")),
    ),
    made(
        types.Part,
        function_call=made(
            types.FunctionCall,
            id=st.none() | st.text(max_size=4),
            name=st.none() | st.text(max_size=4),
            args=st.none() | OBJECTS,
        ),
        thought_signature=st.none() | st.binary(max_size=5),
    ),
    made(
        types.Part,
        function_response=made(
            types.FunctionResponse,
            id=st.none() | st.text(max_size=4),
            name=st.text(max_size=4),
            response=st.none()
            | OBJECTS
            | st.fixed_dictionaries({"result": JSON})
            | st.fixed_dictionaries({"error": st.text(max_size=9)}),
        ),
    ),
    made(
        types.Part,
        executable_code=made(
            types.ExecutableCode, code=st.text(max_size=9), language=st.just(types.Language.PYTHON)
        ),
    ),
    st.just(types.Part()),
)
CONTENTS = made(
    types.Content,
    role=st.sampled_from([None, "user", "model"]),
    parts=st.none() | st.lists(PARTS, max_size=5),
)
EVENTS = made(
    Event,
    author=st.sampled_from(["user", "agent", ""]),
    invocation_id=st.sampled_from(["", "i1", "i2"]),
    timestamp=st.floats(min_value=0, max_value=4e9),
    content=st.none() | CONTENTS,
    branch=st.none() | st.text(max_size=5),
    long_running_tool_ids=st.none() | st.sets(st.text(max_size=3), max_size=2),
    usage_metadata=st.none()
    | made(
        types.GenerateContentResponseUsageMetadata,
        prompt_token_count=st.none() | st.integers(0, 9),
        thoughts_token_count=st.none() | st.integers(0, 9),
    ),
    custom_metadata=st.none() | OBJECTS,
    actions=made(
        EventActions,
        state_delta=st.dictionaries(st.text(max_size=5) | KEYS, JSON, max_size=3),
        artifact_delta=st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=2),
        transfer_to_agent=st.none() | st.text(max_size=5),
        agent_state=st.none() | OBJECTS,
        compaction=st.none()
        | made(
            EventCompaction,
            start_timestamp=st.floats(0, 9),
            end_timestamp=st.floats(0, 9),
            compacted_content=CONTENTS,
        ),
    ),
)
