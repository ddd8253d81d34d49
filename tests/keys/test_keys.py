"""An id becomes a key and a file name here only: injective, the same everywhere, and never outside."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from stratalog.errors import InvalidKey
from stratalog.keys import (
    SessionKey,
    dir_name,
    parse_key,
    session_key,
    session_paths,
    sessions_dir,
    tenant_id,
    tenant_path,
)

ROOT = Path("/data/stratalog")
SAFE = re.compile(r"[a-z0-9=~_-]+\Z")
RESERVED = {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(10))}

# Ids that users have, and those that are nearly the same.
_near = st.sampled_from(
    [
        *("a", "A", "a_b", "a-b", "a b", "a.", "a ", ".a", "=61", "%61", "~", "a~b", "a~~b", "="),
        *("ß", "ss", "ı", "İ", "con", "CON", "aux.x", "nul", "com1"),
        *("é", "e\u0301", "K", "\u212a", "а", "x" * 90, "X" * 90, "x" * 300),
    ]
)
_any = st.text(
    st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="/\\:"), min_size=1, max_size=40
)
ids = st.one_of(_near, _any).filter(lambda value: value not in (".", ".."))
chats = st.one_of(ids, st.lists(ids, min_size=2, max_size=3).map(":".join))


@st.composite
def keys(draw: st.DrawFn) -> SessionKey:
    parts = [draw(ids), draw(ids), draw(chats), draw(ids)]
    assume(not any(re.search("%(25)*(2f|5c|00)", part, re.IGNORECASE) for part in parts))
    return session_key(*parts)


def _identity(key: SessionKey) -> str:
    """The log's path as the least able file system would compare it."""
    return unicodedata.normalize("NFKC", str(session_paths(ROOT, key).log)).casefold()


@given(keys(), keys())
@example(session_key("a", "telegram", "a_b"), session_key("a", "telegram", "a:b"))
@example(session_key("a", "telegram", "a"), session_key("a", "telegram", "A"))
@example(session_key("a", "b", "~c"), session_key("a", "b~", "c"))
@example(session_key("a", "b", "x" * 500 + "y"), session_key("a", "b", "x" * 500 + "z"))
@example(session_key("con", "b", "c"), session_key("=63on", "b", "c"))
@example(session_key("a", "b", "c", tenant="d" * 100), session_key("a", "b", "c", tenant="D" * 100))
def test_two_keys_never_share_a_file(one: SessionKey, other: SessionKey) -> None:
    """Under any folding of case and of look-alikes, different keys are different files."""
    assert (_identity(one) == _identity(other)) == (one == other)


@given(keys())
def test_names_are_safe_everywhere(key: SessionKey) -> None:
    """Only letters a-z, digits, `=~_-`; never a reserved name; no part longer than any file system takes."""
    paths = session_paths(ROOT, key)
    for path in paths:
        parts = path.relative_to(ROOT).parts
        assert len(parts) == 5
        assert (parts[1], parts[3]) == ("agents", "sessions")
        for part in (parts[0], parts[2], parts[4].partition(".")[0]):
            assert SAFE.match(part)
            assert part not in RESERVED
        assert max(len(part.encode()) for part in parts) <= 140
        assert len(str(path.relative_to(ROOT))) < 400


@given(keys())
def test_nothing_can_leave_the_data_directory(key: SessionKey) -> None:
    """Every path of every key is inside its tenant's directory, also after the system resolves it."""
    for path in session_paths(ROOT, key):
        assert os.path.normpath(path) == str(path)
        assert path.is_relative_to(tenant_path(ROOT, key.tenant))
        assert tenant_path(ROOT, key.tenant).parent == ROOT


@given(keys())
def test_a_key_is_read_as_it_is_written(key: SessionKey) -> None:
    """The text of a key, which stands in the log's first line, parses to the key; so does the key itself."""
    assert parse_key(str(key)) == key
    assert parse_key(key) == key
    assert parse_key(key.local, key.tenant) == key


TRAVERSAL = [
    *("..", ".", "../x", "..\\x", "/abs", "\\abs", "a/b", "a/../../b", "a\0b", "a\nb", "\x7f", "\x85"),
    *("%2e%2e%2fx", "..%2Fx", "..%5cx", "%252fx", "%25255C", "a%00b", "", "\ud800", "a\udfffb"),
    *("x" * 1025, "//server/share", "C:/x", "C:\\x"),
]


@pytest.mark.parametrize("value", TRAVERSAL, ids=ascii)
def test_ids_that_are_paths_are_refused(value: str) -> None:
    """Traversal, separators, encoded or not, control characters, surrogates: InvalidKey in every place."""
    for act in (
        lambda: session_key(value, "channel", "chat"),
        lambda: session_key("agent", value, "chat"),
        lambda: session_key("agent", "channel", value),
        lambda: session_key("agent", "channel", "chat", tenant=value),
        lambda: tenant_id(value),
        lambda: tenant_path(ROOT, value),
        lambda: session_paths(ROOT, SessionKey(value, "agent", "channel", "chat")),
    ):
        with pytest.raises(InvalidKey):
            act()


@pytest.mark.parametrize("value", ["C:x", "a:b", ":"])
def test_a_colon_is_for_chats_only(value: str) -> None:
    """A chat may have colons, as `a:b` of Telegram; a tenant, an agent and a channel may not."""
    assert session_key("agent", "channel", value).chat == value
    for parts in (("a", "b", value), ("a", value, "b"), (value, "a", "b")):
        if parts[2] != value:
            with pytest.raises(InvalidKey):
                session_key(*parts)
    with pytest.raises(InvalidKey):
        session_key("a", "b", "c", tenant=value)


@pytest.mark.parametrize("value", [None, 5, b"a", ["a"], Path("a")])
def test_an_id_is_text(value: Any) -> None:
    """None is not `None`: what is no text is refused."""
    with pytest.raises(InvalidKey):
        session_key("agent", "channel", value)
    with pytest.raises(InvalidKey):
        parse_key(value)


@pytest.mark.parametrize("value", ["..", "../../x", "", "a/b", "\0"])
def test_the_sink_makes_no_path_of_it_either(value: str) -> None:
    """A key that was made by hand, past every check, still names a file inside its tenant's directory."""
    for key in (
        SessionKey("t", value, "c", "d"),
        SessionKey("t", "a", value, "d"),
        SessionKey("t", "a", "c", value),
    ):
        for path in session_paths(ROOT, key):
            assert os.path.normpath(path).startswith(str(ROOT / "t" / "agents") + "/")
    assert ".." not in sessions_dir(ROOT, "t", value).parts


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("CON", "=43=4f=4e"),
        ("con", "=63on"),
        ("lpt9", "=6cpt9"),
        ("com10", "com10"),
        ("aux.x", "aux=2ex"),
        ("trailing.", "trailing=2e"),
        ("trailing ", "trailing=20"),
        ("a_b", "a_b"),
        ("a:b", "a=3ab"),
        ("é", "=c3=a9"),
        ("=", "=3d"),
        ("~", "=7e"),
        ("None", "=4eone"),
    ],
)
def test_how_names_are_written(value: str, name: str) -> None:
    """The rule of docs/format.md, which must never change for what is on the disk."""
    assert dir_name(value) == name


def test_long_names_keep_their_beginning() -> None:
    """A name of 300 characters is shortened to 120, and its hash tells it from others of that beginning."""
    name = session_key("a", "telegram", "x" * 300).file_name
    assert len(name) == 120
    assert name.startswith("telegram~" + "x" * 77)
    assert name[86:88] == "~~"
    assert name != session_key("a", "telegram", "x" * 301).file_name
    assert len(dir_name("y" * 300)) == 64


def test_composed_and_decomposed_letters_are_one_id() -> None:
    """The same letters typed two ways (NFC, NFD) are one session; look-alikes are another."""
    assert session_key("a", "b", "caf\u00e9") == session_key("a", "b", "cafe\u0301")
    assert session_key("a", "b", "\u212a") == session_key("a", "b", "K")
    assert session_key("a", "b", "а") != session_key("a", "b", "a")


def test_an_id_is_measured_as_it_is_kept() -> None:
    """An id that NFC makes longer than is allowed is refused at once, not when its key is used."""
    with pytest.raises(InvalidKey):
        session_key("a", "b", "\U0001d160" * 1024)


def test_normalising_makes_no_separator() -> None:
    """No character becomes a separator, a dot or a control character by being normalised."""
    bad = set("/\\:.\0%~")
    for code in range(0x110000):
        char = chr(code)
        if char not in bad and not 0xD800 <= code < 0xE000:
            assert not bad & set(unicodedata.normalize("NFC", char)), hex(code)


@pytest.mark.parametrize(
    "text", ["", "a", "a:b", "t/a:b", "/a:b:c", "t//a:b:c", "t/a:b:c/d", "a:b:c/d", "::", "t/::"]
)
def test_what_is_no_key(text: str) -> None:
    """A key has its three parts, each with something in it, and at most one slash after the tenant."""
    with pytest.raises(InvalidKey):
        parse_key(text)
