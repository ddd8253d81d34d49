"""context/shapes/media.py: bytes and addresses as providers take them."""

from __future__ import annotations

import base64

import pytest

from context.shapes.conversations import PNG
from stratalog.context.shapes.media import image, inline, link, not_shown, words_in
from stratalog.types import Audio, Data, File, Image


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (Image(media_type="image/jpeg", data=PNG), "image/png"),
        (Image(data=b"\xff\xd8\xff"), "image/jpeg"),
        (Image(data=b"GIF89a"), "image/gif"),
        (Image(media_type="image/png", data=b"RIFF1234WEBPVP8 "), "image/webp"),
        (Image(media_type="image/jpg", data=b"?"), "image/jpeg"),
        (Image(data=b"?"), "image/png"),
        (Image(url="data:image/gif;base64," + base64.b64encode(PNG).decode()), "image/png"),
        (Image(media_type="image/tiff", data=b"II*"), None),
        (Image(url="https://x/y.png"), None),
        (Image(), None),
    ],
)
def test_the_type_of_an_image(part: Image, kind: str | None) -> None:
    """The first bytes tell it, else what was said; a type that no provider takes is none."""
    found = image(part)
    assert (found.media_type if found else None) == kind


def test_bytes_and_addresses() -> None:
    """A data: URL is bytes, with parameters or without; only http addresses can be fetched."""
    assert inline(Audio(url="data:audio/wav;codecs=1;base64,AQ==")) == ("audio/wav", "AQ==")
    assert inline(Audio(media_type="audio/wav", url="data:;base64,AQ==")) == ("audio/wav", "AQ==")
    assert inline(File(url="https://x/y")) is None
    assert [link(Image(url=url)) for url in ("https://x/y", "data:image/png;base64,AQ==", "y.png")] == [
        "https://x/y",
        "",
        "",
    ]


def test_words() -> None:
    """Text is told by its type and must be UTF-8; what cannot be shown is named."""
    assert words_in(File(media_type="application/json", data=b"{}")) == "{}"
    assert words_in(File(media_type="text/plain", data=b"\xff")) == ""
    assert words_in(File(media_type="application/zip", data=b"a")) == ""
    assert [
        not_shown(part)
        for part in (Image(), Image(data=b"?"), Audio(), File(name="a.zip"), Data(kind="video"))
    ] == [
        "[image not available]",
        "[image not shown]",
        "[audio not shown]",
        "[a.zip not shown]",
        "[video not shown]",
    ]
