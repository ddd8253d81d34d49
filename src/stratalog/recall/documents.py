"""What an entry says that can be searched: entries in, documents out, nothing done.

A document is one entry that has words (a message, a tool call or result, a summary), or one passage of it
when it is long, so that nothing is cut off and no passage drowns in its entry. It keeps its terms, because
taking a row out of a contentless index needs the very terms that went in, and recomputing them with a later
Unicode table or stemmer would not give these.

It keeps no copy of the text, only the place of its passage and a preview to show; the log has the rest.
Documents of one session that stand less than six hours apart are one talk: they have consecutive numbers, by
which neighbours are found however sessions are mixed in time. What recall injected is a talk of its own, and
so nobody's neighbour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from stratalog.recall.terms import SPACELESS, STOP, terms
from stratalog.types import AnyEntry, Assistant, Compaction, Note, ToolCall, ToolResult, User

PREVIEW: Final = 300
_PASSAGE: Final = 8000  # characters, near 1,500 terms of English
_WIDE: Final = 4  # a character of a script without spaces is a term, five of any other are one
_APART_MS: Final = 6 * 3_600_000  # further apart than this, two messages are two conversations
_NAME: Final = 8  # terms of a name that count
PLACES: Final = 20  # bits of a document's number that count within its talk
_QUESTION_MARKS: Final = ("?", "？", "؟")
_DAY_MS: Final = 86_400_000
_LAST_DAY: Final = 2_932_896  # of the year 9999, where datetime ends

# Not calendar.month_name, which follows the locale.
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


class Document(NamedTuple):
    """One passage of one entry. `id` is 0 until it is stored; terms are joined by spaces."""

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
    speaker: str  # terms of a name
    asks: bool
    size: int  # terms that are not stop words
    terms: str

    @property
    def talk(self) -> int:
        return talk_of(self.id)


def document_id(entry_id: str, start: int) -> str:
    """What a document is called within its session: another name when its entry or its passage is."""
    return f"{entry_id}:{start}"


def talk_of(number: int) -> int:
    """The talk that the document with this number belongs to."""
    return number >> PLACES


def talk_from(number: int) -> int:
    """The number of the first document of a talk after the one with the document of this number."""
    return (talk_of(number) + 1) << PLACES


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


def numbered(new: Iterable[Document], last: Document | None, highest: int) -> list[Document]:
    """`new` documents of a session with their numbers, in the order of these. `last` is the session's last
    one that was not injected, `highest` the highest number of all sessions."""
    made = []
    for document in new:
        number = talk_from(highest)
        if last is not None and not document.injected and _near(last, document):
            follows = last.id + 1
            number = follows if talk_of(follows) == last.talk else number  # a talk may be full
        highest = max(highest, number)
        made.append(document._replace(id=number))
        if not document.injected:
            last = made[-1]
    return sorted(made)


def date_terms(ts: int) -> list[str]:
    """The terms of the day (UTC) of `ts`, as of a text that tells it; none for an unknown time."""
    return day_of(ts).split()


def day_of(ts: int) -> str:
    """The same, joined by spaces."""
    return _day_terms(ts // _DAY_MS) if ts > 0 else ""


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
    return " ".join(terms(f"{date.day} {_MONTHS[date.month - 1]} {date.year}"))


def _of_entry(entry: AnyEntry) -> Iterator[Document]:
    text = words_of(entry)
    injected = entry.meta is not None and entry.meta.get("injected") is True
    speaker = _speaker(entry)
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
                speaker=speaker,
                asks=any(mark in passage for mark in _QUESTION_MARKS),
                size=sum(term not in STOP for term in found),
                terms=" ".join(found),
            )


def storable(text: str) -> str:
    """`text` without what SQLite cannot keep: lone surrogates become `?`, NUL goes."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def _preview(passage: str) -> str:
    return storable(" ".join(passage[: 4 * PREVIEW].split())[:PREVIEW])


def _speaker(entry: AnyEntry) -> str:
    """The terms of the name of who said it. Without a name there are none: `user` and `assistant` are words
    of many a question, and would be taken for names in it."""
    for field in ("name", "speaker"):
        name = entry.meta.get(field) if entry.meta is not None else None
        if isinstance(name, str):
            return " ".join(terms(name)[:_NAME])
    return ""


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
