"""A session as one page of HTML that needs nothing else: no script, no request, one sheet of style.

Everything that was said is escaped; of Markdown in it is shown what cannot act (no HTML, no pictures by
address, no links but to the web and to mail). Pictures that are in the log are in the page, if their first
bytes say that they are PNG, JPEG, GIF or WebP; all other payloads are named. The policy in the page's head
forbids whatever is not meant, should something get by.

A call and what came of it are one thing that opens; so are what a model thought and what the system said. A
compaction shows its summary, and folds what it stands for above it. What was withdrawn is struck through and
says so. Each entry has an anchor, `#e` and its number. Texts run in their own direction, and say their
language where their script tells it.

The whole session is held in memory, for what is folded is known only at a compaction.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from stratalog.engine.reading import withdrawn
from stratalog.interop.content import parts_of
from stratalog.interop.export import iso_time, json_text
from stratalog.interop.export_style import POLICY, STYLE
from stratalog.interop.export_text import UNSEEN, language_of, markdown
from stratalog.keys import SessionKey
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
    Text,
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

_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_LABEL = ' <span class="label">(withdrawn)</span>'
_LISTED = 4  # messages from which on they are listed at the top
_GIST = 200


class _Piece(NamedTuple):
    """A piece of the page, and the entry that it begins with."""

    id: str
    html: str


def to_html(key: SessionKey, title: str, entries: Iterable[AnyEntry]) -> Iterator[str]:
    """The page, in pieces. Times are UTC."""
    listed = list(entries)
    name = " ".join(title.split()) or key.chat
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<link rel="icon" href="data:,">\n'
        f"<title>{_text(name)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    )
    page = _Page(listed)
    yield f'<header class="page">\n<h1{_tongue(name)}>{_text(name)}</h1>\n'
    yield f'<p class="key"><bdi>{_text(key.local)}</bdi></p>\n{_facts(listed)}</header>\n'
    yield from page.contents()
    yield "<main>\n"
    for piece in page.pieces():
        yield piece.html
    yield "</main>\n</body>\n</html>\n"


def _facts(entries: Sequence[AnyEntry]) -> str:
    said = [entry for entry in entries if isinstance(entry, User | Assistant) and not is_injected(entry)]
    count = len(said)
    words = [f"{count:,} message{'s' * (count != 1)}"]
    dated = [entry.ts for entry in said if entry.ts]
    if dated:
        words.append(" to ".join(dict.fromkeys((_when(dated[0]), _when(dated[-1])))) + " UTC")
    return f'<p class="facts">{", ".join(words)}</p>\n'


class _Page:
    """The entries of one page, and what must be known of all of them before one is shown."""

    def __init__(self, entries: Sequence[AnyEntry]) -> None:
        self._entries = entries
        self._anchors = _anchors(entries)
        self._results = _results(entries)
        self._answers = set(self._results.values())
        ends = {entry.turn: at for at, entry in enumerate(entries) if isinstance(entry, TurnEnd)}
        self._ends = set(ends.values())
        self._gone = withdrawn(entries)

    def contents(self) -> Iterator[str]:
        """Links to what the user said, where that is worth a list."""
        asked = [
            (at, entry)
            for at, entry in enumerate(self._entries)
            if isinstance(entry, User) and not is_injected(entry)
        ]
        if len(asked) < _LISTED:
            return
        yield f"<nav><details><summary>Questions ({len(asked):,})</summary>\n<ol>\n"
        for at, entry in asked:
            words = _clipped(entry.text) or "(no words)"
            link = f'<a href="#{self._anchors[at]}"><bdi{_lang(words)}>{_text(words)}</bdi></a>'
            yield f"<li>{link}{self._label(at)}</li>\n"
        yield "</ol>\n</details></nav>\n"

    def pieces(self) -> Iterator[_Piece]:
        """What is shown, in order; what a compaction stands for is folded into its piece."""
        waiting: list[_Piece] = []
        for at, entry in enumerate(self._entries):
            if isinstance(entry, Compaction):
                cut = next(
                    (n for n, each in enumerate(waiting) if each.id and each.id == entry.first_kept), None
                )
                covered = waiting[:cut]
                waiting = waiting[len(covered) :]
                yield _Piece(entry.id, self._fold(at, entry, covered))
            elif at not in self._answers:
                made = self._entry(at, entry)
                if made:
                    waiting.append(_Piece(entry.id, made))
        yield from waiting

    def _fold(self, at: int, entry: Compaction, covered: Sequence[_Piece]) -> str:
        words = markdown(entry.summary) if entry.blob is None else _named("summary", entry.blob)
        by = f"by {entry.by}" if entry.by else ""
        shown = self._article(at, entry, "summary", "Summary of what came before", words, by)
        if not covered:
            return f'<section class="fold">\n{shown}</section>\n'
        what = f"{len(covered):,} earlier part{'s' * (len(covered) != 1)}, summarised below"
        inside = "".join(piece.html for piece in covered)
        folded = f"<details><summary>{what}</summary>\n{inside}</details>\n"
        return f'<section class="fold">\n{folded}{shown}</section>\n'

    def _entry(self, at: int, entry: AnyEntry) -> str:
        match entry:
            case User():
                who = "User" if not is_injected(entry) else "Put in by a program"
                shown = _content(entry.content, entry.blob)
                return self._article(at, entry, "user", who, shown)
            case Assistant():
                shown = _content(entry.content, entry.blob)
                return self._article(at, entry, "assistant", "Assistant", shown, entry.model) if shown else ""
            case System():
                shown = _content(entry.content, entry.blob)
                return self._more(at, f"The system's words{self._label(at)}", self._struck(at, shown))
            case ToolCall():
                return self._call(at, entry)
            case ToolResult():
                head = f'<span class="line"><span class="name">{_name(entry.name or "tool")}</span>'
                state = f'<span class="state">result of no call here</span>{self._label(at)}'
                return self._tool(at, f"{head}{state}</span>", self._result(at))
            case TurnEnd():
                return self._ended(at, entry)
            case Title():
                return self._event(at, f"Titled <bdi>{_text(' '.join(entry.title.split()))}</bdi>")
            case WorkingMemory():
                value = _code(json_text(entry.value)) if entry.op == "set" else ""
                return self._event(at, f"Working memory: {entry.op} {_name(entry.key)}", value)
            case Note():
                return self._note(at, entry)
            case Pin():
                return self._event(at, "Pinned" if entry.pinned else "Unpinned")
            case Unknown():
                return self._event(at, f"An entry of the unknown type {_name(entry.kind)}")
            case TurnStart() | Compaction():
                return ""

    def _article(self, at: int, entry: AnyEntry, kind: str, who: str, body: str, detail: str = "") -> str:
        told = f'<span class="model"><bdi>{_text(detail)}</bdi></span>' if detail else ""
        gone = " withdrawn" if self._gone[at] else ""
        return (
            f'<article class="{kind}" id="{self._anchors[at]}">\n<header><h2>{who}</h2>{self._label(at)}'
            f'{told}{self._time(at, entry)}</header>\n<div class="body{gone}">\n{body}</div>\n</article>\n'
        )

    def _call(self, at: int, call: ToolCall) -> str:
        answer = self._results.get(at)
        result = self._entries[answer] if answer is not None else None
        state = '<span class="state">no result</span>' if result is None else ""
        if isinstance(result, ToolResult) and result.error:
            state = '<span class="state bad">failed</span>'
        head = (
            f'<span class="line"><span class="name">{_name(call.name)}</span>'
            f'<span class="gist">{_text(_gist(call.args))}</span>{state}{self._label(at)}</span>'
        )
        args = _code(json_text(call.args)) if call.blob is None else _named("arguments", call.blob)
        what = f"<span>Call of {_name(call.name)}</span>{self._label(at)}{self._time(at, call)}"
        told = f"<h3>{what}</h3>\n{self._struck(at, args)}"
        return self._tool(at, head, told + (self._result(answer) if answer is not None else ""))

    def _result(self, at: int) -> str:
        entry = self._entries[at]
        assert isinstance(entry, ToolResult)
        bad = ' class="bad"' if entry.error else ""
        what = "Error" if entry.error else "Result"
        shown = _content(entry.content, entry.blob, plain=True) or '<p class="event">nothing</p>\n'
        anchor = f' id="{self._anchors[at]}"' if at in self._answers else ""
        head = f"<span{bad}>{what}</span>{self._label(at)}{self._time(at, entry)}"
        return f"<h3{anchor}>{head}</h3>\n{self._struck(at, shown)}"

    def _label(self, at: int) -> str:
        return _LABEL if self._gone[at] else ""

    def _struck(self, at: int, body: str) -> str:
        return f'<div class="withdrawn">\n{body}</div>\n' if self._gone[at] else body

    def _tool(self, at: int, head: str, inside: str) -> str:
        return (
            f'<details class="tool" id="{self._anchors[at]}"><summary>{head}</summary>\n'
            f'<div class="inside">\n{inside}</div>\n</details>\n'
        )

    def _more(self, at: int, what: str, body: str) -> str:
        return f'<div id="{self._anchors[at]}">{_folded(what, body)}</div>\n'

    def _note(self, at: int, note: Note) -> str:
        words = _plain(note.text) if note.blob is None else _named("note", note.blob)
        data = _code(json_text(note.data)) if note.data is not None else ""
        body = (words if note.text or note.blob else "") + data
        return self._event(at, f"Note: {_name(note.kind)}", _folded("What it says", body) if body else "")

    def _ended(self, at: int, end: TurnEnd) -> str:
        # A turn that was imported while it went on has several ends; the last one holds.
        if end.status == "answered" or (end.turn and at not in self._ends):
            return ""
        detail = f": {_text(end.detail)}" if end.detail else ""
        return self._event(at, f"The turn was {end.status.replace('_', ' ')}{detail}")

    def _event(self, at: int, words: str, body: str = "") -> str:
        return f'<div class="event" id="{self._anchors[at]}">{words}{body}</div>\n'

    def _time(self, at: int, entry: AnyEntry) -> str:
        if not entry.ts:
            return ""
        stamp = iso_time(entry.ts)
        link = f'<a class="at" href="#{self._anchors[at]}">{_when(entry.ts)}</a>'
        return f'<time datetime="{stamp}">{link}</time>' if stamp.endswith("Z") else f"<span>{link}</span>"


# --- what entries hold ---


def _content(content: Content, blob: Blob | None, *, plain: bool = False) -> str:
    if blob is not None:
        return _named("content", blob)
    parts = parts_of(content) if isinstance(content, str) else content
    return "".join(_part(part, plain) for part in parts)


def _part(part: Part, plain: bool) -> str:
    match part:
        case Text():
            if part.blob is not None:
                return _named("text", part.blob)
            return (_plain(part.text) if plain else markdown(part.text)) if part.text else ""
        case Reasoning():
            if part.blob is not None:
                return _named("reasoning", part.blob)
            return _folded("Thought", markdown(part.text)) if part.text else ""
        case Data():
            body = _code(json_text(part.value)) if part.blob is None else _named("data", part.blob)
            return _folded(f"Data: {_name(part.kind)}", body)
        case Image():
            return _picture(part) or _payload(part)
        case Audio() | File():
            return _payload(part)


def _picture(part: Image) -> str:
    """The picture in the page; "" for one that is not here or may not be shown."""
    if not part.data and part.url.startswith("data:"):
        found = parts_of({"type": "image_url", "image_url": {"url": part.url}})
        part = found[0] if found and isinstance(found[0], Image) else part
    kind = next((kind for mark, kind in _PICTURES if part.data.startswith(mark)), "")
    if part.data[:4] == b"RIFF" and part.data[8:12] == b"WEBP":
        kind = "image/webp"
    if not kind:
        return ""
    data = base64.b64encode(part.data).decode()
    told = f"{kind}, {len(part.data):,} bytes"
    image = f'<img alt="Picture, {told}" src="data:{kind};base64,{data}">'
    return f"<figure>{image}<figcaption>{told}</figcaption></figure>\n"


def _payload(part: Image | Audio | File) -> str:
    name = part.name if isinstance(part, File) else ""
    size = part.blob.size if part.blob is not None else len(part.data)
    url = "" if part.url.startswith("data:") else part.url
    facts = [_text(each) for each in (name, part.media_type) if each]
    if url.startswith(("https://", "http://")):
        facts.append(f'<a href="{html.escape(url)}" rel="noopener noreferrer nofollow">{_text(url)}</a>')
    elif url:
        facts.append(_text(url))
    if size:
        facts.append(f"{size:,} bytes")
    return f'<p class="facts">[{type(part).__name__}: {", ".join(facts) or "empty"}]</p>\n'


def _folded(what: str, body: str) -> str:
    inside = f'<div class="inside body">\n{body}</div>'
    return f'<details class="more"><summary>{what}</summary>\n{inside}</details>\n'


def _plain(words: str) -> str:
    return f'<pre class="plain"{_lang(words)}>{_text(words)}</pre>\n'


def _code(words: str) -> str:
    return f"<pre><code>{_text(words)}</code></pre>\n"


def _named(what: str, blob: Blob) -> str:
    return (
        f'<p class="facts">[{what} kept out of line: {blob.size:,} bytes, sha256 {_text(blob.sha256)}]</p>\n'
    )


def _name(words: str) -> str:
    return f"<bdi>{_text(_clipped(words))}</bdi>"


def _gist(args: Any) -> str:
    """What tells a call from others of its tool: the first of its arguments that is text or a number."""
    values = args.values() if isinstance(args, dict) else [args]
    found = next((value for value in values if isinstance(value, str | int | float) and value != ""), "")
    return _clipped(str(found))


def _clipped(words: str) -> str:
    line = " ".join(words[: 4 * _GIST].split())
    return line if len(line) <= _GIST else line[: _GIST - 1].rstrip() + "…"


def _text(words: str) -> str:
    """Escaped; what XML and HTML have no character for is shown as such."""
    return html.escape(words.translate(UNSEEN))


def _tongue(words: str) -> str:
    return f' dir="auto"{_lang(words)}'


def _lang(words: str) -> str:
    language = language_of(words)
    return f' lang="{language}"' if language else ""


def _when(ts: int) -> str:
    """The moment for people, UTC: `2025-01-15 10:00`."""
    stamp = iso_time(ts)
    return f"{stamp[:10]} {stamp[11:16]}" if stamp.endswith("Z") else stamp


# --- what is known of all entries ---


def _anchors(entries: Sequence[AnyEntry]) -> list[str]:
    """`e` and the entry's number; where that is none, or taken, `p` and its place."""
    given: set[int] = set()
    made: list[str] = []
    for at, entry in enumerate(entries, 1):
        numbered = entry.seq > 0 and entry.seq not in given
        given.add(entry.seq)
        made.append(f"e{entry.seq}" if numbered else f"p{at}")
    return made


def _results(entries: Sequence[AnyEntry]) -> dict[int, int]:
    """For the place of each call that was answered, the place of its result: of calls with one id the last
    before it that waits."""
    found: dict[int, int] = {}
    waiting: dict[str, list[int]] = {}
    for at, entry in enumerate(entries):
        if isinstance(entry, ToolCall):
            waiting.setdefault(entry.call_id, []).append(at)
        elif isinstance(entry, ToolResult) and waiting.get(entry.call_id):
            found[waiting[entry.call_id].pop()] = at
    return found
