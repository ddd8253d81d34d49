"""Deciding what to fold into a summary, and what a summary must be; the engine does what is decided here.

A plan keeps the newest turns whole, as many as the policy asks for but no more than leave the context at its
target; of the newest turn alone, when even that is too long, its first message and its latest rounds.
Cuts are made only where no call is parted from its result. Messages that wait, and the message of a turn that
runs, are never folded: a process that begins later finds its work by them. What else lies before is covered:
it goes to the summariser together with the summary before it, in chunks that fit the summariser's own window.

The goal and the standing instructions are not left to the summariser: they are taken from what the user said,
word for word, and put before its text, as they were found by the extractive summariser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
import regex

from stratalog.context.cutting import CountText, capped, cut_to
from stratalog.context.view import Seen, TurnView, View, split_rounds
from stratalog.errors import InvalidInput
from stratalog.types import AnyEntry, Assistant, ToolCall, ToolResult, User, is_injected, text_of

Count = Callable[[AnyEntry], int]


_SMALL, _SMALL_SHARE = 800, 7  # in a small window a quarter of the target holds too few facts


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """When to compact and how far. Sizes are tokens; `window` is the model's, `reserve` what its reply needs.

    Compaction begins at the least of `trigger` of the window, the window less the reserve, and `cap`. It aims
    at the same part of that as `target` is of `trigger`, and keeps `keep_turns` turns, or, where that is set,
    as many turns as have `keep_messages` messages. A summary has at most `summary_share` of the target, in
    small windows up to 800 tokens if they are no more than a seventh of the trigger, and at most
    `summary_most`. Raises `InvalidInput`.
    """

    window: int
    reserve: int = 0
    trigger: float = 0.8
    target: float = 0.3
    cap: int = 200_000
    keep_turns: int = 10
    keep_messages: int = 0
    summary_share: float = 0.25
    summary_most: int = 4_000

    def __post_init__(self) -> None:
        if self.window < 1 or self.cap < 1 or not 0 <= self.reserve < self.window:
            raise InvalidInput(
                "a window has at least one token more than its reserve",
                window=self.window,
                reserve=self.reserve,
            )
        if not 0 < self.target < self.trigger <= 1:
            raise InvalidInput(
                "a target is less than the trigger, and both are parts of 1",
                target=self.target,
                trigger=self.trigger,
            )

    @property
    def trigger_at(self) -> int:
        return max(1, min(int(self.trigger * self.window), self.window - self.reserve, self.cap))

    @property
    def target_at(self) -> int:
        return max(1, int(self.trigger_at * self.target / self.trigger))

    @property
    def summary_limit(self) -> int:
        share = max(int(self.summary_share * self.target_at), min(_SMALL, self.trigger_at // _SMALL_SHARE))
        return max(64, min(self.summary_most, share))


PRESETS: Final[dict[str, dict[str, Any]]] = {
    # 80 % of the window, down to 30 %, ten turns whole.
    "default": {},
    # A fixed number of tokens, and the last messages, whatever the model's window.
    "fixed-80k": {"cap": 80_000, "trigger": 1.0, "keep_messages": 20},
}


def preset(name: str, window: int, reserve: int = 0) -> Policy:
    """The policy of this name for a model of this window. Raises `InvalidInput`."""
    if name not in PRESETS:
        raise InvalidInput("there is no such preset", preset=name, hint=f"one of {', '.join(PRESETS)}")
    return Policy(window=window, reserve=reserve, **PRESETS[name])


_ENVELOPE = 16  # tokens of a summary besides its text
_LEAST = 24  # tokens that a summary needs to say anything


class Plan(msgspec.Struct, frozen=True):
    """What to do: fold `covered` and the summary `previous` into one of at most `limit` tokens, and see only
    what begins at the entry `first_kept` ("": after the last covered) and, before it, the entries `kept`.

    `before` are the tokens now, `after` those to be expected at most, `remaining` those of them that are not
    the summary's, `replaced` those that it stands for.
    """

    covered: tuple[Seen, ...]
    previous: str
    first_kept: str
    kept: tuple[str, ...]
    before: int
    remaining: int
    replaced: int
    limit: int

    @property
    def after(self) -> int:
        return self.remaining + self.limit + _ENVELOPE

    @property
    def covers(self) -> tuple[str, str]:
        """The first and the last entry that the summary stands for, by their order in the log."""
        by_seq = sorted(self.covered, key=lambda entry: entry.seq)
        return by_seq[0].id, by_seq[-1].id


class Nothing(msgspec.Struct, frozen=True):
    """Why there is nothing to do. `stuck` when something should be done and cannot."""

    reason: str
    tokens: int
    trigger_at: int
    stuck: bool = False


def plan(
    seen: View, policy: Policy, count: Count, *, fixed: int = 0, measured: int = 0, force: bool = False
) -> Plan | Nothing:
    """What compaction should do to a context of this view and of `fixed` tokens besides (tools, memory).

    `measured` is what is known of the whole context's tokens from elsewhere, 0 for nothing. `force` plans
    below the trigger too. While a turn runs, messages that wait are in no context and do not call for one.
    """
    at = policy.trigger_at
    system = sum(map(count, seen.system)) + fixed
    summary = count(seen.summary) if seen.summary is not None else 0
    before = system + summary + sum(count(entry) for turn in seen.turns for entry in turn.entries)
    running = any(turn.running for turn in seen.turns)
    waiting = sum(count(entry) for turn in seen.turns if turn.waiting for entry in turn.entries)
    due = max(before - (waiting if running else 0), measured) >= at
    if not due and not force:
        return Nothing("below the trigger", before, at)
    if system + policy.summary_limit >= at:
        return Nothing("what is never folded is itself over the trigger", before, at, True)
    kept = _kept(seen.turns, policy, count, policy.target_at - system - policy.summary_limit - _ENVELOPE)
    # What the view made up (a result for a call without one) is in no log, and goes where its call goes.
    entries = [entry for turn in seen.turns for entry in turn.entries if entry.seq]
    covered = tuple(entry for entry in entries if entry.seq not in kept)
    if not covered:
        return Nothing("everything is recent", before, at, due)
    remaining = system + _tokens_of(seen, kept, count)
    replaced = before - remaining - _ENVELOPE
    limit = min(policy.summary_limit, replaced // 2)
    if limit < _LEAST:
        return Nothing("too little could be folded", before, at, due)
    first, named = _named([entry for entry in entries if entry.seq in kept], covered, seen)
    previous = seen.summary.summary if seen.summary is not None else ""
    return Plan(covered, previous, first, named, before, remaining, replaced, limit)


def _tokens_of(seen: View, kept: frozenset[int], count: Count) -> int:
    """The tokens of the entries with these `seq`, and of what the view made up for them."""
    total = 0
    for turn in seen.turns:
        whole = True
        for entry in turn.entries:
            # A made-up result stands right after the calls of its round.
            whole = entry.seq in kept if entry.seq else whole
            total += count(entry) if whole else 0
    return total


def _named(kept: list[Seen], covered: tuple[Seen, ...], seen: View) -> tuple[str, tuple[str, ...]]:
    """How a compaction names what is kept: the entry from which on all is, and the ids of those before it."""
    earlier = frozenset(seen.summary.kept) if seen.summary is not None else frozenset()
    last = max(entry.seq for entry in covered)
    by_seq = sorted(kept, key=lambda entry: entry.seq)
    # What an earlier compaction kept by name lies among what it covers, so it must be named again.
    before = tuple(entry.id for entry in by_seq if entry.id in earlier or entry.seq < last)
    after = [entry.id for entry in by_seq if entry.seq > last and entry.id not in earlier]
    if after:
        return after[0], before
    # Nothing after the last covered is seen yet, but what arrives before the compaction is written must be.
    hidden = seen.summary is not None and seen.summary.seq > last
    return (seen.summary.id if seen.summary is not None and hidden else ""), before


def _kept(turns: tuple[TurnView, ...], policy: Policy, count: Count, room: int) -> frozenset[int]:
    """The `seq` of what is kept."""
    kept: set[int] = set()
    total = 0

    def keep(entries: Iterable[Seen]) -> None:
        nonlocal total
        new = [entry for entry in entries if not entry.seq or entry.seq not in kept]
        total += sum(map(count, new))
        kept.update(entry.seq for entry in new if entry.seq)

    for turn in turns:
        if turn.waiting:
            keep(turn.entries)
        elif turn.running:
            keep(split_rounds(turn.entries)[0][:1])
    begun = [turn for turn in turns if not turn.waiting]
    chosen = messages = 0
    for turn in reversed(begun):
        enough = messages >= policy.keep_messages if policy.keep_messages else chosen >= policy.keep_turns
        cost = sum(count(entry) for entry in turn.entries if not entry.seq or entry.seq not in kept)
        if enough or total + cost > room:
            break
        keep(turn.entries)
        # What a program put in between is no turn.
        chosen += not all(map(is_injected, turn.entries))
        messages += sum(1 for entry in turn.entries if isinstance(entry, User | Assistant | ToolResult))
    if begun and not chosen:
        head, rounds = split_rounds(begun[-1].entries)
        keep(head)
        for number, entries in enumerate(reversed(rounds)):
            if number and total + sum(map(count, entries)) > room:
                break
            keep(entries)
    return frozenset(kept)


# --- what a summariser is given ---

_ROLES = {User: "User", Assistant: "Assistant", ToolCall: "Tool call", ToolResult: "Tool result"}
_LONGEST = 6_000
_TAG: Final = regex.compile(r"<(?=\s*/?\s*(?:earlier-summary|transcript)\b)", regex.IGNORECASE)
INSTRUCTIONS: Final = """\
You keep the memory of a conversation between a user and an assistant. Write one summary that replaces the
earlier summary and the transcript below, so that the assistant can go on without them.
Keep: what the user wants and why; every fact, name, number, date, path, identifier and preference that the
user gave; decisions and their reasons; what was done and its result; errors and what helped; what is open.
Leave out greetings, repetition and tool output that no longer matters. Do not invent. Do not answer the
conversation. Write in the language of the conversation, in short plain lines, at most {words} words."""


def rendered(entry: Seen) -> str:
    """One entry as a summariser reads it; of very long ones the beginning and the end."""
    if isinstance(entry, ToolCall):
        args = entry.args if isinstance(entry.args, str) else msgspec.json.encode(entry.args).decode()
        text = f"{entry.name} {args}"
    else:
        text = text_of(entry.content)
    if entry.blob is not None and entry.blob.chars > len(text):
        text += f"\n[{entry.blob.chars - len(text)} characters left out]"
    if len(text) > _LONGEST:
        text = (
            f"{text[: _LONGEST // 2]}\n[{len(text) - _LONGEST} characters left out]\n{text[-_LONGEST // 2 :]}"
        )
    return f"{_ROLES[type(entry)]}: {text}"


def chunks(covered: Iterable[Seen], limit: int, count: CountText) -> Iterator[str]:
    """The covered entries as texts of at most `limit` tokens, no call parted from its results.

    A round that is itself longer than the limit is cut in its middle.
    """
    text, cost = "", 0
    for entries in _rounds_of(covered):
        piece = "\n".join(map(rendered, entries))
        piece_cost = count(piece) + 1
        if piece_cost > limit:
            piece = cut_to(piece, limit, count)
            piece_cost = count(piece) + 1
        if text and cost + piece_cost > limit:
            yield text
            text, cost = "", 0
        text = f"{text}\n{piece}" if text else piece
        cost += piece_cost
    if text:
        yield text


def _rounds_of(covered: Iterable[Seen]) -> Iterator[list[Seen]]:
    head, rounds = split_rounds(tuple(covered))
    yield from ([entry] for entry in head)
    yield from rounds


def prompt(previous: str, chunk: str, limit: int) -> str:
    """What a summariser is asked, for one chunk. Nothing that was said can end the part that it stands in."""
    parts = [INSTRUCTIONS.format(words=max(40, limit // 2))]
    if previous:
        parts.append(_part("earlier-summary", previous))
    parts.append(_part("transcript", chunk))
    return "\n\n".join(parts)


def _part(name: str, text: str) -> str:
    return f"<{name}>\n{_TAG.sub('＜', text)}\n</{name}>"


# --- what a summary must be ---

_THINKING = regex.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)\s*", regex.DOTALL | regex.IGNORECASE)
_LISTED = regex.compile(r"^\s*[-*•]\s*(\[[0-9A-Z]+\]\s*)?")
TEXT_HEADING: Final = "Summary"
_BLANK = regex.compile(
    r"\[[^\]\n]*\]|<[^>\n]*>|\{[^}\n]*\}|\([^)\n]*\)|（[^）\n]*）|【[^】\n]*】"
    r"|\b(?:n/?a|none|nothing|todo|tbd)\b|暂无|没有|無|无|待填|待定|待补充",
    regex.IGNORECASE,
)
_REFUSAL = regex.compile(
    r"(?:(?:i['’]?m|i am) (?:very |so )?(?:sorry|unable)|sorry|i (?:can(?:no|['’])t|won['’]t)|as an ai\b"
    r"|(?:很|非常)?抱歉|对不起|我(?:无法|不能))",
    regex.IGNORECASE,
)
_SAYS_LITTLE, _OF_MUCH = 2, 200  # tokens of a summary, and of what it would replace
_REFUSES_IN = 80  # tokens: an apology that is longer says something besides


def cleaned(text: str) -> str:
    """A summariser's reply without what it thought aloud."""
    return str(_THINKING.sub("", text)).strip()


def refused(summary: str, replaced: int, count: CountText) -> str:
    """Why the summary cannot stand for what it replaces (`replaced` tokens); empty when it can."""
    if not summary.strip():
        return "it is empty"
    # A template that was not filled in: nothing but headings and placeholders.
    bare = _BLANK.sub(
        "", "\n".join(line for line in summary.split("\n") if not line.rstrip().endswith((":", "：")))
    )
    if not any(char.isalnum() for char in regex.sub(r"^\s*#+.*$", "", bare, flags=regex.MULTILINE)):
        return "it is a template that was not filled in"
    size = count(summary)
    if size >= replaced:
        return f"it is as long as what it replaces ({size} tokens for {replaced})"
    if size < _SAYS_LITTLE and replaced >= _OF_MUCH:
        return f"it says next to nothing ({size} tokens for {replaced})"
    if size < _REFUSES_IN and _REFUSAL.match(summary.strip()):
        return "it is an apology"
    return ""


def assembled(standing: str, text: str, limit: int, count: CountText) -> str:
    """The goal and the standing instructions, then the summariser's text: at most `limit` tokens.

    Of the text its end is cut off first; what it says that stands before it already is left out.
    """
    said = {_bare(line) for line in standing.split("\n")}
    own = "\n".join(line for line in text.split("\n") if not line.strip() or _bare(line) not in said)
    own = own.strip()
    if not standing or not own:
        return capped(standing or own, limit, count)
    head = f"{standing}\n{TEXT_HEADING}:"
    return f"{head}\n{capped(own, max(1, limit - count(head) - 2), count)}"


def _bare(line: str) -> str:
    """A line without what lists it and what it cites."""
    return str(_LISTED.sub("", line)).strip()
