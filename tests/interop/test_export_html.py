"""A page that needs nothing else: whatever was said, it is well formed, runs nothing and asks for nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interop.samples import withdrawn_talk
from interop.test_native import ENTRIES
from stratalog.engine.reading import withdrawal
from stratalog.interop.export_html import to_html
from stratalog.interop.export_text import direction_of, language_of, markdown
from stratalog.keys import session_key
from stratalog.types import (
    AnyEntry,
    Assistant,
    Blob,
    Compaction,
    File,
    Image,
    Note,
    Reasoning,
    System,
    Text,
    ToolCall,
    ToolResult,
    TurnEnd,
    User,
)

KEY = session_key("helper", "cli", "chat")
TS = 1_736_935_200_123
PNG = b"\x89PNG\r\n\x1a\n12345678"
_VOID = ("meta", "link", "br", "hr", "img")


class Page(HTMLParser):
    """What is in a page. Raises for an end of what is not open, or is not open last."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _VOID
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("style", "title"):
            self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]

    @property
    def text(self) -> str:
        return "".join(self.words)


def page(*entries: AnyEntry, title: str = "A talk") -> Page:
    return Page("".join(to_html(KEY, title, entries)))


def check(found: Page) -> None:
    """What holds of every page."""
    assert not {"script", "iframe", "object", "embed", "form", "base", "svg"} & {
        name for name, _ in found.tags
    }
    names = {attr for _, attrs in found.tags for attr in attrs}
    assert "style" not in names
    assert not any(name.startswith("on") for name in names)
    for attrs in found.all("img"):
        assert re.match(r"data:image/(png|jpeg|gif|webp);base64,", attrs["src"] or "")
        assert attrs["alt"]
    for attrs in found.all("a"):
        assert (attrs["href"] or "").lower().startswith(("#", "https://", "http://", "mailto:"))
    anchors = [attrs["id"] for _, attrs in found.tags if "id" in attrs]
    assert len(set(anchors)) == len(anchors)
    (link,) = found.all("link")
    assert link == {"rel": "icon", "href": "data:,"}


@given(st.lists(ENTRIES, max_size=6), st.text(max_size=20))
@settings(max_examples=50, deadline=None)
def test_any_entries(entries: list[AnyEntry], title: str) -> None:
    """Whatever a log holds makes a page that is well formed and harmless, and can be encoded."""
    made = "".join(to_html(KEY, title, entries))
    made.encode()
    check(Page(made))


HOSTILE = (
    "<script>alert(1)</script>",
    "</title></style></main><img src=x onerror=alert(1)>",
    "[x](javascript:alert(1)) [y](JaVaScRiPt:alert(1)) [z](data:text/html,x) <javascript:alert(1)>",
    "![x](https://evil.example/x.png) ![y](data:image/svg+xml;base64,AAAA)",
    '[a](https://a.example/"onmouseover=alert(1)) `<b>`',
    '<https://a.example/><b>\n\n    <i>code</i>\n\n```html"><script>\n<u>\n```',
    "|<b>|x|\n|:-:|-:|\n|<i>|[y](vbscript:z)|",
    "&lt;script&gt; &#60;b&#62; \0 \x1b[31m \u202e",
)


@pytest.mark.parametrize("words", HOSTILE)
def test_nothing_gets_out_of_its_place(words: str) -> None:
    """Words that would act are words in every place where words are shown."""
    found = page(
        System(content=words),
        User(content=words, id="1", ts=TS),
        Assistant(content=(Reasoning(text=words), Text(text=words)), model=words),
        ToolCall(call_id="1", name=words, args={words: words}),
        ToolResult(call_id="1", name=words, content=words),
        ToolResult(call_id="2", name=words, content=words, error=True),
        Compaction(summary=words, by=words),
        Note(kind=words, text=words, data=words),
        User(content=(File(name=words, media_type=words, url=words), Image(url=words))),
        User(content="", blob=Blob(sha256=words, size=1)),
        TurnEnd(status="interrupted", detail=words),
        title=words,
    )
    check(found)
    assert not {"b", "i", "u"} & {name for name, _ in found.tags}


def test_the_policy_is_strict_and_names_the_sheet() -> None:
    """Nothing may be fetched or run, and the one sheet is allowed by its hash."""
    made = "".join(to_html(KEY, "t", []))
    style = re.search(r"<style>(.*?)</style>", made, re.DOTALL)
    assert style is not None
    (policy,) = (each["content"] for each in Page(made).all("meta") if "http-equiv" in each)
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src 'sha256-{digest}'"
    )
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_pictures_are_in_the_page_by_their_first_bytes() -> None:
    """PNG, JPEG, GIF and WebP are; what only says so, SVG, and what is elsewhere are named."""
    url = "data:image/png;base64," + base64.b64encode(PNG).decode()
    parts = (
        Image(media_type="image/png", data=PNG),
        Image(url=url),
        Image(media_type="text/html", data=b"GIF89a..."),
        Image(media_type="image/png", data=b"<svg onload=x>"),
        Image(media_type="image/svg+xml", url="data:image/svg+xml;base64,PHN2Zz4="),
        Image(url="https://a.example/x.png"),
        Image(media_type="image/png", blob=Blob(sha256="ab", size=5)),
    )
    found = page(User(content=parts))
    assert [attrs["src"] for attrs in found.all("img")] == [
        url,
        url,
        "data:image/gif;base64," + base64.b64encode(b"GIF89a...").decode(),
    ]
    assert "[Image: https://a.example/x.png]" in found.text
    assert "[Image: image/png, 5 bytes]" in found.text


def test_a_compaction_folds_what_it_stands_for() -> None:
    """What is before the first kept entry is inside the fold, with its anchors; the rest is after it."""
    made = "".join(
        to_html(
            KEY,
            "t",
            [
                User(seq=1, id="a", content="first words"),
                Assistant(seq=2, id="b", content="second words"),
                User(seq=3, id="c", content="kept words"),
                Compaction(seq=4, id="d", summary="in short", first_kept="c"),
                User(seq=5, id="e", content="last words"),
            ],
        )
    )
    fold = made[made.index('<section class="fold">') : made.index("</section>")]
    assert "2 earlier parts, summarised below" in fold
    inside = fold[: fold.index("</details>")]
    assert 'id="e1"' in inside
    assert "second words" in inside
    assert "in short" in fold[len(inside) :]
    assert "kept words" in made[made.index("</section>") :]
    Page(made)


def test_a_call_holds_its_result() -> None:
    """A call and its result are one thing that opens, each with its anchor; what failed says so before."""
    found = page(
        ToolCall(seq=1, call_id="1", name="look", args={"at": "sky"}),
        ToolCall(seq=2, call_id="2", name="look", args={"at": "sea"}),
        ToolResult(seq=3, call_id="2", content="no sea", error=True),
        ToolResult(seq=4, call_id="1", content="blue"),
        ToolCall(seq=5, call_id="3", name="wait"),
    )
    assert [attrs["id"] for attrs in found.all("details")] == ["e1", "e2", "e5"]
    assert found.text.index("blue") < found.text.index("sea")
    assert [attrs["id"] for attrs in found.all("h3") if "id" in attrs] == ["e4", "e3"]
    assert "failed" in found.text
    assert "no result" in found.text


def test_what_was_withdrawn_is_struck_through_and_says_so() -> None:
    """Messages, calls with their results and the system's words that a later note withdraws are in the page,
    with a label and struck through; what was said after them is neither."""
    made = "".join(to_html(KEY, "t", withdrawn_talk()))
    found = Page(made)
    check(found)
    labels = [attrs for attrs in found.all("span") if attrs.get("class") == "label"]
    struck = [attrs for attrs in found.all("div") if "withdrawn" in (attrs.get("class") or "").split()]
    assert (len(labels), len(struck)) == (6, 5)  # a call is labelled in its line too
    assert found.text.count("(withdrawn)") == 6
    assert "The system's words (withdrawn)" in found.text
    for words in ("gone rule", "gone words", "gone place", "gone sight", "gone reply"):
        assert words in found.text
    after = made[made.index('id="e9"') :]
    assert "said again" in after
    assert 'class="label"' not in after
    assert 'withdrawn"' not in after
    assert 'class="label"' not in "".join(to_html(KEY, "t", withdrawn_talk()[:-3]))


def test_a_withdrawn_question_is_marked_in_the_list() -> None:
    """The list of questions says which of them were withdrawn."""
    asked = [User(seq=n, id=f"{n}", content=f"question {n}") for n in range(1, 5)]
    note = msgspec.structs.replace(withdrawal(asked[1:2]), seq=5, id="5")
    made = "".join(to_html(KEY, "t", [*asked, note]))
    listed = made[made.index("<nav>") : made.index("</nav>")].split("<li>")[1:]
    assert ["(withdrawn)" in each for each in listed] == [False, True, False, False]


def test_only_the_last_end_of_a_turn_is_told() -> None:
    """A turn that was imported while it went on has an end that no longer holds."""
    ends = [TurnEnd(turn="t", status="interrupted", detail="early"), TurnEnd(turn="t", status="answered")]
    assert "early" not in page(*ends).text
    assert "The turn was interrupted: early" in page(*ends[::-1]).text


def test_times_are_utc_and_said_to_machines() -> None:
    """Each entry has its moment, which links to itself; the head says when the talk was."""
    found = page(User(seq=7, ts=TS, content="x"))
    assert found.all("time") == [{"datetime": "2025-01-15T10:00:00.123Z"}]
    assert "1 message, 2025-01-15 10:00 UTC" in found.text
    assert {"class": "at", "href": "#e7"} in found.all("a")


@pytest.mark.parametrize(
    ("words", "language", "direction"),
    [
        ("Hello there", "", "ltr"),
        ("这张图里的曲线", "zh", "ltr"),
        ("東京の天気は", "ja", "ltr"),
        ("안녕하세요", "ko", "ltr"),
        ("שלום עולם", "he", "rtl"),
        ("هذا يعني أن", "ar", "rtl"),
        ("این یک گربه است", "fa", "rtl"),
        ("The word 你好 is a greeting in Chinese, as everybody knows", "", "ltr"),
        ("2 + 2", "", ""),
        ("", "", ""),
    ],
)
def test_languages_and_directions(words: str, language: str, direction: str) -> None:
    """A script that one language is known by says the language, and the first letter the direction."""
    assert language_of(words) == language
    assert direction_of(words) == direction


def test_blocks_run_in_their_own_direction() -> None:
    """A list or a paragraph in Arabic is laid out from the right, one in English beside it is not."""
    made = markdown("- هذا\n- ذاك\n\nHello\n\n> مرحبا\n>\n> hi")
    assert '<ul dir="rtl">\n<li>' in made
    assert "<p>Hello</p>" in made
    assert '<blockquote dir="rtl">\n<p>مرحبا</p>\n<p dir="ltr">hi</p>' in made


def test_headings_follow_one_another() -> None:
    """A message's headings begin below the page's own, and leave no level out."""
    made = markdown("### deep\n\n# top\n\n###### deepest")
    assert re.findall(r"<h(\d)", made) == ["3", "3", "4"]


def test_a_long_text_is_shown_as_it_is() -> None:
    """What would take long to read as Markdown is not read as such."""
    made = markdown("*x* <b>" * 40_000)
    assert made.startswith('<pre class="plain">*x* &lt;b&gt;')


def test_many_questions_are_listed() -> None:
    """From the fourth on, what the user said is listed at the top, with links."""
    asked = [User(seq=seq, content=f"question {seq}") for seq in range(1, 5)]
    assert page(*asked[:3]).all("nav") == []
    found = page(*asked)
    assert [attrs["href"] for attrs in found.all("a")][:4] == ["#e1", "#e2", "#e3", "#e4"]
