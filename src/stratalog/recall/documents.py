"""What an entry says that can be searched: entries in, documents out, nothing done.

A document is one entry that has words (a message, a tool call or result, a summary), or one passage of it
when it is long, so that nothing is cut off and no passage drowns in its entry. It keeps its terms, because
taking a row out of a contentless index needs the very terms that went in, and recomputing them with a later
Unicode table or stemmer would not give these.

It keeps no copy of the text, only the place of its passage and a preview to show; the log has the rest.
Around it stand its neighbours: the nearest terms of the passage before and the one after lend a short answer
the words of its question. What recall injected is no neighbour to anything and is a neighbour to itself: its
own words count only as much as a neighbour's do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from stratalog.recall.terms import SPACELESS, terms
from stratalog.types import AnyEntry, Assistant, Compaction, Note, ToolCall, ToolResult, User

PREVIEW: Final = 300
_PASSAGE: Final = 8000  # characters, near 1,500 terms of English
_WIDE: Final = 4  # a character of a script without spaces is a term, five of any other are one
_NEIGHBOUR: Final = 100  # terms lent by each side: all of a chat message, an end of a tool's output
_APART_MS: Final = 6 * 3_600_000  # further apart than this, two messages are two conversations
_DAY_MS: Final = 86_400_000
_LAST_DAY: Final = 2_932_896  # of the year 9999, where datetime ends

# Not calendar.month_name, which follows the locale.
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


class Document(NamedTuple):
    """One passage of one entry. `id` is 0 until it is stored; `terms` are joined by spaces."""

    id: int
    seq: int
    ts: int
    role: str
    injected: bool
    entry_id: str
    turn: str
    start: int
    stop: int
    preview: str
    terms: str


class Row(NamedTuple):
    """What the index holds for a document: terms joined by spaces, a column each."""

    id: int
    body: str
    window: str
    date: str


def words_of(entry: AnyEntry) -> str:
    """The text of `entry` that is searched, "" for none; `Hit.start` and `stop` count in it.

    Words that are kept out of line (`blob`) must be in the entry already.
    """
    match entry:
        case User() | Assistant() | ToolResult():
            return entry.text
        case ToolCall():
            return "\n".join([entry.name, *_leaves(entry.args)])
        case Compaction():
            return entry.summary
        case Note(kind="summary"):
            return entry.text
        case _:
            return ""


def documents(entries: Iterable[AnyEntry]) -> list[Document]:
    """The documents of `entries`, in the order of `seq`; entries without terms have none."""
    return [
        document for entry in sorted(entries, key=lambda entry: entry.seq) for document in _of_entry(entry)
    ]


def rows(stored: Sequence[Document]) -> list[Row]:
    """The rows for consecutive documents of one session, each with its neighbours among them."""
    plain = [document for document in stored if not document.injected]
    place = {id(document): at for at, document in enumerate(plain)}
    made = []
    for document in stored:
        date = " ".join(date_terms(document.ts))
        if document.injected:
            made.append(Row(document.id, "", document.terms, date))
            continue
        at = place[id(document)]
        before = plain[at - 1] if at else None
        after = plain[at + 1] if at + 1 < len(plain) else None
        made.append(Row(document.id, document.terms, _window(before, document, after), date))
    return made


def date_terms(ts: int) -> list[str]:
    """The terms of the day (UTC) of `ts`: its year, month, day and ISO form; none for an unknown time."""
    return _day_terms(ts // _DAY_MS).split() if ts > 0 else []


def passages(text: str) -> Iterator[tuple[int, int]]:
    """Consecutive spans that cover `text`, each of some 1,500 terms, cut at white space if there is any."""
    start = 0
    while start < len(text):
        sample = text[start : start + _PASSAGE]
        share = 0.0 if sample.isascii() else len(SPACELESS.findall(sample)) / len(sample)
        stop = start + int(_PASSAGE / (1 + _WIDE * share))
        if stop < len(text):
            # The last tenth is searched for a place to cut.
            least = stop - (stop - start) // 10
            cut = max(text.rfind(mark, least, stop) for mark in ("\n", " ", "。", ",", ","))
            stop = cut + 1 if cut >= 0 else stop
        yield start, min(stop, len(text))
        start = stop


@lru_cache(maxsize=4096)
def _day_terms(day: int) -> str:
    if day > _LAST_DAY:
        return ""
    date = datetime.fromtimestamp(day * _DAY_MS / 1000, UTC).date()
    return " ".join([*terms(f"{date.day} {_MONTHS[date.month - 1]} {date.year}"), date.isoformat()])


def _of_entry(entry: AnyEntry) -> Iterator[Document]:
    text = words_of(entry)
    injected = entry.meta is not None and entry.meta.get("injected") is True
    for start, stop in passages(text):
        passage = text[start:stop]
        found = terms(passage)
        if found:
            yield Document(
                id=0,
                seq=entry.seq,
                ts=entry.ts,
                role=str(entry.__struct_config__.tag),
                injected=injected,
                entry_id=storable(entry.id),
                turn=storable(entry.turn),
                start=start,
                stop=stop,
                preview=_preview(passage),
                terms=" ".join(found),
            )


def storable(text: str) -> str:
    """`text` without what SQLite cannot keep: lone surrogates become `?`, NUL goes."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def _preview(passage: str) -> str:
    return storable(" ".join(passage[: 4 * PREVIEW].split())[:PREVIEW])


def _window(before: Document | None, document: Document, after: Document | None) -> str:
    left = before.terms.split(" ")[-_NEIGHBOUR:] if before and _near(before, document) else []
    right = after.terms.split(" ", _NEIGHBOUR)[:_NEIGHBOUR] if after and _near(document, after) else []
    return " ".join(left + right)


def _near(one: Document, other: Document) -> bool:
    return abs(other.ts - one.ts) <= _APART_MS


def _leaves(value: Any) -> list[str]:
    """The names and scalars in a JSON value, one a line; without recursion, since depth is the model's."""
    found: list[str] = []
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        name, item = waiting.pop()
        match item:
            case dict():
                waiting += [(str(key), child) for key, child in reversed(item.items())]
            case list() | tuple():
                waiting += [(name, child) for child in reversed(item)]
            case None:
                found += [name] if name else []
            case _:
                found.append(f"{name}: {item}" if name else str(item))
    return found
