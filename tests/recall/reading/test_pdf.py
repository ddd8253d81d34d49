"""PDFs are read whole, by page, and one that is made to keep its reader busy is refused in bounds."""

from __future__ import annotations

import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall.reading.pdfs import encrypted, pdf
from recall.reading.test_formats import blocks
from stratalog.errors import InvalidInput
from stratalog.recall.reading.formats import read
from stratalog.recall.reading.pdf import read_pdf
from stratalog.recall.reading.pdf_worker import COPIED, TooLarge, Work, answer


def packed(content: bytes) -> bytes:
    """A PDF of one page whose content is packed."""
    stream = zlib.compress(content, 9)
    bodies = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count 1 /Kids [4 0 R] >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R"
        b" /Resources << /Font << /F1 3 0 R >> >> >>",
        b"<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
    ]
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    tail = b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
    return out + b"xref\n0 6\n0000000000 65535 f \n" + table + tail % len(out)


def bomb(times: int) -> bytes:
    return packed(b"BT /F1 12 Tf 14 TL 72 720 Td " + b"(hello world again) Tj T* " * times + b"ET")


def test_pdf() -> None:
    """Each block knows its page; a page without text is told, and the title is the document's."""
    parsed = read("a.pdf", pdf("First page\nsecond line", "", "Third", title="The title"), "pdf")
    assert (parsed.title, parsed.unit, parsed.notes) == ("The title", "page", ("no text on page 2",))
    assert [
        (text, block.page) for (_, _, text), block in zip(blocks(parsed), parsed.blocks, strict=True)
    ] == [
        ("First page\nsecond line", 1),
        ("Third", 3),
    ]


def test_pdfs_that_cannot_be_read() -> None:
    """Encrypted, damaged, cut and empty PDFs each give an error of the tree that says so."""
    whole = pdf("some words")
    with pytest.raises(InvalidInput, match="encrypted"):
        read("a", encrypted(whole, "secret"), "pdf")
    assert read("a", encrypted(whole, ""), "pdf").text.strip() == "some words"
    with pytest.raises(InvalidInput, match="has text"):
        read("a", pdf(""), "pdf")
    for damaged in (b"", b"%PDF-1.4", b"%PDF-1.4\n" + b"\xff" * 1000, whole[:200]):
        with pytest.raises(InvalidInput, match=r"damaged|has text"):
            read("a", damaged, "pdf")


@given(st.data())
def test_a_pdf_that_was_tampered_with_is_read_or_refused(data: st.DataObject) -> None:
    """Bytes changed anywhere lead to text or to what is wrong, to nothing else."""
    whole = bytearray(pdf("some words", "more words"))
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    found = answer(bytes(whole))
    assert found.keys() in ({"title", "pages"}, {"trouble", "reason"})


# --- what would take too long ---


def test_work_is_what_was_said_before_each_operator() -> None:
    """Each operator costs what the page has said so far, each part of an array as one; a page begins anew."""
    work = Work(1_000)
    work.visit(b"Tj", ["abc"])
    work.visit(b"T*", [])
    assert work.copied == 4 + 4
    work.visit(b"TJ", [["ab", -20, b"c"]])
    assert work.copied == 8 + 3 * (4 + 3 + 3)
    work.next_page()
    work.visit(b"re", [0, 0, 1, 1])
    assert work.copied == 38
    with pytest.raises(TooLarge):
        work.visit(b"'", ["x" * 1_000])


def test_work_grows_with_the_square_and_is_bounded() -> None:
    """A page of ten times the lines takes a hundred times the work; beyond the bound there is no text."""
    line = len("hello world again") + 1
    for times in (10, 100):
        needed = line * times * (times + 1) + times * line  # of Tj and T* of each line, and ET
        assert "pages" in answer(bomb(times), needed)
        assert answer(bomb(times), needed - 1)["trouble"] == "large"
    assert COPIED > 100 * 2 * 5_000 * 5_000  # pages of 5,000 characters, each placed by itself


def test_a_pdf_out_of_proportion_is_refused() -> None:
    """26 KB that would keep pypdf busy for minutes end when the processor's time is over, or the bound is."""
    data = bomb(400_000)
    assert len(data) < 30_000
    with pytest.raises(InvalidInput, match="too much time or memory") as caught:
        read_pdf(data, seconds=1)
    assert "split it" in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of memory")
def test_a_pdf_that_takes_too_much_memory_is_refused() -> None:
    """The process that reads it has so much and no more."""
    with pytest.raises(InvalidInput, match="too much time or memory"):
        read_pdf(pdf("x") + b" " * 80_000_000, memory=64 * 2**20)


def test_what_pypdf_finds_odd_is_told_nobody(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in the log nor on the terminal of who reads it."""
    odd = pdf("some words").replace(b"startxref\n", b"startxref\n9")
    assert read("a", odd, "pdf").text.strip() == "some words"
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


# --- words that were cut ---


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("The infor-\nmation is here", "The information is here"),
        ("ma-\nny co-\noperate", "many cooperate"),
        ("a well-\nknown self-\nmade man", "a well-known self-made man"),
        ("state-of-the-\nart", "state-of-the-art"),
        ("low-risk and low-\nrisk", "low-risk and low-risk"),
        ("from A-\nb, 3-\nc, pre-\nWar, x -\ny", "from A-\nb, 3-\nc, pre-\nWar, x -\ny"),
        ("- one\n- two", "- one\n- two"),
        ("pay\\255ment", "payment"),
    ],
)
def test_words_cut_at_the_end_of_a_line_are_one(page: str, text: str) -> None:
    """The hyphen goes with the line break, unless it belongs to the word."""
    data = pdf(page).replace(b"/BaseFont /Helvetica", b"/BaseFont /Helvetica /Encoding /WinAnsiEncoding")
    assert read("a", data, "pdf").text.strip() == text
