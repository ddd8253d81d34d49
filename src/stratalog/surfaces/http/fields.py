"""Fields of requests that several groups of routes have."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from litestar.params import HeaderParameter, PathParameter, QueryParameter

AgentName: TypeAlias = Annotated[str, PathParameter(description="The agent's name.", max_length=1024)]
ChatId: TypeAlias = Annotated[str, PathParameter(description="The session's chat.", max_length=1024)]
TurnId: TypeAlias = Annotated[str, PathParameter(description="The id of a turn.", max_length=64)]
TokenId: TypeAlias = Annotated[str, PathParameter(description="The id of a token.", max_length=64)]
Channel: TypeAlias = Annotated[
    str, QueryParameter(description="The channel of the session.", min_length=1, max_length=1024)
]
Limit: TypeAlias = Annotated[int, QueryParameter(description="How many at most.", ge=1, le=500)]
Words: TypeAlias = Annotated[
    str,
    QueryParameter(name="query", description="Words, in any language.", min_length=1, max_length=4_000),
]
Best: TypeAlias = Annotated[int, QueryParameter(description="How many at most.", ge=1, le=100)]
WordsAlone: TypeAlias = Annotated[
    bool, QueryParameter(description="By words alone, also where there are vectors.")
]
Cursor: TypeAlias = Annotated[
    str, QueryParameter(description="The `cursor` of the page before.", max_length=8192)
]
LastEventId: TypeAlias = Annotated[
    str | None, HeaderParameter(name="last-event-id", description="The last event that came.", max_length=128)
]
