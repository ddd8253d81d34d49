"""What an image, a sound or a file costs in tokens: by its provider's rule, never by its size in bytes.

A provider scales an image before it looks, so the cost follows from its pixels and is bounded. Each rule
names where it is documented. The pixels are read from the first bytes of a PNG, GIF, WebP or JPEG; where they
are not at hand (a URL, a payload out of line, another format), an image costs what the rule says of a
screenshot of 1920 by 1080, and with no rule `IMAGE`. Sounds and files are flat: their length is not in their
first bytes.
"""

from __future__ import annotations

import binascii
from typing import Final, Literal, TypeAlias

import msgspec

from stratalog.types import Image

Size: TypeAlias = tuple[int, int]
Scheme: TypeAlias = Literal["flat", "area", "tiles", "patches", "crops"]

IMAGE: Final = 1_600
"""An image for a model of unknown rule: the ceiling of the commonest one, `CLAUDE`."""
AUDIO: Final = 1_000
"""A sound: half a minute at 32 tokens a second (ai.google.dev/gemini-api/docs/tokens)."""
FILE: Final = 2_000
"""A file: a page of PDF, 1,500 to 3,000 (platform.claude.com/docs/en/build-with-claude/pdf-support)."""

_SCREENSHOT: Final = (1_920, 1_080)
_SEGMENTS: Final = 64
_HEAD: Final = 65_536


class ImageRule(msgspec.Struct, frozen=True):
    """How a provider charges for an image; the numbers are those of its document, `source`.

    `area`: width × height / `per`, at most `cap`. `tiles`: `base` and `per` for each tile of 512 once the
    image is scaled into 2,048 squared and its shorter side to 768. `patches`: `scale` for each patch of 32
    squared, at most `cap` patches. `crops`: `per` for each crop of 768, one if it is within 384 squared.
    `flat`: `base`.
    """

    scheme: Scheme
    base: int = 0
    per: int = 0
    cap: int = 0
    scale: float = 1.0
    source: str = ""


FLAT: Final = ImageRule("flat", base=IMAGE, source="no rule is known for the model")

_OPENAI: Final = "developers.openai.com/api/docs/guides/images-vision, 'Calculating costs'"
_ANTHROPIC: Final = "platform.claude.com/docs/en/build-with-claude/vision"
_GOOGLE: Final = "ai.google.dev/gemini-api/docs/tokens"
_MEASURED: Final = "; measured at ten sizes: huggingface.co/datasets/JOHNISKING/image-token-cost (2026-11)"

CLAUDE: Final = ImageRule("area", per=750, cap=1_600, source=_ANTHROPIC + _MEASURED)
CLAUDE_HIGH: Final = ImageRule("area", per=750, cap=4_784, source=_ANTHROPIC + " (from Opus 4.7)" + _MEASURED)
GPT_4O: Final = ImageRule("tiles", base=85, per=170, source=_OPENAI)
GPT_5: Final = ImageRule("tiles", base=70, per=140, source=_OPENAI)
GPT_O: Final = ImageRule("tiles", base=75, per=150, source=_OPENAI)
GPT_MINI: Final = ImageRule("patches", cap=1_536, scale=1.62, source=_OPENAI)
GPT_NANO: Final = ImageRule("patches", cap=1_536, scale=2.46, source=_OPENAI)
GPT_O4_MINI: Final = ImageRule("patches", cap=1_536, scale=1.72, source=_OPENAI)
GPT_PATCHES: Final = ImageRule("patches", cap=12_000, scale=1.2, source=_OPENAI + _MEASURED)
GEMINI_2: Final = ImageRule("crops", per=258, source=_GOOGLE)
GEMINI_3: Final = ImageRule("flat", base=1_120, source=_GOOGLE + ", media_resolution high" + _MEASURED)


def image_tokens(rule: ImageRule, image: Image) -> int:
    """What the image costs, at least 1. `detail` is taken to be high, as providers do when it is not said."""
    return rule_tokens(rule, dimensions(image.data or _inlined(image.url)) or _SCREENSHOT)


def _inlined(url: str) -> bytes:
    """The first bytes of an image given as a data: URL; none when it is another or broken."""
    if not url.startswith("data:image/"):
        return b""
    _, _, payload = url[: _HEAD + 100].partition(";base64,")
    payload = payload[:_HEAD]
    try:
        return binascii.a2b_base64(payload[: len(payload) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def rule_tokens(rule: ImageRule, size: Size) -> int:
    """What an image of that width and height in pixels costs, at least 1."""
    width, height = max(1, size[0]), max(1, size[1])
    match rule.scheme:
        case "flat":
            return max(1, rule.base)
        case "area":
            return min(rule.cap, -(-width * height // rule.per))
        case "tiles":
            width, height = _scaled(width, height)
            return rule.base + rule.per * -(-width // 512) * -(-height // 512)
        case "patches":
            patches = min(rule.cap, -(-width // 32) * -(-height // 32))
            return -(-patches * round(rule.scale * 100) // 100)
        case "crops":
            if width <= 384 and height <= 384:
                return rule.per
            return rule.per * -(-width // 768) * -(-height // 768)


def _scaled(width: int, height: int) -> Size:
    """Within 2,048 squared, then with a shorter side of 768, as OpenAI scales before it cuts tiles."""
    longer = max(width, height)
    if longer > 2_048:
        width, height = max(1, width * 2_048 // longer), max(1, height * 2_048 // longer)
    shorter, longer = sorted((width, height))
    if shorter > 768:
        width, height = width * 768 // shorter, height * 768 // shorter
    return width, height


def dimensions(data: bytes) -> Size | None:
    """The width and height that an image's first bytes tell; None when they do not, or tell nonsense."""
    size = _png(data) or _gif(data) or _webp(data) or _jpeg(data)
    return size if size and 0 < size[0] <= 100_000 and 0 < size[1] <= 100_000 else None


def _png(data: bytes) -> Size | None:
    if data[:8] != b"\x89PNG\r\n\x1a\n" or data[12:16] != b"IHDR" or len(data) < 24:
        return None
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _gif(data: bytes) -> Size | None:
    if data[:6] not in (b"GIF87a", b"GIF89a") or len(data) < 10:
        return None
    return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")


def _webp(data: bytes) -> Size | None:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < 30:
        return None
    match data[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(
                data[28:30], "little"
            ) & 0x3FFF
        case _:
            return None


def _jpeg(data: bytes) -> Size | None:
    """The size stands in the frame's header, after segments that are stepped over by their lengths."""
    if data[:2] != b"\xff\xd8":
        return None
    at = 2
    for _ in range(_SEGMENTS):
        while at < len(data) and data[at : at + 2] == b"\xff\xff":
            at += 1
        if len(data) < at + 9 or data[at] != 0xFF:
            return None
        kind = data[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None
