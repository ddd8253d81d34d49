"""A session's entries as a person reads them.

What was said is shown whole, with who said it and when; calls, results and other bulk are shortened to a few
lines unless `full`. The number after `#` is the entry's `seq`, by which other commands name it. What was
withdrawn says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec
from rich.text import Text

from stratalog.surfaces.cli.output import Output
from stratalog.surfaces.cli.times import local, offset
from stratalog.types import (
    AnyEntry,
    Assistant,
    Audio,
    Blob,
    Compaction,
    Content,
    Data,
    File,
    Image,
    Note,
    Part,
    Pin,
    Reasoning,
    System,
    Title,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    Unknown,
    User,
    WorkingMemory,
    is_injected,
)
from stratalog.types import (
    Text as Words,
)

COLOURS = {
    "user": "cyan",
    "assistant": "green",
    "system": "magenta",
    "summary": "yellow",
    "tool": "blue",
    "aside": "dim",
}
_WITHDRAWN = "(withdrawn) "
_RESULT_LINES = 3
_SUMMARY_LINES = 12


class Block(NamedTuple):
    """How one entry is shown: who speaks, in what role's colour, and the words. `lines` limits these."""

    who: str
    role: str
    words: str
    detail: str = ""
    lines: int = 0
    flat: bool = False  # shown on the heading's own line
    failed: bool = False
    withdrawn: bool = False


def print_entries(
    out: Output,
    entries: Iterable[AnyEntry],
    *,
    full: bool = False,
    message_lines: int = 0,
    withdrawn: Collection[int] = (),
) -> None:
    """Prints the entries. `message_lines` shortens what was said too; 0 does not. `withdrawn` are the numbers
    of those that a note withdraws."""
    day = ""
    for entry in entries:
        block = block_of(entry, full=full, message_lines=message_lines)
        if block is None:
            continue
        moment = local(entry.ts)
        today = f"{moment:%Y-%m-%d}, {offset(moment)}" if moment else ""
        if today and today != day:
            day = today
            out.print()
            out.print(Text(f"{out.glyphs.rule * 2} {today} {out.glyphs.rule * 2}", "bold"))
        clock = f"{moment:%H:%M:%S}" if moment else ""
        block = block._replace(withdrawn=entry.seq in withdrawn)
        _print_block(out, block, entry.seq, clock)


def block_of(entry: AnyEntry, *, full: bool = False, message_lines: int = 0) -> Block | None:
    """How the entry is shown; None when it is not (marks of a turn, unless `full`)."""
    said = 0 if full else message_lines
    some = 0 if full else _RESULT_LINES
    match entry:
        case User():
            injected = is_injected(entry)
            words = _content(entry.content, entry.blob, full)
            return Block("user", "aside" if injected else "user", words, "injected" * injected, said)
        case Assistant():
            words = _content(entry.content, entry.blob, full)
            return Block("assistant", "assistant", words, entry.model, said) if words else None
        case System():
            return Block("system", "system", _content(entry.content, entry.blob, full), lines=some)
        case ToolCall():
            args = _named("arguments", entry.blob) if entry.blob else _arguments(entry.args, full)
            return Block(entry.name, "tool", args, lines=0 if full else 1, flat=not full)
        case ToolResult():
            words = _content(entry.content, entry.blob, full) or "(empty)"
            name = "error" if entry.error else "result"
            return Block(name, "tool", words, "synthetic" * entry.synthetic, some, failed=entry.error)
        case Compaction():
            words = _named("summary", entry.blob) if entry.blob else entry.summary
            by = f"by {entry.by}" if entry.by else ""
            return Block("summary of what came before", "summary", words, by, 0 if full else _SUMMARY_LINES)
        case Title():
            return Block("title", "aside", entry.title, flat=True)
        case Pin():
            return Block("pinned" if entry.pinned else "unpinned", "aside", "", flat=True)
        case WorkingMemory():
            value = f"{entry.key} = {_json(entry.value)}" if entry.op == "set" else f"{entry.op} {entry.key}"
            return Block("working memory", "aside", value, flat=True)
        case Note():
            words = _named("note", entry.blob) if entry.blob else entry.text
            return Block(f"note: {entry.kind}", "aside", words, lines=some, flat=not full)
        case Unknown():
            words = entry.raw.decode("utf-8", "replace")
            return Block(f"unknown entry: {entry.kind}", "aside", words, lines=some)
        case TurnEnd():
            shown = full or entry.status != "answered"
            status = "the turn timed out" if entry.status == "timed_out" else f"the turn was {entry.status}"
            return Block(status, "aside", entry.detail, flat=True) if shown else None
        case TurnStart():
            return Block("a turn was taken", "aside", entry.holder, flat=True) if full else None


def words_on_a_line(entry: AnyEntry) -> str:
    """Who and what of an entry, for a line of context around another."""
    block = block_of(entry)
    return f"{block.who}: {' '.join(block.words.split())}" if block is not None else ""


def _print_block(out: Output, block: Block, seq: int, clock: str) -> None:
    colour = COLOURS[block.role]
    facts = [f"#{seq}" if seq else "", clock, out.line(block.detail)]
    side = f" {out.glyphs.dot} ".join(filter(None, facts))
    if block.role == "tool":
        sign = out.glyphs.call if block.who not in ("result", "error") else out.glyphs.result
        sign = out.glyphs.failed if block.failed else sign
        _print_tool(out, block, Text(f"{sign} ", "red" if block.failed else colour), side)
        return
    head = Text.assemble((out.line(block.who), f"bold {colour}" if colour != "dim" else "dim"))
    if block.withdrawn:
        head.append(f" {_WITHDRAWN.strip()}", "dim")
    if block.flat and block.words:
        room = out.width - len(side) - head.cell_len - 5
        head.append(f"  {out.clip(out.line(block.words), room)}", "dim")
    head.append(f"  {side}", "dim")
    if not block.flat:
        out.print()
    out.print(head)
    if not block.flat and block.words:
        style = "dim" if block.role in ("aside", "system") or block.withdrawn else ""
        out.print(Text(out.wrap(_shortened(out, block.words, block.lines), 2), style), indent=2)


def _print_tool(out: Output, block: Block, sign: Text, side: str) -> None:
    """A call or a result, set in under what the assistant said."""
    mark = (_WITHDRAWN if block.withdrawn else "", "dim")
    if block.who not in ("result", "error"):
        head = Text.assemble("  ", sign, mark, (out.line(block.who), "bold"))
        if block.flat:
            room = out.width - head.cell_len - len(side) - 4
            head.append(f" {out.clip(out.line(block.words), room)}")
        head.append(f"  {side}", "dim")
        out.print(head)
        if not block.flat and block.words:
            out.print(Text(out.wrap(_shortened(out, block.words, block.lines), 4)), indent=4)
        return
    style = "red" if block.failed else "dim"
    if not block.lines:
        out.print(Text.assemble("  ", sign, mark, (block.who, "bold"), (f"  {side}", "dim")))
        out.print(Text(out.wrap(_shortened(out, block.words, 0), 4), style), indent=4)
        return
    words = _shortened(out, block.words, block.lines, out.width - 4)
    first, _, rest = words.partition("\n")
    seq = side.partition(" ")[0]
    first = out.clip(first, out.width - len(seq) - len(mark[0]) - 6)
    out.print(Text.assemble("  ", sign, mark, (first, style), (f"  {seq}", "dim")))
    if rest:
        out.print(Text(rest, style), indent=4)


def _shortened(out: Output, words: str, lines: int, cells: int = 0) -> str:
    """The first `lines` of the words (0: all), each at most `cells` wide, and how many more there are."""
    text = out.text(words.strip("\n"))
    if not lines:
        return text
    listed = [line for line in text.split("\n") if line.strip()]
    kept = [out.clip(line, cells) if cells else line for line in listed[:lines]]
    left = len(listed) - len(kept)
    more = f"{out.glyphs.more} {left} more line{'s' * (left > 1)}"
    return "\n".join([*kept, more] if left else kept)


def _content(content: Content, blob: Blob | None, full: bool) -> str:
    if isinstance(content, str):
        words = content
    else:
        words = "\n\n".join(filter(None, (_part(part, full) for part in content)))
    return "\n".join(filter(None, (words, _named("content", blob) if blob else "")))


def _part(part: Part, full: bool) -> str:
    match part:
        case Words():
            return part.text + (f"\n{_named('text', part.blob)}" if part.blob else "")
        case Reasoning():
            words = part.text if full else " ".join(part.text.split())[:160]
            return f"(thinking) {words}" if words else ""
        case Data():
            return f"[{part.kind}] {_json(part.value) if full else _json(part.value)[:160]}"
        case Image() | Audio() | File():
            size = part.blob.size if part.blob else len(part.data)
            url = "" if part.url.startswith("data:") else part.url
            name = part.name if isinstance(part, File) else ""
            facts = (name, part.media_type, url, f"{size:,} bytes" if size else "")
            return f"[{type(part).__name__.lower()}: {', '.join(filter(None, facts)) or 'empty'}]"


def _arguments(args: object, full: bool) -> str:
    if full:
        return args if isinstance(args, str) else msgspec.json.format(_json(args), indent=2)
    if isinstance(args, dict):
        return "  ".join(f"{name}: {_value(value)}" for name, value in args.items())
    return _value(args)


def _value(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _named(what: str, blob: Blob) -> str:
    return f"[{what} kept out of line: {blob.size:,} bytes, sha256 {blob.sha256[:12]}]"
