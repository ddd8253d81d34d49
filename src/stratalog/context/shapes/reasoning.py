"""Whose reasoning is whose: a provider takes back its own, sealed, and refuses any other's.

Anthropic signs what it shows (`signature` alone) and seals what it does not (`redacted` alone). OpenAI's
responses seal all (`redacted`, with the item's id as `signature`); their seals begin with the mark of the
format, by which imported ones that lost their id are known. Reasoning without a seal is that of compatible
servers; some of them want it back, all others refuse it.
"""

from __future__ import annotations

from stratalog.types import Reasoning

_OPENAI_SEAL = "gAAAA"


def of_anthropic(part: Reasoning) -> bool:
    if part.redacted:
        return not (part.signature or part.text or part.redacted.startswith(_OPENAI_SEAL))
    return bool(part.signature)


def of_openai(part: Reasoning) -> bool:
    return bool(part.redacted) and bool(part.signature or part.redacted.startswith(_OPENAI_SEAL))


def of_chat(part: Reasoning) -> bool:
    return bool(part.text) and not (part.signature or part.redacted)
