"""Texts cut to a number of tokens. Apart from compaction, which is not loaded by who only builds contexts."""

from __future__ import annotations

from collections.abc import Callable

CountText = Callable[[str], int]


def capped(text: str, limit: int, count: CountText) -> str:
    """The text's first lines, of at most `limit` tokens."""
    if count(text) <= limit:
        return text
    lines: list[str] = []
    used = 0
    for line in text.split("\n"):
        cost = count(line) + 1
        if used + cost > limit:
            break
        lines.append(line)
        used += cost
    return "\n".join(lines) if lines else cut_to(text, limit, count)


def cut_to(text: str, limit: int, count: CountText) -> str:
    """The text without so much of its middle that it has fewer than `limit` tokens."""
    while count(text) + 1 > limit and len(text) > 4:
        keep = int(len(text) * 0.7)
        cut = f"{text[: keep // 2]} […] {text[-keep // 2 :]}"
        text = cut if len(cut) < len(text) else text[:keep]
    return text
