"""What images, sounds and files cost: by their provider's rule and their pixels, never by their bytes."""

from __future__ import annotations

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tokens import media
from stratalog.tokens.families import family_of
from stratalog.tokens.media import ImageRule, dimensions, image_tokens, rule_tokens
from stratalog.types import Blob, Image

RULES = (
    media.FLAT,
    media.CLAUDE,
    media.CLAUDE_HIGH,
    media.GPT_4O,
    media.GPT_5,
    media.GPT_MINI,
    media.GPT_PATCHES,
    media.GEMINI_2,
    media.GEMINI_3,
)


def png(width: int, height: int) -> bytes:
    return (
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06\0\0\0" + b"\0" * 100
    )


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0" * 20


def jpeg(width: int, height: int, before: int = 40) -> bytes:
    return (
        b"\xff\xd8\xff\xe1"
        + struct.pack(">H", before + 2)
        + b"\xff\xc0" * (before // 2)  # what looks like a frame inside another segment is not one
        + b"\xff\xff\xc4\x00\x04\0\0"
        + b"\xff\xc2\x00\x11\x08"
        + struct.pack(">HH", height, width)
        + b"\x03" * 20
    )


def webp(kind: bytes, width: int, height: int) -> bytes:
    head = b"RIFF\x00\x01\x00\x00WEBP" + kind + b"\x00\x01\x00\x00"
    match kind:
        case b"VP8X":
            return head + b"\0" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        case b"VP8L":
            return head + b"\x2f" + (width - 1 | (height - 1) << 14).to_bytes(4, "little") + b"\0" * 20
        case _:
            return head + b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height) + b"\0" * 20


@pytest.mark.parametrize("size", [(1, 1), (640, 480), (4032, 3024), (16_000, 2)])
@pytest.mark.parametrize(
    "made",
    [
        png,
        gif,
        jpeg,
        lambda w, h: jpeg(w, h, 60_000),
        *(lambda w, h, k=k: webp(k, w, h) for k in (b"VP8X", b"VP8L", b"VP8 ")),
    ],
    ids=["png", "gif", "jpeg", "jpeg, late", "webp x", "webp l", "webp"],
)
def test_dimensions(made, size) -> None:  # type: ignore[no-untyped-def]  # the parameters tell
    """The pixels are read from the header of each format."""
    assert dimensions(made(*size)) == size


@pytest.mark.parametrize(
    "made", [png, gif, jpeg, lambda w, h: webp(b"VP8L", w, h)], ids=["png", "gif", "jpeg", "webp"]
)
def test_torn(made) -> None:  # type: ignore[no-untyped-def]  # the parameters tell
    """A torn header tells the right size or none, and never fails."""
    whole = made(640, 480)
    for end in range(len(whole)):
        assert dimensions(whole[:end]) in (None, (640, 480))


@given(st.binary(max_size=200) | st.binary(max_size=80).map(lambda rest: b"\xff\xd8\xff" + rest))
def test_any_bytes(data: bytes) -> None:
    """Bytes that are no image tell no size, or one that costs something."""
    size = dimensions(data)
    assert size is None or min(size) > 0


def test_endless_segments() -> None:
    """A JPEG of nothing but segments is given up on."""
    assert dimensions(b"\xff\xd8" + b"\xff\xe0\x00\x02" * 100_000) is None


@pytest.mark.parametrize(
    ("rule", "size", "tokens"),
    [
        (media.FLAT, (1, 1), 1_600),
        (media.FLAT, (9_000, 9_000), 1_600),
        # platform.claude.com, "Evaluate image size": 200² about 54, 1,000² about 1,334, 1092² about 1,590.
        (media.CLAUDE, (200, 200), 54),
        (media.CLAUDE, (1_000, 1_000), 1_334),
        (media.CLAUDE, (1_092, 1_092), 1_590),
        (media.CLAUDE, (4_032, 3_024), 1_600),
        (media.CLAUDE_HIGH, (1_920, 1_080), 2_765),  # measured: 2,768 with the prompt
        (media.CLAUDE_HIGH, (8_000, 8_000), 4_784),
        # developers.openai.com, "Calculating costs": 1,024² is 765, 2,048 × 4,096 is 1,105.
        (media.GPT_4O, (1_024, 1_024), 765),
        (media.GPT_4O, (2_048, 4_096), 1_105),
        (media.GPT_4O, (512, 512), 255),
        (media.GPT_5, (1_024, 1_024), 630),
        (media.GPT_MINI, (1_024, 1_024), 1_659),
        (media.GPT_MINI, (8_000, 8_000), 2_489),
        # measured on GPT-5.5 and 6: 77, 1,229, 2,448, 9,792
        (media.GPT_PATCHES, (256, 256), 77),
        (media.GPT_PATCHES, (1_024, 1_024), 1_229),
        (media.GPT_PATCHES, (1_920, 1_080), 2_448),
        (media.GPT_PATCHES, (3_840, 2_160), 9_792),
        # ai.google.dev/gemini-api/docs/tokens
        (media.GEMINI_2, (384, 384), 258),
        (media.GEMINI_2, (385, 100), 258),
        (media.GEMINI_2, (1_000, 1_000), 1_032),
        (media.GEMINI_3, (4_032, 3_024), 1_120),
    ],
)
def test_rules(rule: ImageRule, size: tuple[int, int], tokens: int) -> None:
    """Each rule gives what its provider documents, or what was measured."""
    assert rule_tokens(rule, size) == tokens


@given(st.sampled_from(RULES), st.integers(0, 100_000), st.integers(0, 100_000))
def test_bounded(rule: ImageRule, width: int, height: int) -> None:
    """An image always costs something; one that its provider scales down never costs a window."""
    tokens = rule_tokens(rule, (width, height))
    assert tokens >= 1
    assert rule.scheme == "crops" or tokens <= 15_000


def test_size_independent() -> None:
    """S86: an image costs the same however many bytes it has, inline, out of line or as a data: URL."""
    small = Image(data=png(1_920, 1_080))
    large = Image(data=png(1_920, 1_080) + b"\x5a" * 4_000_000)
    away = Image(blob=Blob(sha256="0" * 64, size=4_000_000))
    inlined = Image(url="data:image/png;base64," + base64.b64encode(large.data).decode())
    for rule in RULES:
        assert len({image_tokens(rule, image) for image in (small, large, away, inlined)}) == 1


@pytest.mark.parametrize(
    "url", ["https://x/y.png", "data:image/png;base64,!", "data:image/png,x", "data:text/plain;base64,AAAA"]
)
def test_unknown_pixels(url: str) -> None:
    """An image whose pixels are not at hand costs what a screenshot does."""
    assert image_tokens(media.CLAUDE_HIGH, Image(url=url)) == rule_tokens(media.CLAUDE_HIGH, (1_920, 1_080))


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        ("gpt-4o-mini-2024-07-18", media.GPT_4O),
        ("openai/gpt-5-mini", media.GPT_MINI),
        ("gpt-6-astra", media.GPT_PATCHES),
        ("claude-sonnet-4-5-20250929", media.CLAUDE),
        ("us.anthropic.claude-opus-4-7-v1:0", media.CLAUDE_HIGH),
        ("models/gemini-2.5-flash", media.GEMINI_2),
        ("gemini-3.1-pro-preview", media.GEMINI_3),
        ("a-model-of-ours", media.FLAT),
    ],
)
def test_rule_of_model(model: str, rule: ImageRule) -> None:
    """The rule follows from the model's name."""
    assert family_of(model).images == rule
