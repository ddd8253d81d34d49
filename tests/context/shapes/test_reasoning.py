"""context/shapes/reasoning.py: reasoning goes back to the provider that gave it, and to no other."""

from __future__ import annotations

import pytest

from context.shapes.conversations import sealed, signed
from stratalog.context.shapes.reasoning import of_anthropic, of_chat, of_openai
from stratalog.types import Reasoning


@pytest.mark.parametrize(
    ("part", "takers"),
    [
        (signed("hm"), "anthropic"),
        (signed(""), "anthropic"),
        (Reasoning(redacted="opaque"), "anthropic"),
        (sealed("hm"), "openai"),
        (sealed(""), "openai"),
        (Reasoning(redacted="gAAAAx"), "openai"),
        (Reasoning(text="hm", redacted="gAAAAx"), "openai"),
        (Reasoning(text="hm"), "chat"),
        (Reasoning(), ""),
    ],
)
def test_whose_it_is(part: Reasoning, takers: str) -> None:
    """Each form is one provider's at most."""
    takes = {"anthropic": of_anthropic, "openai": of_openai, "chat": of_chat}
    assert [name for name, of in takes.items() if of(part)] == takers.split()
