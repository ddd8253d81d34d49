"""A summary without any model: the sentences worth keeping, as they were said, each with its entry.

Deterministic and at once, in English and Chinese, so that compaction never depends on a provider. Sentences
are weighed by what they look like (an instruction, a decision, a fact with names and numbers), by who said
them, and by how rare their words are among all that was said; near repetitions count once. A summary made
here is read back line by line the next time, so what was worth keeping is carried on under the same weights.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

import regex

from stratalog.types import AnyEntry, Assistant, ToolCall, ToolResult, User, is_injected

NAME = "extractive"
_SECTIONS = ("Goal", "Standing instructions", "Decisions", "Facts", "What was done")
_OTHERS = "Summary"  # the heading over another summariser's text
_GOAL, _INSTRUCTION, _DECISION, _FACT, _DONE = range(5)
_LINE = regex.compile(r"- \[(?P<source>[^\]\s]*)\] (?P<text>.*)")
LONGEST = 400
_SHORTEST = 6
LOOKED_AT = 20_000

# A sentence ends after its mark; a list item, a heading or a line of a table is one by itself.
SENTENCES = regex.compile(
    r"[^\n。！？!?.;；]+"
    r"(?:[.](?:(?=\S)|(?<=\b(?:Mr|Mrs|Ms|Dr|St|No|vs|etc|[A-Z])\.))[^\n。！？!?.;；]*)*[。！？!?.;；]*[\"'”’）)]*"
)
_INSTRUCTS = regex.compile(
    r"\b(?:always|never|must(?:n't| not)?|don'?t|do not|from now on|remember(?: that)?|make sure|only use"
    r"|prefer|avoid|stick (?:to|with)|rule:|please (?:use|keep|write|answer|call|note))\b"
    r"|必须|一定要|(?<!要)不要|别再|总是|从不|永远|记住|记得|记一下|请用|请务必|以后|务必|优先|偏好|只用|不准|规定",
    regex.IGNORECASE,
)
_DECIDES = regex.compile(
    r"\b(?:decided?|agreed?|chose|chosen|we(?:'ll| will)|let'?s (?:go|use|do|keep|ship)|settled|approved"
    r"|deadline|launch(?:es)?|freeze)\b|决定|同意|确定|选了|就用|定在|截止|上线|批准",
    regex.IGNORECASE,
)
_STATES = regex.compile(
    r"\b(?:my|our|his|her|their|i'?m|i am|is|are|was|were|has|have|lives?|works?|named?|called|born|allergic"
    r"|owns?|costs?)\b|我的|我们的|他的|她的|叫|是|住在|在|有|过敏|生日|电话|地址|名字|负责|等于|改成",
    regex.IGNORECASE,
)
_NAMES = regex.compile(
    r"(?<=[^\s.!?。！？][\s(（\"'“])\p{Lu}[\p{L}\d_-]+|\d[\d.,:/-]*|`[^`\n]+`|[\w.-]+@[\w.-]+|https?://\S+"
    r"|[/~][\w./-]{3,}|[「『《“][^」』》”\n]{1,40}[」』》”]|\b[A-Z]{2,}[A-Z0-9-]*\b"
)
_WORDS = regex.compile(r"[\p{Latin}\p{Cyrillic}\p{Greek}\d_]+|\p{Han}")
_STOP = frozenset(
    [
        "the",
        "a",
        "an",
        "and",
        "or",
        "of",
        "to",
        "in",
        "on",
        "for",
        "with",
        "is",
        "are",
        "was",
        "it",
        "this",
        "that",
    ]
)


class Sentence(NamedTuple):
    """A candidate: where it is from, its words, its kind, its place, and whether a summary had it before."""

    source: str
    text: str
    kind: int
    role: float
    place: int
    carried: bool


def extract(entries: Iterable[AnyEntry], previous: str, limit: int, count: Callable[[str], int]) -> str:
    """A summary of `previous` and then `entries`, of at most `limit` tokens as `count` counts them.

    The lines are `- [entry id] sentence` under headings; sentences of a `previous` that another summariser
    wrote have no id. Where nothing was said, tools that were called are counted; empty when there were none.
    """
    calls: Counter[str] = Counter()
    first = ""
    candidates = [*carried(previous)]
    for entry in entries:
        candidates += _said(entry, len(candidates))
        if isinstance(entry, ToolCall):
            calls[entry.name] += 1
            first = first or entry.id
    chosen = _choose(_with_goal(candidates), limit, count)
    if not chosen and calls:
        text = "Called " + ", ".join(f"{name} {times}x" for name, times in calls.most_common(12)) + "."
        line = Sentence(first, text[:LONGEST], _DONE, 1.0, 0, False)
        chosen = [line] if count(_written([line])) <= limit else []
    return _written(chosen)


def standing(entries: Iterable[AnyEntry], previous: str, limit: int, count: Callable[[str], int]) -> str:
    """Of what `extract` would find only the goal and the standing instructions, word for word."""
    candidates = [*carried(previous)]
    for entry in entries:
        if isinstance(entry, User):
            candidates += _said(entry, len(candidates))
    candidates = [each for each in _with_goal(candidates) if each.kind in (_GOAL, _INSTRUCTION)]
    return _written(_choose(candidates, limit, count))


def _with_goal(candidates: list[Sentence]) -> list[Sentence]:
    """The same with a goal: where none was carried on, the first that the user said."""
    if any(sentence.kind == _GOAL for sentence in candidates):
        return candidates
    first = next((at for at, sentence in enumerate(candidates) if sentence.role > 1), None)
    if first is None:
        return candidates
    return [*candidates[:first], candidates[first]._replace(kind=_GOAL), *candidates[first + 1 :]]


def _said(entry: AnyEntry, place: int) -> list[Sentence]:
    if isinstance(entry, User):
        role = 1.6
    elif isinstance(entry, Assistant):
        role = 1.0
    elif isinstance(entry, ToolResult) and entry.error:
        role = 0.4
    else:
        return []
    if is_injected(entry):
        return []
    text = regex.sub(r"```.*?```", " ", entry.text[:LOOKED_AT], flags=regex.DOTALL)
    found: list[Sentence] = []
    for piece in SENTENCES.findall(text):
        sentence = " ".join(piece.split()).strip("-*#> |")
        if len(sentence) >= _SHORTEST:
            found.append(
                Sentence(entry.id, sentence[:LONGEST], _kind(sentence, role), role, place + len(found), False)
            )
    return found


def _kind(sentence: str, role: float) -> int:
    if role > 1 and _INSTRUCTS.search(sentence):
        return _INSTRUCTION
    if _DECIDES.search(sentence):
        return _DECISION
    if role > 1 or _NAMES.search(sentence):
        return _FACT
    return _DONE


def carried(previous: str) -> list[Sentence]:
    """The lines of an earlier summary of ours, and the sentences of somebody else's."""
    found: list[Sentence] = []
    kind: int | None = None
    for line in previous.split("\n"):
        heading = line.rstrip(":")
        if heading in _SECTIONS:
            kind = _SECTIONS.index(heading)
            continue
        if heading == _OTHERS:
            kind = None
            continue
        matched = _LINE.match(line)
        if matched and kind is not None:
            found.append(Sentence(matched["source"], matched["text"], kind, 1.6, len(found), True))
            continue
        source, text = (matched["source"], matched["text"]) if matched else ("", line)
        for piece in SENTENCES.findall(text):
            sentence = " ".join(piece.split()).strip("-*#> |")
            if len(sentence) >= _SHORTEST:
                kept = sentence[:LONGEST]
                found.append(Sentence(source, kept, _kind(sentence, 1.6), 1.6, len(found), True))
    return found


def terms_of(text: str) -> list[str]:
    """Words, and pairs of neighbouring Chinese characters."""
    words = [word.lower() for word in _WORDS.findall(text)]
    pairs = [a + b for a, b in pairwise(words) if len(a) == 1 == len(b) and a > "\u2e80"]
    return [word for word in words if word not in _STOP and (len(word) > 1 or word.isdigit())] + pairs


def _choose(candidates: list[Sentence], limit: int, count: Callable[[str], int]) -> list[Sentence]:
    """The heaviest sentences that fit, few of those that are alike, in the order they were said."""
    terms = [frozenset(terms_of(sentence.text)) for sentence in candidates]
    spread = Counter(term for found in terms for term in found)
    total = max(2, len(candidates))

    def weight(number: int) -> float:
        sentence = candidates[number]
        found = terms[number]
        if not found:
            return 0.0
        rare = sum(math.log(total / spread[term]) for term in found) / (len(found) + 2) / math.log(total)
        names = min(4, len(_NAMES.findall(sentence.text)))
        shape = (3.0, 1.4, 1.2, 0.8, 0.2)[sentence.kind]
        states = 0.4 if _STATES.search(sentence.text) else 0.0
        asks = -0.6 if sentence.text.rstrip()[-1:] in "?？" and sentence.kind == _FACT else 0.0
        carried = 0.3 if sentence.carried else 0.0
        return sentence.role * (shape + states + 0.3 * names + asks + 1.5 * rare) + carried

    weights = [weight(number) for number in range(len(candidates))]
    order = sorted(range(len(candidates)), key=lambda number: (-weights[number], candidates[number].place))
    room = limit - sum(count(f"{name}:") for name in _SECTIONS)
    chosen: list[int] = []
    alike = _Alike()
    for number in order:
        if weights[number] <= 0.0:
            break
        words = frozenset(term for term in terms[number] if not term.isdigit())
        cost = count(_line(candidates[number])) + 1
        if cost > room or alike.enough(words, terms[number]):
            continue
        room -= cost
        chosen.append(number)
        alike.add(words, terms[number])
        if room < 12:
            break
    return [candidates[number] for number in sorted(chosen, key=lambda number: candidates[number].place)]


class _Alike:
    """What was chosen, by its words: the same but for its numbers is taken three times, the same once."""

    def __init__(self) -> None:
        self._chosen: list[tuple[frozenset[str], frozenset[str]]] = []
        self._holders: dict[str, list[int]] = {}

    def enough(self, words: frozenset[str], terms: frozenset[str]) -> bool:
        shared = Counter(other for word in words for other in self._holders.get(word, ()))
        near = [other for other, both in shared.items() if both / len(words | self._chosen[other][0]) > 0.7]
        return len(near) >= 3 or any(len(terms ^ self._chosen[other][1]) <= 1 for other in near)

    def add(self, words: frozenset[str], terms: frozenset[str]) -> None:
        for word in words:
            self._holders.setdefault(word, []).append(len(self._chosen))
        self._chosen.append((words, terms))


def _line(sentence: Sentence) -> str:
    return f"- [{sentence.source}] {sentence.text}"


def _written(chosen: list[Sentence]) -> str:
    parts = []
    for kind, name in enumerate(_SECTIONS):
        under = [_line(sentence) for sentence in chosen if sentence.kind == kind]
        if under:
            parts.append("\n".join([f"{name}:", *under]))
    return "\n".join(parts)
