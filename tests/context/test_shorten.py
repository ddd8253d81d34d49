"""context/shorten.py: a result too long is shown within its limit, in its own form, and says where the whole
is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.context.shorten import READ_TOOL, SMALLEST_LIMIT, TOOL, Count, piece_of, shortened
from stratalog.errors import InvalidInput
from stratalog.tokens.exact import available, exact_counter
from stratalog.tokens.rough import count_text, rough_counter
from stratalog.types import Blob, Content, Data, Image, Text, ToolResult

ID = "01J9Z3K8XQ4N5T6V7W8Y9Z0ABC"
COUNTERS: dict[str, Count] = {"rough": count_text, "claude": rough_counter("claude-sonnet-4-5").count_text}
if available():
    COUNTERS["exact"] = exact_counter("gpt-4o").count_text
counters = pytest.mark.parametrize("count", COUNTERS.values(), ids=COUNTERS)


def result(content: Content, **more: Any) -> ToolResult:
    return ToolResult(id=ID, seq=7, ts=3, turn="t", call_id="call_1", name="fetch", content=content, **more)


def cut(text: str, limit: int, count: Count = count_text) -> str:
    """The shortened text of a result with one text."""
    shown = shortened(result(text), limit, count)
    assert isinstance(shown.content, str)
    assert count(shown.content) <= limit
    return shown.content


def cut_json(value: Any, limit: int, count: Count = count_text) -> Any:
    return json.loads(cut(json.dumps(value, ensure_ascii=False), limit, count))


# Long strings and lists are made of short ones, for hypothesis does not draw them.
_signs = st.text(st.characters(), min_size=1, max_size=8)
_odd = st.sampled_from(["\ud83d", "\\u0000\x00", "👩\u200d👧", "é" * 3, '"', " ", "\n", "的一是在"])
texts = st.one_of(
    st.text(max_size=30),
    st.builds(lambda said, times: said * times, st.one_of(_signs, _odd), st.integers(1, 400)),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20))
values = st.recursive(
    st.one_of(
        scalars,
        texts,
        st.builds(lambda item, times: [item] * times, scalars, st.integers(1, 200)),
        st.builds(lambda item, times: {f"key {n}": item for n in range(times)}, scalars, st.integers(1, 60)),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(texts, inner, max_size=6)),
    max_leaves=12,
)
limits = st.integers(SMALLEST_LIMIT, 700)


@counters
@settings(deadline=None, max_examples=100)
@given(value=values, limit=limits, plain=st.booleans())
def test_any_json_stays_json_within_the_limit(count: Count, value: Any, limit: int, plain: bool) -> None:
    """Any JSON value at any limit: within it, JSON of the same top-level type, and once is enough; what was
    within is the same object."""
    text = json.dumps(value, ensure_ascii=plain)
    entry = result(text)
    shown = shortened(entry, limit, count)
    assert isinstance(shown.content, str)
    assert count(shown.content) <= limit
    assert type(json.loads(shown.content)) is type(json.loads(text))
    assert shortened(shown, limit, count) is shown
    if count(text) <= limit:
        assert shown is entry
    else:
        shown.content.encode()
        assert shortened(result(text), limit, count) == shown


@counters
@settings(deadline=None, max_examples=50)
@given(lines=st.lists(texts, max_size=40), limit=limits)
def test_any_text_is_within_the_limit(count: Count, lines: list[str], limit: int) -> None:
    """The same for text; what is shown of it is its beginning and its end, word for word."""
    text = "\n".join(["not JSON:", *lines])
    entry = result(text)
    shown = shortened(entry, limit, count)
    assert count(shown.text) <= limit
    assert shortened(shown, limit, count) is shown
    if count(text) <= limit:
        assert shown is entry
        return
    before, _, rest = shown.text.partition("[… ")
    told, _, after = rest.partition(" gives the whole]")
    left_out = int(told.split()[0].replace(",", ""))
    after = after.removeprefix("\n")
    assert told.endswith(f'characters left out; `{READ_TOOL}` with ref "{ID}"')
    # The marker is a line by itself, so a line break may have been added before it.
    starts = before if text.startswith(before) else before.removesuffix("\n")
    assert text.startswith(starts)
    assert text.endswith(after)
    assert len(starts) + left_out + len(after) in (len(text), len(text) + 1)


@counters
@settings(deadline=None, max_examples=50)
@given(st.lists(texts, min_size=1, max_size=8), limits)
def test_any_parts_share_the_limit(count: Count, said: list[str], limit: int) -> None:
    """However many texts a result has: within the limit, and once is enough."""
    entry = result(tuple(Text(text=each) for each in said))
    shown = shortened(entry, limit, count)
    assert count(shown.text) <= limit
    assert shortened(shown, limit, count) is shown
    assert (shown is entry) == (count(entry.text) <= limit)


def test_text_keeps_its_beginning_and_its_end() -> None:
    """Two thirds before and one third after, at line ends, with a line between that counts and names."""
    lines = [f"line {number} of the build's output" for number in range(2_000)]
    text = "\n".join(lines)
    shown = cut(text, 300).split("\n")
    at = next(number for number, line in enumerate(shown) if line.startswith("[… "))
    before, after = shown[:at], shown[at + 1 :]
    assert before == lines[:at]
    assert after == lines[-len(after) :]
    assert 1.5 < len(before) / len(after) < 3
    left_out = len("\n".join(lines[at : -len(after)])) + 1
    assert shown[at] == f'[… {left_out:,} characters left out; `read_result` with ref "{ID}" gives the whole]'
    assert count_text("\n".join(shown)) > 270


def test_text_without_lines_is_cut_between_characters() -> None:
    """No mark is parted from its letter and no pair of code points from its other half."""
    shown = cut("e\u0301" * 5_000, 200)
    before, after = shown.split("\n")[0], shown.split("\n")[2]
    assert before == "e\u0301" * (len(before) // 2)
    assert after == "e\u0301" * (len(after) // 2)


def test_json_lines_are_cut_at_line_ends() -> None:
    """Every line that is shown but the marker is one of the lines, however long they are."""
    lines = [json.dumps({"id": number, "text": "word " * 60}) for number in range(500)]
    shown = cut("\n".join(lines), 600).split("\n")
    marked = [line for line in shown if line.startswith("[… ")]
    assert len(marked) == 1
    assert len(shown) > 3
    assert set(shown) - set(marked) < set(lines)


def test_an_array_keeps_its_first_items_and_its_last() -> None:
    """Items are whole; a string stands for those between, and the reference is the last item."""
    rows = [{"id": number, "name": f"row {number}"} for number in range(1_000)]
    shown = cut_json(rows, 300)
    more = 1_000 - (len(shown) - 2)
    assert len(shown) > 10
    assert shown[:-3] == rows[: len(shown) - 3]
    assert shown[-3:] == [f"… [{more} items left out]", rows[-1], f"{READ_TOOL} {ID}"]


def test_an_object_loses_members_from_its_end() -> None:
    """The first members are whole; a member says how many more there were, another where they are."""
    table = {f"setting_{number}": number for number in range(1_000)}
    shown = cut_json(table, 300)
    kept = list(shown)[:-2]
    assert kept == list(table)[: len(kept)]
    assert len(kept) > 10
    assert all(shown[key] == table[key] for key in kept)
    assert {key: shown[key] for key in list(shown)[-2:]} == {
        "…": f"{1_000 - len(kept)} more members",
        "_whole": f"{READ_TOOL} {ID}",
    }


def test_a_string_inside_is_cut_in_its_middle() -> None:
    """Short members beside it are whole; it keeps both ends, and says how much it lost."""
    page = "".join(f"{number} sheep, " for number in range(5_000))
    shown = cut_json({"status": 200, "body": page, "url": "https://example.org/sheep"}, 300)
    assert (shown["status"], shown["url"]) == (200, "https://example.org/sheep")
    before, _, rest = shown["body"].partition("… [")
    told, _, after = rest.partition(" characters left out] …")
    assert page.startswith(before)
    assert page.endswith(after)
    assert len(before) > len(after) > 50
    assert int(told.replace(",", "")) == len(page) - len(before) - len(after)


def test_a_string_alone_has_the_reference_inside() -> None:
    """A JSON string stays one."""
    shown = cut_json("数据" * 5_000, 200)
    assert f"characters left out; {READ_TOOL} {ID}] …" in shown
    assert shown.startswith("数据数据")
    assert shown.endswith("数据数据")


def test_a_list_within_an_object_is_what_is_cut() -> None:
    """The members beside and after a long list are whole."""
    shown = cut_json({"total": 900, "rows": list(range(900)), "next": "page2"}, 250)
    assert (shown["total"], shown["next"]) == (900, "page2")
    assert shown["rows"][:3] == [0, 1, 2]
    assert shown["rows"][-1] == 899
    assert isinstance(shown["rows"][-2], str)


def test_huge_items_are_cut_rather_than_left_out() -> None:
    """Of three texts in a list each is seen."""
    shown = cut_json(["a " * 9_000, "b " * 9_000, "c " * 9_000], 400)
    assert [item[:3] for item in shown[:-1]] == ["a a", "b b", "c c"]


def test_deep_nesting_collapses() -> None:
    """What is nested deeper than can be shown is told as left out; deeper than can be read is text."""
    deep: Any = ["bottom"]
    for _ in range(400):
        deep = {"in": deep, "beside": 1}
    shown = cut_json(deep, 700)
    assert shown["beside"] == 1
    assert "more member" in json.dumps(shown)
    assert "bottom" not in json.dumps(shown)
    assert "characters left out" in cut("[" * 200_000 + "]" * 200_000, 100)


def test_a_members_name_that_is_ours() -> None:
    """A member called as our own is not overwritten."""
    shown = cut_json({"…": 1, "_whole": 2, "rest": "x" * 9_000, **{str(n): n for n in range(900)}}, 200)
    assert (shown["…"], shown["_whole"], shown["__whole"]) == (1, 2, f"{READ_TOOL} {ID}")
    assert shown["……"].endswith("more members")


def test_a_huge_number() -> None:
    """It becomes a string of its first and last digits."""
    number = int("7" * 4_000)
    assert cut_json(number, 100).startswith("777")
    assert cut_json({"n": number, "m": 1}, 100)["m"] == 1
    assert f"characters left out; `{READ_TOOL}`" in cut("8" * 9_000, 100)


def test_python_reads_the_json() -> None:
    """The last of two members with one name counts; NaN stays; half a pair stays escaped."""
    text = '{"a": 1, "a": 2, "n": NaN, "half": "\\ud83d", "long": "' + "word " * 3_000 + '"}'
    shown = cut(text, 200)
    shown.encode()
    found = json.loads(shown)
    assert (found["a"], found["half"]) == (2, "\ud83d")
    assert found["n"] != found["n"]


def test_spaces_alone_are_given_up_first() -> None:
    """JSON that fits once it is written without indents loses nothing, so it tells of no cut."""
    value = {"rows": [[n, n + 1] for n in range(100)]}
    text = json.dumps(value, indent=8)
    tight = count_text(json.dumps(value, separators=(",", ":")))
    assert count_text(text) > tight + 20
    assert json.loads(cut(text, tight + 20)) == value


def test_parts_share_the_limit_and_media_stay() -> None:
    """A short text is whole, two long ones get alike, the image and the data between stay."""
    image, data = Image(media_type="image/png", data=b"png"), Data(kind="resource", value={"a": "b" * 9_000})
    parts = (Text(text="Two pages:"), Text(text="a b " * 5_000), image, data, Text(text="c d " * 5_000))
    shown = shortened(result(parts), 500, count_text).content
    assert isinstance(shown, tuple)
    assert (shown[0], shown[2], shown[3]) == (parts[0], image, data)
    assert isinstance(shown[1], Text)
    assert isinstance(shown[4], Text)
    assert 400 < count_text(shown[1].text) + count_text(shown[4].text) <= 500
    assert abs(len(shown[1].text) - len(shown[4].text)) < 40


def test_a_single_text_part_of_json_stays_json() -> None:
    """Parts are cut by what they are."""
    shown = shortened(result((Text(text=json.dumps(list(range(5_000)))),)), 100, count_text).content
    assert isinstance(shown[0], Text)
    assert json.loads(shown[0].text)[-2:] == [4_999, f"{READ_TOOL} {ID}"]


def test_a_thousand_texts_become_one() -> None:
    """Where shares would be too small the texts are one, in the first one's place."""
    image = Image(url="https://example.org/a.png")
    parts = (image, *(Text(text=f"Part {number} says this and that.") for number in range(1_000)), image)
    shown = shortened(result(parts), 200, count_text)
    assert [type(part) for part in shown.content] == [Image, Text, Image]
    assert shown.text.startswith("Part 0 says")
    assert shown.text.endswith("Part 999 says this and that.")
    assert count_text(shown.text) <= 200


def test_the_rest_of_the_entry_stays() -> None:
    """Only the content, and a reference to its payload, differ."""
    blob = Blob(sha256="0" * 64, size=90_000, chars=90_000, field="content")
    entry = result("x y " * 9_000, error=True, synthetic=True, blob=blob, meta={"a": 1})
    shown = shortened(entry, 100, count_text)
    assert msgspec.structs.replace(shown, content=entry.content, blob=blob) == entry
    assert shown.blob is None


@pytest.mark.parametrize("limit", [-1, 0, 1, 20])
def test_a_limit_too_small_for_the_reference(limit: int) -> None:
    """The smallest form, which is the reference with how much is left out."""
    text = "word " * 5_000
    told = f'[… 25,000 characters left out; `{READ_TOOL}` with ref "{ID}" gives the whole]'
    assert shortened(result(text), limit, count_text).content == told
    shown = shortened(result(json.dumps({"a": text})), limit, count_text).text
    assert json.loads(shown) == {"…": "1 more member", "_whole": f"{READ_TOOL} {ID}"}


def rows() -> list[dict[str, Any]]:
    return [{"id": number, "name": f"某人 {number}", "note": "hello world " * 5} for number in range(90_000)]


HUGE: dict[str, Callable[[], str]] = {
    "rows": lambda: json.dumps(rows(), ensure_ascii=False),
    "lines": lambda: "\n".join(json.dumps(row) for row in rows()),
    "numbers": lambda: json.dumps(list(range(1_500_000))),
    "string": lambda: json.dumps("word and word " * 800_000),
    "text": lambda: "The build went on and on.\n" * 400_000,
    "spaces": lambda: "not JSON" + " " * 10_000_000 + "end",
    "blank, then dense": lambda: " " * 5_000 + "数据！" * 3_000_000,
    "nested": lambda: json.dumps({str(n): {str(m): [m] * 5 for m in range(300)} for n in range(1_000)}),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", HUGE)
def test_ten_megabytes(kind: str) -> None:
    """Little more is counted than the beginning of the text and what comes out of it; the limit is used."""
    text = HUGE[kind]()
    counted: list[int] = []

    def count(words: str) -> int:
        counted.append(len(words))
        return count_text(words)

    shown = cut(text, 4_000, count)
    assert count_text(shown) > 2_500
    assert len(counted) < 60
    assert sum(counted) < 5 * len(text)


def test_pieces_joined_are_the_whole() -> None:
    """Read on from `next` until there is none."""
    entry = result((Text(text="First words. " * 50), Image(data=b"x"), Text(text="e\u0301👍🏽" * 99)))
    found, at = [], 0
    while True:
        piece = piece_of(entry, at, 100)
        assert (piece.offset, piece.total) == (at, len(entry.text))
        assert 0 < len(piece.text) <= 100
        assert piece.text[0] not in "\u0301🏽"
        found.append(piece.text)
        if piece.next is None:
            break
        at = piece.next
    assert "".join(found) == entry.text


@given(st.text(), st.integers(-5, 60), st.integers(-1, 60))
def test_any_piece(text: str, offset: int, length: int) -> None:
    """A piece is what stands there, and reading always goes on; other places are refused."""
    if not 0 <= offset <= len(text) or length < 1:
        with pytest.raises(InvalidInput):
            piece_of(result(text), offset, length)
        return
    piece = piece_of(result(text), offset, length)
    assert text[offset:].startswith(piece.text)
    assert len(piece.text) <= length
    assert piece.next == (offset + len(piece.text) if offset + len(piece.text) < len(text) else None)
    assert piece.text or offset == len(text)


def test_pieces_of_pairs_and_long_clusters() -> None:
    """Halves of a pair stay together; a character longer than the piece is parted, so reading goes on."""
    assert piece_of(result("ab\ud83d\ude00c"), 0, 3).text == "ab"
    assert piece_of(result("a\r\nb"), 0, 2).text == "a"
    assert piece_of(result("e" + "\u0301" * 9), 0, 4).text == "e\u0301\u0301\u0301"
    assert piece_of(result(""), 0, 1).text == ""


def test_the_tool_says_what_piece_of_takes() -> None:
    """Its name is the word in the references; only `ref` must be given."""
    properties = TOOL.parameters["properties"]
    assert (TOOL.name, TOOL.parameters["required"]) == ("read_result", ["ref"])
    assert (properties["offset"]["minimum"], properties["offset"]["default"]) == (0, 0)
    assert [properties["length"][key] for key in ("minimum", "maximum", "default")] == [1, 20_000, 8_000]
