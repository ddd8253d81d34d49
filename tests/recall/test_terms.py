"""The terms of texts: what finds what, and that no text is too strange or too long."""

from __future__ import annotations

import base64
import hashlib
import random
import threading
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.recall.terms import MAX_TERM, STOP, VERSION, query_terms, terms

_ANY_TEXT = st.text(st.characters(codec=None), max_size=200) | st.text(
    st.sampled_from(
        "aB1_'’._-/\\:@#&+ \"*^()\0\ud800猫ーガﾞé\u0300мй\uff9e한กำ"
        "vłßäÄæ\u0308\u0323İΣςίеёі\u0306أىـ\ufe71\u064b\u0653סּ\u05b0\u00ad\u200b\u200c\ufe0f\u3164👍🏽🇩❤©"
    ),
    max_size=60,
)


_FOUND = [
    ("run", "she was running"),
    ("Running", "they RUN"),
    ("go", "we went"),
    ("Bought", "to buy"),
    ("child", "their children"),
    ("café", "at the cafe"),
    ("John", "John's house"),
    ("john’s", "John"),
    ("user name", "getUserName"),
    ("getUserName", "def getUserName():"),
    ("getusername", "getUserName"),
    ("user name", "GET_USER_NAME"),
    ("foo_bar", "see src/foo_bar.py."),
    ("foo_bar.py", "see src/foo_bar.py."),
    ("foo bar", "see src/foo_bar.py."),
    ("src/foo_bar.py", "see src/foo_bar.py."),
    ("LexicalIndex", "stratalog.recall.lexical.LexicalIndex"),
    ("E1234", "error E1234: no"),
    ("abc-123", "closes ABC-123,"),
    ("ABC", "closes ABC-123,"),
    ("1.2.3", "version 1.2.3."),
    ("python", "python3"),
    ("server", "HTTPServer2"),
    ("C++", "in C++ and"),
    ("C#", "in C#"),
    ("init", "__init__"),
    ("example.org", "https://example.org/a/b?x=1"),
    ("ada@example.org", "<ada@example.org>"),
    ("d41d8cd98f00b204e9800998ecf8427e", "md5 D41D8CD98F00B204E9800998ECF8427E"),
    ("笔记本电脑", "我昨天在上海买了一台笔记本电脑"),
    ("上海", "我昨天在上海买了一台笔记本电脑"),
    ("iPhone手机", "我的 iPhone 手机"),
    ("ガラス", "ｶﾞﾗｽの靴"),
    ("ＡＢＣ", "abc"),
    ("도서관", "도서관에서"),
    ("дом", "ДОМ"),
    ("हिन्दी", "हिन्दी में"),
    ("2023年5月4日", "on May 4th, 2023: 4 or 5"),
    ("5月4日", "4 May 5"),
    ("1000000", "1,000,000 of them"),
    ("1.2.3", "v1.2.3"),
    ("1.2.3", "releases/V1.2.3/notes"),
    ("Lodz", "Łódź"),
    ("Kobenhavn", "København"),
    ("smorrebrod", "SMØRREBRØD"),
    ("STRASSE", "Straße"),
    ("Da Nang", "Đà Nẵng"),
    ("istanbul", "İstanbul"),
    ("αθηνα", "Η ΑΘΉΝΑ"),
    ("Οδυσσέας", "ΟΔΥΣΣΕΑΣ"),
    ("еще", "ещё"),
    ("замок", "за\u0301мок"),
    ("كتاب", "كِتَابٌ"),
    ("كتاب", "كـتـاب"),
    ("احمد", "أحمد"),
    ("کتاب", "كتاب"),
    ("הספר", "הַסֵּפֶר"),
    ("👍", "👍🏽 great"),
    ("👍🏽", "so👍👍"),
    ("❤", "❤️"),
    ("💻", "👩🏽\u200d💻"),
    ("🇩🇪", "in 🇩🇪🇫🇷"),
    ("information", "infor\u00admation"),
    ("password", "pass\u200bword"),
    ("می\u200cخواهم", "من می\u200cخواهم"),
    ("میخواهم", "می\u200cخواهم"),
    ("wifi", "co-op with wi-fi"),
    ("wi\u2011fi", "wi-fi"),
    ("email", "E-Mails"),
    ("cooperate", "co-operated"),
    ("nodejs", "node.js"),
    ("foobar", "src/foo_bar.py"),
    ("Haus", "Häuser"),
    ("Buch", "Bücher"),
    ("schön", "schöneren"),
]


def finds(query: str, text: str) -> bool:
    return set(query_terms(query)) <= set(terms(text))


@pytest.mark.parametrize(("query", "text"), _FOUND)
def test_query_finds_text(query: str, text: str) -> None:
    """What a person would type is found in what was written: every term of the query is in the text."""
    assert query_terms(query)
    assert finds(query, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        *(("E1234", "E1235"), ("1.2.3", "1.2.4"), ("мой", "мои"), ("海上", "上海"), ("C", "C++")),
        *(("їм", "ім"), ("किताब", "किताबें"), ("กา", "กำ"), ("👍", "👎"), ("🇩🇪", "🇫🇷")),
        *(
            ("wellknown", "well-known"),
            ("ab", "a/b"),
            ("foobarbazquux", "foo_bar_baz_quux"),
            ("1.2", "v1.2.3"),
        ),
    ],
)
def test_query_misses_text(query: str, text: str) -> None:
    """What only looks alike is something else."""
    assert not finds(query, text)


def test_what_terms_there_are_is_a_version() -> None:
    """Whoever changes the terms of a text raises `VERSION`, so that what is stored is made anew; then the
    digest here is that of the new ones."""
    texts = (
        [text for _, text in _FOUND]
        + [query for query, _ in _FOUND]
        + ["二〇二三年五月", "$1,234.5", "aB1_'’-/::é", "don't", "YWJjMTIzZGVmNDU2"]
    )
    made = "\n".join(" ".join(terms(text)) for text in texts)
    assert (VERSION, hashlib.sha256(made.encode()).hexdigest()[:16]) == (3, "c8e17ebf175e7baa")


def test_every_character_with_its_successor() -> None:
    """A run without spaces gives bigrams and its last character, so that any one of them begins a term."""
    assert terms("小花猫 狗") == ["小花", "花猫", "猫", "狗"]
    assert query_terms("小花猫 狗") == ["小花", "花猫", "狗"]


def test_stop_words_leave_the_query() -> None:
    """Function words are not asked for, in English or Chinese, beside words that mean something."""
    assert query_terms("What is the name of the dog?") == ["name", "dog"]
    assert query_terms("Don't we have what she's asking for") == ["ask"]
    assert query_terms("什么 电脑") == ["电脑"]


@pytest.mark.parametrize("query", ["to be or not to be", "The Who", "什么", "我"])
def test_only_stop_words_are_kept(query: str) -> None:
    """A query of function words alone asks for them."""
    assert query_terms(query) == list(dict.fromkeys(query_terms(query)))
    assert set(query_terms(query)) <= set(terms(query))
    assert query_terms(query)


def test_stop_words_are_terms() -> None:
    """The list is written as terms, so that each can match one."""
    assert [word for word in STOP if word not in terms(word)] == []


@given(_ANY_TEXT)
def test_any_text_has_terms_or_none(text: str) -> None:
    """Nothing raises, and every term is short, folded and free of what FTS5 would take for syntax."""
    for term in terms(text):
        assert 1 <= len(term) <= MAX_TERM
        assert not any(
            c.isspace() or c in "\"'*^()\0" or unicodedata.category(c) in ("Cc", "Cs") for c in term
        )
        assert not any("A" <= c <= "Z" for c in term)


@given(_ANY_TEXT)
def test_same_terms_under_nfkc(text: str) -> None:
    """Two spellings of one text have the same terms."""
    assert terms(unicodedata.normalize("NFKC", text)) == terms(text)


@given(_ANY_TEXT)
def test_query_terms_are_terms(text: str) -> None:
    """A query asks only for what the same text has, for each once, and for something if there is any."""
    asked = query_terms(text)
    assert set(asked) <= set(terms(text))
    assert len(set(asked)) == len(asked)
    assert bool(asked) == bool(terms(text))


@given(st.text(st.characters(codec="ascii"), max_size=200))
def test_ascii_is_no_other_language(text: str) -> None:
    """The fast path for ASCII gives what the general one does."""
    assert terms(text + " ж")[:-1] == terms(text)


def test_blobs_have_no_terms() -> None:
    """Encoded bytes are not words, and leave the words around them alone."""
    blob = base64.b64encode(random.Random(1).randbytes(9_000)).decode()
    found = terms(f"before data:image/png;base64,{blob} after")
    assert {"befor", "after", "imag", "png"} <= set(found)
    assert len(found) < 30


def test_what_is_joined_is_bounded() -> None:
    """Two or three short words are joined, and only where one sign connects all of them."""
    assert terms("wi-fi") == ["wi-fi", "wi", "fi", "wifi"]
    assert "abc" in terms("a-b-c")
    for text in ("a-b-c-d", "a-b.c", "well-known", "a/b", "a-" + "b" * 40):
        assert text.translate(str.maketrans("", "", "-./")) not in terms(text)


def test_signs_are_no_terms() -> None:
    """Arrows, bullets and marks of rights, which Unicode counts as pictures, are not."""
    assert terms("→ ▶ ↔ ▪ © ® ✔") == ["✔"]


def test_a_version_has_its_number() -> None:
    """Also where it has too many pieces to be split."""
    assert terms("v10.20.30") == ["v10.20.30", "10.20.30"]


def test_long_token_is_found_by_itself() -> None:
    """A term is cut to 64 characters on both sides alike."""
    token = "loremipsum" * 20
    assert terms(token) == [token[:MAX_TERM]]
    assert finds(token, f"see {token}")


_HOSTILE = {
    "one word": "a" * 10**6,
    "base64": base64.b64encode(random.Random(2).randbytes(750_000)).decode(),
    "base64 lines": base64.encodebytes(random.Random(3).randbytes(750_000)).decode(),
    "marks": "a" + "\u0300\u0316" * 500_000,
    "half-width marks": "\uff9e\u0316" * 500_000,
    "dots": "a." * 500_000,
    "more dots": "a" + "." * 10**6,
    "humps": "aB" * 500_000,
    "long humps": "aaaB" * 250_000,
    "apostrophes": "a'" * 500_000,
    "one character": "中" * 10**6,
    "wide ligature": "\ufdfa" * 50_000,
    "NUL": "\0" * 10**6,
    "surrogates": "\ud800a" * 500_000,
    "hidden marks": "a" + "\u0300\u200d\u0316\ufe0f" * 250_000,
    "points": "е" + "\u0308\u0301" * 500_000,
    "emoji": "👍🏽" * 500_000,
    "flags": "🇩" * 999_999,
    "umlauts": "ä" * 10**6,
    "umlaut words": " ".join(f"ä{chr(97 + at % 26) * (at % 40)}{chr(97 + at % 25)}" for at in range(40_000)),
    "short names": "a-b " * 250_000,
}


@pytest.mark.parametrize("kind", _HOSTILE)
def test_a_megabyte_of_anything_is_quick(kind: str) -> None:
    """Time is linear in the length, whatever the text is made of; the bound is generous for slow machines."""
    start = time.perf_counter()
    terms(_HOSTILE[kind])
    assert time.perf_counter() - start < 5


def test_threads_do_not_disturb_each_other() -> None:
    """The stemmer keeps state; terms are right all the same when many threads ask at once."""
    words = [f"{a}{b}ning" for a in "bcdfghklmnprst" for b in ("alter", "ipsol", "urmen", "estar")]
    found: list[list[str]] = []

    def work(seed: int) -> None:
        mixed = random.Random(seed).sample(words, len(words))
        found.append(sorted(terms(" ".join(mixed))))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [sorted(term for word in words for term in terms(word))] * 8
