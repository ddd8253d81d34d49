"""context/shapes/reasoning.py: reasoning goes back to the provider that gave it, and to no other."""

from __future__ import annotations

import pytest

from context.shapes.conversations import sealed, signed
from stratalog.context.shapes.reasoning import of_anthropic, of_openai
from stratalog.types import Reasoning


@pytest.mark.parametrize(
    ("part", "anthropic", "openai"),
    [
        (signed("hm"), True, False),
        (signed(""), True, False),
        (Reasoning(redacted="opaque"), True, False),
        (sealed("hm"), False, True),
        (sealed(""), False, True),
        (Reasoning(redacted="gAAAAx"), False, True),
        (Reasoning(text="hm", redacted="gAAAAx"), False, True),
        (Reasoning(text="hm"), False, False),
        (Reasoning(), False, False),
    ],
)
def test_whose_it_is(part: Reasoning, anthropic: bool, openai: bool) -> None:
    """Each form is one provider's at most."""
    assert (of_anthropic(part), of_openai(part)) == (anthropic, openai)
