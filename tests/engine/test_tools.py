"""engine/tools.py: functions as tools, what they take and what they answer."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import threading
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.engine.tools import AgentTool, content_of, tool
from stratalog.errors import InvalidInput
from stratalog.types import Content, Data, Image, Text


@dataclasses.dataclass
class Place:
    name: str
    height: float | None = None


class Trip(msgspec.Struct):
    stops: list[Place]
    mode: Literal["foot", "boat"] = "foot"


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Opaque:
    pass


def called(made: AgentTool, **args: Any) -> Content:
    async def run() -> Content:
        return await made.run(args)

    return asyncio.run(run())


def test_a_plain_function_is_a_tool() -> None:
    """Name, description and schema are the function's; it runs in another thread and its text is the
    answer."""
    threads = []

    def weather(city: str, days: int = 1) -> str:
        """The weather forecast for a city."""
        threads.append(threading.current_thread())
        return f"{days} days of rain in {city}"

    made = tool(weather)
    assert (made.name, made.tool.description) == ("weather", "The weather forecast for a city.")
    assert made.tool.parameters == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
        "required": ["city"],
        "additionalProperties": False,
    }
    assert called(made, city="Bergen") == "1 days of rain in Bergen"
    assert called(made, city="Bergen", days=3) == "3 days of rain in Bergen"
    assert threading.main_thread() not in threads
    named = tool(weather, name="forecast", description="Tells it.")
    assert (named.tool.name, named.tool.description) == ("forecast", "Tells it.")


def test_asynchronous_functions_run_in_the_loop() -> None:
    """So does what is asynchronous without saying so: a callable object, or a function that gives back
    something to be awaited."""
    threads = []

    async def ping(word: str) -> str:
        await asyncio.sleep(0)
        threads.append(threading.current_thread())
        return word * 2

    class Pong:
        async def __call__(self, word: str) -> str:
            return word * 3

    def late(word: str) -> Any:
        return ping(word)

    assert called(tool(ping), word="a") == "aa"
    assert threads == [threading.main_thread()]
    assert called(tool(Pong(), name="pong"), word="a") == "aaa"
    assert called(tool(late), word="b") == "bb"


def test_arguments_are_made_into_what_the_annotations_say() -> None:
    """Nested classes, lists, choices, what may be missing, maps with whole numbers for keys."""
    seen: list[Any] = []

    def plan(
        trip: Trip,
        *,
        colour: Colour = Colour.RED,
        limit: Annotated[int, msgspec.Meta(ge=1)] = 5,
        tags: list[str] | None = None,
        floors: dict[int, str] = {},  # noqa: B006 - a default of this kind is what is tested
        home: Place = Place("home"),  # noqa: B008 - the same
    ) -> str:
        seen.append((trip, colour, limit, tags, floors, home))
        return "ok"

    made = tool(plan)
    called(made, trip={"stops": [{"name": "A"}, {"name": "B", "height": 3}], "mode": "boat"})
    trip = Trip([Place("A"), Place("B", 3.0)], "boat")
    assert seen.pop() == (trip, Colour.RED, 5, None, {}, Place("home"))
    called(made, trip={"stops": []}, colour="blue", tags=["x"], floors={"2": "two"}, home={"name": "cabin"})
    assert seen.pop() == (Trip([]), Colour.BLUE, 5, ["x"], {2: "two"}, Place("cabin"))
    assert made.tool.parameters["required"] == ["trip"]
    assert set(made.tool.parameters["$defs"]) == {"Trip", "Place", "Colour"}
    assert "$ref" not in made.tool.parameters
    for wrong in (
        {},
        {"trip": {}},
        {"trip": {"stops": [{"height": 1}]}},
        {"trip": {"stops": [], "mode": "air"}},
        {"trip": {"stops": []}, "limit": 0},
        {"trip": {"stops": []}, "colour": "green"},
        {"trip": {"stops": []}, "more": 1},
    ):
        with pytest.raises(InvalidInput, match="the arguments do not fit"):
            called(made, **wrong)
    assert seen == []


def test_a_class_of_the_functions_own_name() -> None:
    """The schema is in one piece also where a parameter's class is called as the tool is."""

    def find(place: Place) -> str:
        return place.name

    made = tool(find, name="Place")
    assert list(made.tool.parameters["properties"]) == ["place"]
    assert made.tool.parameters["type"] == "object"
    assert "$ref" not in made.tool.parameters
    (kept,) = made.tool.parameters["$defs"].values()
    assert list(kept["properties"]) == ["name", "height"]
    assert called(made, place={"name": "B"}) == "B"


def _no_annotation(x) -> None: ...  # type: ignore[no-untyped-def]


def _any_number(*args: int) -> None: ...


def _any_name(**args: int) -> None: ...


def _by_place(x: int, /) -> None: ...


def _no_such_type(x: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821 - that is tested


def _opaque(x: Opaque) -> None: ...


def _complex(x: complex) -> None: ...


def _two_arrays(x: list[int] | tuple[int, int]) -> None: ...


@pytest.mark.parametrize(
    "function",
    [
        _no_annotation,
        _any_number,
        _any_name,
        _by_place,
        _no_such_type,
        _opaque,
        _complex,
        _two_arrays,
        print,
        functools.partial(called),
    ],
)
def test_what_cannot_be_a_tool_is_told(function: Callable[..., Any]) -> None:
    """A parameter without a name or a type that JSON can hold is refused when the tool is made, in words."""
    with pytest.raises(InvalidInput) as error:
        tool(function)
    assert error.value.hint


@pytest.mark.parametrize("name", ["two words", "ü", "x" * 65, "a.b", "<lambda>"])
def test_names_that_no_provider_takes(name: str) -> None:
    """A name is of letters, digits, _ and -, at most 64; refused here, not by every request."""

    def fine(x: int) -> int:
        return x

    with pytest.raises(InvalidInput, match="cannot be called so"):
        tool(fine, name=name)
    assert tool(fine, name="x" * 64).name == "x" * 64


def test_what_a_function_returns_is_content() -> None:
    """Text as it is, parts as parts, alone, in a tuple or a list; all else is JSON."""
    image = Image(url="https://x/y.png")
    assert content_of("text") == "text"
    assert content_of(image) == (image,)
    assert content_of((Text(text="a"), image)) == (Text(text="a"), image)
    assert content_of([Text(text="a"), Data(kind="x", value=1)]) == (Text(text="a"), Data(kind="x", value=1))
    assert content_of({"a": [1, None]}) == '{"a":[1,null]}'
    assert content_of(None) == "null"
    assert content_of([]) == "[]"
    assert str(content_of(("a", Text(text="b")))).startswith('["a",')
    assert content_of(Place("A", 1.5)) == '{"name":"A","height":1.5}'
    with pytest.raises(TypeError):
        content_of(object())


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=10,
)


@given(_JSON.filter(lambda value: not isinstance(value, str)))
def test_json_is_read_back_as_it_was(value: Any) -> None:
    """What is no text and no part is answered as JSON of the same value."""
    content = content_of(value)
    assert isinstance(content, str)
    assert msgspec.json.decode(content) == value


def test_what_a_function_raises_is_raised() -> None:
    """Also that which no future can hold: who waits for it is told, and does not wait for ever."""

    def boom() -> None:
        raise KeyError("x")

    def stops() -> None:
        next(iter(()))

    with pytest.raises(KeyError):
        called(tool(boom))
    with pytest.raises(RuntimeError, match="StopIteration"):
        called(tool(stops))


def test_functions_that_hang_hold_up_no_other() -> None:
    """However many do, another runs; one that is cancelled lets its caller go at once. What a caller keeps in
    context variables is seen."""
    go = threading.Event()
    who = contextvars.ContextVar("who", default="nobody")

    def hangs() -> str:
        go.wait(30)
        return who.get()

    def quick() -> str:
        return "quick"

    async def work() -> None:
        who.set("me")
        hung = [asyncio.create_task(_run(hangs)) for _ in range(40)]
        assert await asyncio.wait_for(_run(quick), 20) == "quick"
        hung[0].cancel()
        await asyncio.wait({hung[0]})
        assert hung[0].cancelled()
        go.set()
        assert await asyncio.gather(*hung[1:]) == ["me"] * 39

    async def _run(function: Callable[[], str]) -> Content:
        return await tool(function).run({})

    asyncio.run(work())
