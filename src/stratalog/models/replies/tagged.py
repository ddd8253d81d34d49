"""A thought that a server leaves inside the text, told from the answer by its tags.

Models that think write `<think>…</think>` before they answer, and servers without a parser for the model at
hand (llama.cpp, vLLM, Ollama) let it through. Only what stands at the very beginning of a reply, white space
aside, is taken for a thought; later tags are text, for a model may write about them. A thought that is never
closed is a thought to the end. A closing tag without its opening, as templates give that open the thought in
the prompt, stays in the text: before it comes nobody can know.

White space around the thought and between it and the answer belongs to neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from stratalog.models.contract import ReasoningDelta, TextDelta

_TAGS = ("<think>", "<thinking>", "<reasoning>")
_OPENING = re.compile(r"\s*(" + "|".join(_TAGS) + ")")


class Tagged:
    """Takes the text in whatever pieces it comes; what it gives is the same, joined, for any pieces."""

    def __init__(self) -> None:
        self._at: Literal["beginning", "thought", "between", "text"] = "beginning"
        self._closing = ""
        self._thought = False  # some of the thought was given
        self._held = ""

    def text_only(self) -> None:
        """Says that the server tells thoughts apart by itself, so that no tag is one from here on."""
        if self._at == "beginning":
            self._at = "text"

    def take(self, piece: str) -> Iterator[TextDelta | ReasoningDelta]:
        """What is sure with this piece; what may yet be part of a tag is held back."""
        self._held += piece
        if self._at == "beginning":
            self._begin()
        if self._at == "thought":
            yield from self._think()
        if self._at == "between":
            self._held = self._held.lstrip()
            self._at = "text" if self._held else "between"
        if self._at == "text" and self._held:
            yield TextDelta(self._held)
            self._held = ""

    def rest(self) -> Iterator[TextDelta | ReasoningDelta]:
        """What was held back, once there is no more."""
        held, self._held = self._held, ""
        if self._at == "thought":
            yield from self._thought_of(held)
        elif held and self._at != "between":
            yield TextDelta(held)

    def _begin(self) -> None:
        opening = _OPENING.match(self._held)
        if opening:
            self._at, self._closing = "thought", f"</{opening[1][1:]}"
            self._held = self._held[opening.end() :]
        elif not any(tag.startswith(self._held.lstrip()) for tag in _TAGS):
            self._at = "text"

    def _think(self) -> Iterator[ReasoningDelta]:
        thought, closed, answer = self._held.partition(self._closing)
        if closed:
            self._at, self._held = "between", answer
            yield from self._thought_of(thought)
            return
        sure = len(thought) - _begun(thought, self._closing)
        sure = len(thought[:sure].rstrip())
        self._held = thought[sure:]
        yield from self._thought_of(thought[:sure])

    def _thought_of(self, words: str) -> Iterator[ReasoningDelta]:
        words = words.rstrip() if self._thought else words.strip()
        if words:
            self._thought = True
            yield ReasoningDelta(words)


def _begun(words: str, tag: str) -> int:
    """How many characters at the end of the words are the beginning of the tag."""
    longest = range(min(len(words), len(tag) - 1), 0, -1)
    return next((length for length in longest if words.endswith(tag[:length])), 0)
