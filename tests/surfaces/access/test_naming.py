"""Naming a user in a header: every id can be written, and nothing is read as somebody else."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidInput
from stratalog.surfaces.access.naming import user_named

_IDS = st.text(st.characters(exclude_categories=("Cs",)))


@given(_IDS)
def test_every_id_is_read_back(user: str) -> None:
    """Percent-encoded, as every HTTP client can, it is the same again."""
    assert user_named(quote(user, safe="")) == user


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters="%")))
def test_plain_ascii_means_itself(user: str) -> None:
    """Also a plus sign, which is a space only in forms."""
    assert user_named(user) == user


@pytest.mark.parametrize(
    ("value", "user"),
    [
        ("%E5%B0%8F%E7%8E%8B", "小王"),
        ("%e5%b0%8f%e7%8e%8b", "小王"),
        ("100%25", "100%"),
        ("a%2520b", "a%20b"),
        ("a%20b", "a b"),
    ],
)
def test_percent_encoding_is_read_once(value: str, user: str) -> None:
    """UTF-8 in either case of the digits; what comes of it is not decoded again."""
    assert user_named(value) == user


@pytest.mark.parametrize("value", ["100%", "%", "%zz", "a%2", "%E5%B0", "%FF", "%ED%A0%80", "å°\x8f", "小王"])
def test_what_is_no_percent_encoded_utf8_is_refused(value: str) -> None:
    """A loose percent sign, bytes that are no UTF-8, half a surrogate, and letters that were not encoded."""
    with pytest.raises(InvalidInput):
        user_named(value)
