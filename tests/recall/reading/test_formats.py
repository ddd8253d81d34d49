"""Documents of each format are read whole, in blocks under their headings, and hostile ones do no harm."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidInput
from stratalog.recall.reading.contract import Parsed, covers
from stratalog.recall.reading.formats import FORMATS, Format, format_of, media_type_of, read

TEXTUAL: tuple[Format, ...] = ("text", "markdown", "code")


def blocks(parsed: Parsed) -> list[tuple[str, tuple[str, ...], str]]:
    assert covers(parsed)
    return [(each.kind, each.path, parsed.text[each.start : each.stop].strip("\n")) for each in parsed.blocks]


@pytest.mark.parametrize(
    ("name", "data", "format"),
    [
        ("a.md", b"x", "markdown"),
        ("notes/README.MARKDOWN", b"x", "markdown"),
        ("a.txt", b"<html>", "text"),
        ("a.htm", b"x", "html"),
        ("page", b"\n <!DOCTYPE html><p>x", "html"),
        ("https://example.org/a.html?x=1.md", b"x", "html"),
        ("a.py", b"x", "code"),
        ("Makefile", b"x", "code"),
        ("run", b"#!/bin/sh\n", "code"),
        ("unknown.thing", "中文".encode(), "text"),
        ("a.txt", b"%PDF-1.7\n\0\1", "pdf"),
        ("a.txt", "中".encode("utf-16"), "text"),
    ],
)
def test_the_format_is_told_by_content_and_name(name: str, data: bytes, format: str) -> None:
    """What a file begins with goes before what its name says, and text is what nothing else is."""
    assert format_of(name, data) == format


@pytest.mark.parametrize(("name", "data"), [("a.png", b"\x89PNG\0"), ("a.txt", b"a\0b"), ("a.pdf", b"hello")])
def test_what_is_no_text_is_refused(name: str, data: bytes) -> None:
    """Binary content, and a PDF that is none, are refused before anything reads them."""
    with pytest.raises(InvalidInput):
        format_of(name, data)


def test_media_types() -> None:
    """Each format has a media type, Python its own."""
    assert [media_type_of(each, "a") for each in FORMATS][:2] == ["text/plain", "text/markdown"]
    assert media_type_of("code", "a.py") == "text/x-python"


def test_encodings() -> None:
    """Byte order marks are believed, line ends are one kind, and what is not UTF-8 is not guessed."""
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        assert read("a", "中\r\nb\r".encode(encoding), "text").text == "中\nb\n"
    with pytest.raises(InvalidInput, match="not UTF-8"):
        read("a", "größe".encode("latin-1"), "text")


def test_markdown() -> None:
    """Headings make paths; code, tables and lists are blocks; front matter and link definitions are kept."""
    parsed = read(
        "a.md",
        b"---\ntitle: The *book*\n---\nbefore\n\n# One [link](u) `c`\n\nText.\n\n"
        b"## Two\n```py\n# no\n\nx\n```\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- x\n- y\n\n"
        b"Three\n-----\n[ref]: http://x\n\n> quote\n\n#\n# Four\n",
        "markdown",
    )
    assert parsed.title == "The *book*"
    assert blocks(parsed) == [
        ("code", (), "---\ntitle: The *book*\n---"),
        ("text", (), "before"),
        ("heading", ("One link c",), "# One [link](u) `c`"),
        ("text", ("One link c",), "Text."),
        ("heading", ("One link c", "Two"), "## Two"),
        ("code", ("One link c", "Two"), "```py\n# no\n\nx\n```"),
        ("table", ("One link c", "Two"), "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("list", ("One link c", "Two"), "- x\n- y"),
        ("heading", ("One link c", "Three"), "Three\n-----"),
        ("text", ("One link c", "Three"), "[ref]: http://x"),
        ("text", ("One link c", "Three"), "> quote"),
        ("text", ("One link c", "Three"), "#"),
        ("heading", ("Four",), "# Four"),
    ]


def test_html() -> None:
    """What is seen is read, with entities, alternative texts and tables; scripts and comments are not."""
    parsed = read(
        "a.html",
        "<!doctype html><html><head><title>T &amp; x</title><style>p{}</style></head><body>"
        "<script>if (a<b) '<p>no</p>'</script><!-- no --><h1>一 <b>B</b></h1>"
        "<p>a&lt;b<br>c&nbsp;d <img alt=pic>"
        "<p>un<em>closed</em><h2>Two</h2><ul><li>x<li>y</ul><pre> code\n  kept</pre>"
        "<table><tr><th>k<th>v<tr><td>1<td><p>2</p></table><template>no</template><h1>End</h1>".encode(),
        "html",
    )
    assert parsed.title == "T & x"
    assert blocks(parsed) == [
        ("heading", ("一 B",), "一 B"),
        ("text", ("一 B",), "a<b\nc d pic"),
        ("text", ("一 B",), "unclosed"),
        ("heading", ("一 B", "Two"), "Two"),
        ("list", ("一 B", "Two"), "x"),
        ("list", ("一 B", "Two"), "y"),
        ("code", ("一 B", "Two"), " code\n  kept"),
        ("table", ("一 B", "Two"), "k | v\n1 | 2"),
        ("heading", ("End",), "End"),
    ]


@pytest.mark.parametrize(
    ("page", "seen"),
    [
        ("a<div hidden>no<div>no</div>no</div>b", "a\n\nb"),
        ('a <span style="color: red; DISPLAY :none">no <b>no</b></span>b', "a b"),
        ('a<p style="visibility:hidden">no<p>b', "a\n\nb"),
        ("<div>a<p hidden>no <b>no</div>b", "a\n\nb"),
        ("<ul><li>a<li hidden>no<ul><li>no<li>no</ul>no<li>b</ul>c", "a\nb\n\nc"),
        ("<ul><li>a<li hidden>no</ul>b", "a\n\nb"),
        ("<table><tr><td>a<td hidden>no<td>b<tr hidden><td>no<tr><td>c</table>d", "a | b\nc\n\nd"),
        ("a<img hidden alt=no><input style='display:none'>b", "ab"),
        ("a<div hidden>no<img><br>no<script>'</div>'</script>no</div>b", "a\n\nb"),
        ("a<div hidden></p></b></div>b", "a\n\nb"),
        ("a<div hidden />b", "ab"),
        ('<body style="visibility: hidden"><p>a', "a"),
        ('<p hidden="until-found">a</p><p style="display:block">b', "a\n\nb"),
        ('<p style="x-display:none;font:display none">a', "a"),
    ],
)
def test_what_a_page_hides_is_not_read(page: str, seen: str) -> None:
    """What an element says to be hidden nobody sees; what stands beside and after it is read."""
    parsed = read("a.html", page.encode(), "html")
    assert parsed.text == seen
    assert covers(parsed)


def test_hidden_elements_are_told() -> None:
    """How many there are, and one that hides the rest of the page; the first title is the page's."""
    parsed = read("a", b"<title>T</title><p>a<p hidden>b<p hidden>c<p>d<title>U</title><div hidden>e", "html")
    assert (parsed.title, parsed.text) == ("T", "a\n\nd")
    assert parsed.notes == (
        "hidden elements that are not read: 3",
        "<div> is never closed: what follows it is not read",
    )


def test_html_encodings() -> None:
    """A page's own encoding is believed, and one that it is not in is an error."""
    page = '<meta charset="gb2312"><p>中文'
    assert read("a", page.encode("gb18030"), "html").text == "中文"
    latin = b'<meta http-equiv=content-type content="text/html; charset=iso-8859-1"><p>gr\xfc\xdfe \x80'
    assert read("a", latin, "html").text == "grüße €"
    with pytest.raises(InvalidInput):
        read("a", b"<meta charset=utf-8><p>\xff", "html")


def test_what_an_unclosed_script_hides_is_told() -> None:
    """What browsers would not show is left out with a note."""
    parsed = read("a", b"<p>seen<script>x", "html")
    assert (parsed.text, parsed.notes) == ("seen", ("<script> is never closed: what follows it is not read",))


def test_python() -> None:
    """Classes and functions are headings, with their decorators and comments; module code stands between."""
    source = (
        b'"""Doc."""\n\nimport x\n\n\n# about\n@deco\nclass A:\n    """D."""\n\n    y = 1\n\n'
        b"    def m(self):\n        return 1\n\n\nz = 2\ndef f(): pass\n"
    )
    assert blocks(read("a.py", source, "code")) == [
        ("code", (), '"""Doc."""'),
        ("code", (), "import x"),
        ("heading", ("class A",), "# about\n@deco\nclass A:"),
        ("code", ("class A",), '    """D."""'),
        ("code", ("class A",), "    y = 1"),
        ("heading", ("class A", "def m"), "    def m(self):"),
        ("code", ("class A", "def m"), "        return 1"),
        ("code", (), "z = 2"),
        ("heading", ("def f",), "def f(): pass"),
    ]


def test_other_code() -> None:
    """In another language, and in Python that does not parse, parts begin after a blank line."""
    source = b"// c\nexport async function go(a) {\n  x\n\n  y\n}\n\nfunc (r *T) Name() {\n}\n\nplain()\n"
    assert blocks(read("a.js", source, "code")) == [
        ("code", ("function go",), "// c\nexport async function go(a) {\n  x"),
        ("code", ("function go",), "  y\n}"),
        ("code", ("func Name",), "func (r *T) Name() {\n}"),
        ("code", (), "plain()"),
    ]
    assert blocks(read("a.py", b"def f(:\n  x\n", "code")) == [("code", ("def f",), "def f(:\n  x")]


SIGNS = "# \n\t-`|>*=x中。\"'():d\0\x0c\x85\u2028\r[]<!&;\ud800"
TAGS = (
    "<p>|</p>|<table>|<tr>|<td>|</table>|<pre>|</pre>|<h1>|</h1>|<!--|-->|<![x[|<script>|</script>|<svg>|</svg>"
    "|<|>|&|&#0;|&lt|<a x='|<br/>|<li>|word|中|<title>|</title>|<h2 a=\"|<?|<!|</"
    "|<p hidden>|<div hidden>|</div>|<td hidden>"
)


@given(st.sampled_from(TEXTUAL), st.text(st.sampled_from(SIGNS), max_size=200))
def test_any_text_is_covered(format: Format, text: str) -> None:
    """Of a text in any format nothing but white space is in no block."""
    data = text.encode("utf-8", "replace")
    for name in ("a.py", "a.js"):
        assert covers(read(name, data, format))


@given(st.lists(st.sampled_from([*TAGS.split("|"), "\n", " "]), max_size=60))
def test_any_html_is_read(parts: list[str]) -> None:
    """Tags in any order are read to the end, and every block is of the text."""
    assert covers(read("a", "".join(parts).encode(), "html"))


@given(st.lists(st.text(st.sampled_from("abc中"), min_size=1, max_size=8), min_size=1, max_size=20))
def test_every_word_of_a_page_is_read(words: list[str]) -> None:
    """What stands in paragraphs, cells, items and headings comes out, in order."""
    tags = ("p", "td", "li", "h2", "div", "span")
    page = "".join(f"<{tags[at % 6]}> {word} </{tags[at % 6]}>" for at, word in enumerate(words))
    assert read("a", page.encode(), "html").text.replace(" | ", " ").split() == words


HIDDEN = ("<div hidden>", "<p hidden>")
HOSTILE: dict[Format, tuple[str, ...]] = {
    "html": ("<div>", "<ul><li>", "<!--", "<![x[", "<a x='", "<", "</a ", "<svg>", *HIDDEN),
    "markdown": (">", "- ", "```\n", "[a]: <", "# *a", "<div\n", "|a"),
    "code": ("(", "-", "export ", "# c\n", "["),
}


@pytest.mark.parametrize(
    ("format", "part"), [(format, part) for format, parts in HOSTILE.items() for part in parts]
)
def test_hostile_text_is_read(format: Format, part: str) -> None:
    """What makes parsers deep, or slow beyond all patience, is read to its end."""
    parsed = read("a.py", (part * 50_000 + "\n\nend").encode(), format)
    assert covers(parsed)
    hidden = part in ("<svg>", "<a x='", *HIDDEN)
    assert hidden or parsed.text.endswith("end")


def test_one_huge_line_is_read() -> None:
    """Without an end of a line or a sentence."""
    for format in FORMATS:
        if format != "pdf":
            assert read("a.py", b"x" * 3_000_000, format).text == "x" * 3_000_000


def calls(format: Format, data: bytes) -> int:
    """How many functions are called to read it."""
    count = 0

    def called(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        read("a.py", data, format)
    finally:
        sys.setprofile(before)
    return count


REPEATED: dict[Format, tuple[str, ...]] = {
    "text": ("a\n\n", "\n", "a"),
    "html": (
        "<b ",
        "<table>",
        "<ul><li>",
        "<p>x</p>",
        "<h1>x",
        "<tr><td>",
        "<p hidden>",
        "<!--",
        "<a href='",
    ),
    "markdown": (
        "> ",
        "- a\n",
        "  - a\n",
        "# a\n",
        "|a|\n|-|\n",
        "[a]: b\n",
        "`",
        "[a](b",
        "a\n=\n",
        "<div>\n",
    ),
    "code": ("a\n", "def f():pass\n", "class A:\n ", "fn x\n\n", "# c\n", "(", "@a\n"),
}


@pytest.mark.parametrize(
    ("format", "part"), [(format, part) for format, parts in REPEATED.items() for part in parts]
)
def test_work_grows_with_the_size(format: Format, part: str) -> None:
    """Four times the document takes four times the calls, and no more."""
    read("a.py", b"", format)  # what is made when a format is first read
    once, four = (calls(format, part.encode() * size) for size in (1_000, 4_000))
    assert four <= 4.5 * once + 500
