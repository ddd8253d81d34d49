"""Chunks: nothing of a document is lost, cuts follow its structure, and sizes are bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recall.reading.pdfs import pdf
from stratalog.recall.chunks import MOST, TARGET, Piece, chunked, prefix_of, weight
from stratalog.recall.reading.contract import Parsed
from stratalog.recall.reading.formats import Format, read

WORDS = "The quick brown fox jumps over the lazy dog. "


def cut(text: str, format: Format = "markdown", name: str = "a.md") -> tuple[Parsed, list[Piece]]:
    parsed = read(name, text.encode(), format)
    return parsed, chunked(parsed)


def texts(text: str, format: Format = "markdown", name: str = "a.md") -> list[str]:
    parsed, pieces = cut(text, format, name)
    return [parsed.text[each.start : each.stop] for each in pieces]


def test_a_small_document_is_one_chunk() -> None:
    """Headings and all; it stands under what all of its text stands under."""
    parsed, pieces = cut("# A\n\none\n\n## B\n\ntwo\n")
    assert pieces == [Piece(("A",), 0, len(parsed.text) - 1, 1, 7)]


def test_parts_that_are_too_much_together_are_chunks_each() -> None:
    """No chunk goes on into a heading of its own level; a lone heading goes with what follows it."""
    body = WORDS * 20
    text = f"# A\n## B\n{body}\n## C\n{body}\n### D\nsmall\n### E\nsmall\n## F\nsmall\n### G\nsmall\n"
    parsed, pieces = cut(text)
    assert [(each.path, parsed.text[each.start : each.stop].split("\n")[0]) for each in pieces] == [
        (("A", "B"), "# A"),
        (("A", "C"), "## C"),
        (("A", "F"), "## F"),
    ]
    assert "### E" in parsed.text[pieces[1].start : pieces[1].stop]


def test_neighbours_under_one_heading_are_packed() -> None:
    """Short paragraphs fill a chunk up to the target, and a short one at the end goes with the last."""
    paragraph = WORDS * 5 + "\n\n"
    found = texts("# A\n\n" + paragraph * 11 + "End.")
    assert [each.count("lazy") // 5 for each in found] == [5, 6]
    assert texts("# A\n\n" + paragraph * 5 + "End.")[-1].endswith("End.")
    assert len(texts("# A\n\n" + paragraph * 5 + "End.")) == 1


def test_long_prose_is_cut_between_sentences() -> None:
    """In Latin script and in Chinese, which counts three times as much."""
    found = texts(WORDS * 202, "text")
    assert all(each.endswith("dog.") for each in found)
    assert {weight(each) <= TARGET for each in found[:-1]} == {True}
    chinese = texts("今天的天气很好，我们去公园散步吧。" * 200, "text")
    assert all(each.endswith("吧。") for each in chinese)
    assert {300 < len(each) < 500 for each in chinese[:-1]} == {True}


def test_tables_and_code_are_whole_up_to_the_most() -> None:
    """A table of 1,900 characters is not cut; one that is longer is, between rows."""
    row = "| " + "x" * 34 + " |\n"
    assert len(texts("|a|\n|-|\n" + row * 49)) == 1
    longer = texts("|a|\n|-|\n" + row * 100)
    assert len(longer) > 1
    assert all(line.startswith("|") for each in longer for line in each.split("\n"))
    code = texts("```\n" + "    x = 1\n" * 400 + "```\n")
    assert len(code) > 1
    assert all(line.strip() in ("```", "x = 1") for each in code for line in each.split("\n"))


def test_a_line_without_an_end_is_cut_by_length() -> None:
    """Nothing in it says where, and nothing of it is lost."""
    found = texts("x" * 100_000, "text")
    assert "".join(found) == "x" * 100_000
    assert max(map(len, found)) <= TARGET


def test_places() -> None:
    """Lines are told of text, from the first to the last of the chunk, and pages of a PDF."""
    _, pieces = cut(WORDS * 40 + "\n\n\n" + WORDS * 30 + "\n\nlast", "text")
    assert (pieces[0].first, pieces[0].last) == (1, 1)
    assert pieces[-1].last == 6
    parsed = read("a.pdf", pdf("One. " * 150, "Two. " * 150, "Three. " * 150), "pdf")
    assert [(each.first, each.last) for each in chunked(parsed)] == [(1, 1), (2, 2), (3, 3)]
    small = read("a.pdf", pdf("One", "Two"), "pdf")
    assert [(each.first, each.last) for each in chunked(small)] == [(1, 2)]


def test_prefixes() -> None:
    """Title and headings, the title once, each on one line and of at most 120 characters."""
    assert prefix_of("T", ("T", "B")) == "T › B"
    assert prefix_of("T", ("A", "T")) == "T › A › T"
    assert prefix_of("", ()) == ""
    assert prefix_of("a\nb", ("x" * 200,)) == "a b › " + "x" * 119 + "…"


PIECES = st.sampled_from(
    (
        *(
            "# A\n",
            "## B\n",
            "### C\n",
            "\n",
            "\n\n",
            WORDS,
            WORDS * 8,
            "短句。" * 50,
            "无标点" * 200,
            "x" * 900,
        ),
        *("```\ncode\n\ncode\n```\n", "|a|b|\n|-|-|\n|1|2|\n", "> q\n", "    indented\n", "- item\n"),
        *("def f():\n", "class A:\n    x = 1\n"),
    )
)


@given(st.lists(PIECES, max_size=30), st.sampled_from(["text", "markdown", "code"]))
def test_nothing_is_lost_and_nothing_comes_twice(parts: list[str], format: Format) -> None:
    """The chunks follow one another, between them is only white space, and none is longer than the most."""
    parsed, pieces = cut("".join(parts), format, "a.py")
    done = 0
    for each in pieces:
        assert done <= each.start < each.stop
        assert not parsed.text[done : each.start].strip()
        assert weight(parsed.text[each.start : each.stop]) <= MOST + 10  # blank lines between blocks
        lines = parsed.text[: each.start].count("\n") + 1
        assert (each.first, each.last) == (lines, lines + parsed.text[each.start : each.stop].count("\n"))
        done = each.stop
    assert not parsed.text[done:].strip()


@given(st.lists(PIECES, max_size=30))
def test_no_chunk_crosses_into_a_heading_of_its_level(parts: list[str]) -> None:
    """But for those that it begins with, a chunk's headings are deeper than what it stands under."""
    parsed, pieces = cut("".join(parts))
    for piece in pieces:
        within = [each for each in parsed.blocks if piece.start <= each.start < piece.stop]
        beginning = True
        for block in within:
            beginning = beginning and block.kind == "heading"
            assert beginning or not block.opens or len(block.path) > len(piece.path)
