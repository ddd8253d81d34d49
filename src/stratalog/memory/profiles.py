"""MEMORY.md and USER.md: what is known, as a page that a person may edit.

A line that a pass wrote ends in a comment with the records that it came from and a hash of its words:

    - Lives in Lisbon <!-- from: 01JD… #4f6b1c2d9e0a -->

A line whose hash does not fit was edited, and is the person's from then on. So is everything without such a
comment, and what stands in code, longer comments and front matter. What is a person's is kept byte for byte,
in its place. One comment more holds how far the passes have read and which records they have lines for:

    <!-- stratalog: watermark 17 written 4f6b1c2d 9e0a77b1 -->

By it a line that a person deleted is told from one that was never there, and is not written again. It is in
the file, so that page and watermark are replaced as one.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec
import regex
from msgspec.structs import replace

from stratalog import osfiles
from stratalog.errors import Conflict, InvalidInput, NotFound
from stratalog.ids import ULID, new_ulid, ulid_ts
from stratalog.memory.contract import Record

SECTIONS: Final[Mapping[str, str]] = {"preference": "Preferences", "decision": "Decisions", "": "Facts"}
MAX_WORDS: Final = 500
SNAPSHOTS: Final = 20
_TRIES: Final = 3
_WAIT_S: Final = 10.0

_Result = TypeVar("_Result")

Kind: TypeAlias = Literal["text", "heading", "fact", "state"]

_FROM: Final = "<!-- from: "
_SOURCES: Final = regex.compile(
    r"(?P<ids>[0-9A-Z]{26}(?:, [0-9A-Z]{26})*)(?: #(?P<hash>[0-9a-f]{12}))? -->\s*"
)
_STATE: Final = regex.compile(
    r"<!-- stratalog: watermark (?P<watermark>[0-9]{1,18})(?: written(?P<written>(?: [0-9a-f]{8})*))? -->\s*"
)
_HEADING: Final = regex.compile(r" {0,3}#{1,6}[ \t]+(?P<name>.*)", regex.DOTALL)
_FENCE: Final = regex.compile(r" {0,3}(?P<fence>`{3,}|~{3,})(?P<rest>.*)", regex.DOTALL)


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line as it stands, without its line feed. Of a fact, `ids` are its records, the one that says it
    first, and `edited` tells whether a person changed its words."""

    raw: str
    kind: Kind = "text"
    ids: tuple[str, ...] = ()
    edited: bool = False


class Section(msgspec.Struct, frozen=True):
    """A heading's words, and its lines with that of the heading. What comes before the first heading is a
    section without one, which is always there."""

    heading: str
    lines: tuple[Line, ...] = ()


class Profile(msgspec.Struct, frozen=True):
    """A page. `watermark` is up to where the passes have read, in the caller's unit; `written` are tags of
    the records that have, or had, a line."""

    sections: tuple[Section, ...]
    watermark: int = 0
    written: frozenset[str] = frozenset()


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """A page after a pass. `added`, `changed` and `removed` are ids of records: of a changed line the new
    record, of a removed one the old. `left_out` found no room. `kept` are gone, but a person edited their
    lines, which may still say what they said. `refused` says why nothing at all is to be done ("": it is
    not refused); `profile` is the one of before then."""

    profile: Profile
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    refused: str = ""


class Traces(msgspec.Struct, frozen=True, kw_only=True):
    """What a page and its kept versions have of some records: in how many of each there is anything, and how
    many lines it is in all. `kept` are the records of lines that a person edited."""

    pages: int = 0
    versions: int = 0
    lines: int = 0
    kept: tuple[str, ...] = ()


# --- reading a page ---


def parse(text: str) -> Profile:
    """Any text as a page. `render` gives back the same text."""
    return _profile(_lines(text))


def _profile(lines: Sequence[Line]) -> Profile:
    starts = [at for at, line in enumerate(lines) if line.kind == "heading"]
    sections = [Section("", tuple(lines[: starts[0] if starts else None]))]
    for start, stop in itertools.pairwise([*starts, len(lines)]):
        sections.append(Section(_name(lines[start]), tuple(lines[start:stop])))
    state = next((found for line in reversed(lines) if (found := _state(line))), None)
    if state is None:
        return Profile(tuple(sections))
    tags = frozenset((state["written"] or "").split())
    return Profile(tuple(sections), int(state["watermark"]), tags)


def render(profile: Profile) -> str:
    """The page as text, byte for byte what was parsed."""
    return "\n".join([line.raw for line in _flat(profile)])


def ids_of(profile: Profile) -> frozenset[str]:
    """The records whose lines no person edited."""
    return frozenset(line.ids[0] for line in _flat(profile) if line.kind == "fact" and not line.edited)


def shown(profile: Profile, gone: Collection[str] = ()) -> str:
    """The page for a reader who has no use for sources: without the comments of the passes, and without the
    lines of these records that no person edited."""
    lines = [line for line in _flat(profile) if line.kind != "state" and not _is_line_of(line, gone)]
    return "\n".join([_words(line.raw) if line.kind == "fact" else line.raw for line in lines])


def _flat(profile: Profile) -> list[Line]:
    return [line for section in profile.sections for line in section.lines]


def _lines(text: str) -> list[Line]:
    raws = text.split("\n")
    lines: list[Line] = []
    endless: set[str] = set()
    while len(lines) < len(raws):
        stop = _opaque(raws, len(lines), endless)
        if stop:
            lines += [Line(raw) for raw in raws[len(lines) : stop]]
        else:
            lines.append(_line(raws[len(lines)]))
    return lines


def _opaque(raws: Sequence[str], start: int, endless: set[str]) -> int:
    """Where the code, comment or front matter that begins here ends; 0 when none begins. What is never closed
    does not count, nor what holds a fact: it would hide from the next pass what this one writes. `endless`
    keeps what is closed nowhere from here on, so that it is looked for once."""
    raw = raws[start]
    following = range(start + 1, len(raws))
    fence = _FENCE.fullmatch(raw)
    mark, closes = "", _ends_front_matter
    if start == 0 and raw.rstrip() == "---":
        mark = "---"
    elif fence and not (fence["fence"][0] == "`" and "`" in fence["rest"]):
        mark = fence["fence"]
        closes = partial(_closes, fence=mark)
    elif raw.rfind("<!--") > raw.rfind("-->"):
        mark, closes = "<!--", _ends_comment
    if not mark or mark in endless:
        return 0
    stop = next((at + 1 for at in following if closes(raws[at])), 0)
    if not stop:
        endless.add(mark)
    return 0 if any(_line(each).kind in ("fact", "state") for each in raws[start:stop]) else stop


def _ends_front_matter(raw: str) -> bool:
    return raw.rstrip() in ("---", "...")


def _ends_comment(raw: str) -> bool:
    return "-->" in raw


def _closes(raw: str, fence: str) -> bool:
    found = _FENCE.fullmatch(raw)
    return bool(found and not found["rest"].strip() and found["fence"].startswith(fence))


def _line(raw: str) -> Line:
    if _STATE.fullmatch(raw):
        return Line(raw, "state")
    if found := _sources(raw):
        return Line(raw, "fact", tuple(found["ids"].split(", ")), found["hash"] != _hash(_words(raw)))
    return Line(raw, "heading" if _HEADING.fullmatch(raw) else "text")


def _sources(raw: str) -> regex.Match[str] | None:
    _, mark, rest = raw.rpartition(_FROM)
    return _SOURCES.fullmatch(rest) if mark else None


def _words(raw: str) -> str:
    """The line of a fact without its comment."""
    return raw.rpartition(_FROM)[0].rstrip(" \t")


def _state(line: Line) -> regex.Match[str] | None:
    return _STATE.fullmatch(line.raw) if line.kind == "state" else None


def _name(line: Line) -> str:
    """The words of a heading, without the number signs that may close it."""
    found = _HEADING.fullmatch(line.raw)
    name = found["name"].strip() if found else ""
    bare = name.rstrip("#")
    return bare.rstrip() if bare.endswith((" ", "\t")) else name


def _hash(words: str) -> str:
    return hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _tag(id: str) -> str:
    return hashlib.sha256(id.encode()).hexdigest()[:8]


# --- a pass ---


def kind_of(record: Record) -> str:
    """What the payload calls its `kind`; "" when it does not."""
    kind = record.payload.get("kind") if isinstance(record.payload, dict) else None
    return kind if isinstance(kind, str) else ""


def updated(
    profile: Profile,
    records: Iterable[Record],
    gone: Collection[str] = (),
    *,
    sections: Mapping[str, str] = SECTIONS,
    kind: Callable[[Record], str] = kind_of,
    limit_removed: float = 0.3,
    limit_lines: int = 500,
    may_empty: bool = False,
) -> Update:
    """The page after a pass over `records`, those that are new or changed, of any status, and `gone`, ids of
    those that are forgotten.

    A current record gets a line under the heading of its kind (`sections`, where "" is for all other kinds;
    a heading that is missing comes at the end). A record that supersedes another, by way of any of `records`,
    takes over its line. The line of one that is superseded, forgotten or gone is removed. The same again
    changes nothing. A person's lines stay, and a line that a person deleted stays away.

    A page has at most `limit_lines` lines of records: what finds no room is `left_out`, the least sure first,
    and comes in when it is given again. A pass that would leave nothing but headings is refused unless it
    `may_empty` the page, and so is one that removes more than `limit_removed` of the lines of records (one
    may always go); what is among `records` as forgotten counts in neither. Raises `InvalidInput` for limits
    that are none, and for headings that are no line of text.
    """
    if not 0 <= limit_removed <= 1 or limit_lines < 1:
        raise InvalidInput("limits are a share from 0 to 1 and at least one line", removed=limit_removed)
    for heading in sections.values():
        if not heading or len(heading.splitlines()) != 1 or _name(_line(f"## {heading}")) != heading:
            raise InvalidInput("a heading is a line of text", heading=ascii(heading))
    given = {record.id: record for record in records}
    lines = _flat(profile)
    page = _Page(lines, "\r" if lines[0].raw.endswith("\r") else "")
    before = len(page.facts())
    current = [each for each in given.values() if each.status == "current" and each.id not in gone]
    changed = [each.id for each in current if _changed(page, each, _ancestors(each, given))]
    dead = {*gone, *(each.id for each in given.values() if each.status != "current")}
    removed = page.remove(dead)
    here = page.ids()
    new = [
        each
        for each in current
        if each.id not in here and _tag(each.id) not in profile.written and _told(each)
    ]
    room = max(0, limit_lines - len(page.facts()))
    surest = {each.id for each in sorted(new, key=lambda each: -each.confidence)[:room]}
    added = [each for each in new if each.id in surest]
    for record in added:
        page.add(sections.get(kind(record)) or sections.get("", SECTIONS[""]), record)
    wished = {each.id for each in given.values() if each.status == "forgotten"}
    forgotten = {*gone, *wished}
    ended = [id for id in removed if id not in wished]
    update = Update(
        profile=profile,
        added=tuple([each.id for each in added]),
        changed=tuple(changed),
        removed=tuple(removed),
        left_out=tuple([each.id for each in new if each.id not in surest]),
        kept=tuple(sorted(forgotten & page.ids())),
    )
    if ended and not may_empty and not page.says_something():
        return Update(profile=profile, refused=f"it would empty the page of its {before} lines")
    if len(ended) > bool(limit_removed) and len(ended) / before > limit_removed:
        return Update(
            profile=profile,
            refused=f"it would remove {len(ended)} of {before} lines; {limit_removed:.0%} may go",
        )
    lost = {_tag(id) for line in lines if line.kind == "fact" for id in line.ids} - _tags(page)
    known = (profile.written - lost) | _tags(page)
    if page.lines == lines and known == profile.written:
        return update
    return replace(update, profile=_stamped(page.lines, profile.watermark, known))


def stamped(profile: Profile, watermark: int, written: frozenset[str] | None = None) -> Profile:
    """The page with another watermark and, when given, other tags of what was written. Raises `InvalidInput`
    for a watermark that is negative or has more than 18 digits."""
    if not 0 <= watermark < 10**18:
        raise InvalidInput("a watermark is a number of up to 18 digits", watermark=watermark)
    tags = profile.written if written is None else written
    if (watermark, tags) == (profile.watermark, profile.written):
        return profile
    return _stamped(_flat(profile), watermark, tags)


def _stamped(lines: Sequence[Line], watermark: int, written: Collection[str]) -> Profile:
    ending = "\r" if lines[0].raw.endswith("\r") else ""
    tags = "".join([f" {tag}" for tag in sorted(written)])
    state = Line(f"<!-- stratalog: watermark {watermark} written{tags} -->{ending}", "state")
    raws = _raws(lines)
    last = max((at for at, line in enumerate(lines) if line.kind == "state"), default=None)
    if last is not None:
        raws[last] = state.raw
    elif raws[-1]:
        end = "" if raws[-1].endswith(ending) else ending
        raws[-1:] = [raws[-1] + end, state.raw, ""]
    else:
        raws[-1:] = [state.raw, ""]
    return parse("\n".join(raws))


def _raws(lines: Iterable[Line]) -> list[str]:
    return [line.raw for line in lines]


def _is_line_of(line: Line, ids: Collection[str]) -> bool:
    """Whether it is a line of one of these records, which no person edited."""
    return line.kind == "fact" and not line.edited and line.ids[0] in ids


def _tags(page: _Page) -> set[str]:
    return {_tag(id) for id in page.ids()}


def _ancestors(record: Record, given: Mapping[str, Record]) -> set[str]:
    """What the record supersedes, and what that superseded, as far as it is given."""
    found: set[str] = set()
    ahead = list(record.supersedes)
    while ahead:
        id = ahead.pop()
        if id not in found:
            found.add(id)
            ahead += given[id].supersedes if id in given else ()
    return found - {record.id}


def _changed(page: _Page, record: Record, ancestors: Collection[str]) -> bool:
    """Puts the record into its own line or that of one that it supersedes; whether that changed the page."""
    own = page.at({record.id})
    if own is None and record.id in page.ids():
        return False  # its line is a person's by now
    at = page.at(ancestors) if own is None else own
    if at is None or not _told(record):
        return False
    if own is not None and _words(page.lines[at].raw) == _said(record):
        return False
    page.put(at, record)
    return True


def _told(record: Record) -> bool:
    return bool(_one_line(record.text))


def _said(record: Record) -> str:
    """The record as a line of Markdown: one item of a list, whatever its text holds."""
    words = _one_line(record.text)
    if len(words) > MAX_WORDS:
        words = words[: MAX_WORDS - 1].rstrip() + "…"
    escape = "\\" if words.startswith(("#", "`", "~", ">", "=")) else ""
    return f"- {escape}{words}"


def _one_line(text: str) -> str:
    """The text without line ends, control characters, and marks of comments, by which it could pass for a
    line of another record."""
    plain = "".join(
        [" " if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") else char for char in text]
    )
    return " ".join(plain.replace("<!--", "< !--").replace("-->", "-- >").split())


class _Page:
    """The lines of a page while a pass works on them."""

    def __init__(self, lines: Sequence[Line], ending: str) -> None:
        self.lines = list(lines)
        self._ending = ending

    def facts(self) -> list[Line]:
        return [line for line in self.lines if line.kind == "fact"]

    def ids(self) -> set[str]:
        return {id for line in self.facts() for id in line.ids}

    def at(self, ids: Collection[str]) -> int | None:
        """The first line of one of these records that no person edited."""
        return next((at for at, line in enumerate(self.lines) if _is_line_of(line, ids)), None)

    def put(self, at: int, record: Record) -> None:
        self.lines[at] = self._written(record)

    def remove(self, ids: Collection[str]) -> list[str]:
        """Takes out the lines of these records; the ids of those that had one."""
        removed = [line.ids[0] for line in self.lines if _is_line_of(line, ids)]
        left = [line for line in self.lines if not _is_line_of(line, ids)]
        self.lines = left or [Line("")]
        return removed

    def add(self, heading: str, record: Record) -> None:
        """A line at the end of the section, which is made when it is missing."""
        wanted = heading.casefold()
        named = (
            at
            for at, line in enumerate(self.lines)
            if line.kind == "heading" and _name(line).casefold() == wanted
        )
        start = next(named, None)
        if start is None:
            start = self._begin(heading)
        stop = next(
            (at for at in range(start + 1, len(self.lines)) if self.lines[at].kind in ("heading", "state")),
            len(self.lines),
        )
        while stop > start + 1 and not self.lines[stop - 1].raw.strip():
            stop -= 1
        new = [self._written(record)]
        if stop == start + 1:
            new.insert(0, Line(self._ending))
        # At the end of the file the line before has no ending yet, and the new one needs one.
        if stop == len(self.lines):
            self.lines[-1] = self._ended(self.lines[-1])
            new.append(Line(""))
        self.lines[stop:stop] = new

    def _begin(self, heading: str) -> int:
        """A new section at the end, before the comment with the watermark if that is there."""
        last = max((at for at, line in enumerate(self.lines) if line.kind == "state"), default=None)
        stop = len(self.lines) if last is None else last
        while stop and not self.lines[stop - 1].raw.strip():
            stop -= 1
        head = Line(f"## {heading}{self._ending}", "heading")
        if stop == len(self.lines):
            self.lines[-1] = self._ended(self.lines[-1])
        gap = [Line(self._ending)] if stop else []
        rest = self.lines[stop:] or [Line("")]
        if rest[0].kind == "state":
            rest = [Line(self._ending), *rest]
        self.lines = [*self.lines[:stop], *gap, head, *rest]
        return stop + len(gap)

    def _ended(self, line: Line) -> Line:
        return line if line.raw.endswith(self._ending) else replace(line, raw=line.raw + self._ending)

    def _written(self, record: Record) -> Line:
        words = _said(record)
        comment = f"<!-- from: {record.id} #{_hash(words)} -->"
        return Line(f"{words} {comment}{self._ending}", "fact", (record.id,))

    def says_something(self) -> bool:
        return any(line.kind in ("text", "fact") and line.raw.strip() for line in self.lines)


# --- the file ---


class ProfileFiles:
    """A page in the file `path`, 0600, with its last 20 versions beside it, in `<name>.history`.

    A version is kept before the file is replaced, and both are synced; so after a crash there is the page of
    before or the one of after, and the way back. Bytes that are no UTF-8 are kept as they are. Passes exclude
    one another; an edit that a person saves in the middle of one is seen, and the pass made anew.

    Every method raises `StorageFailed` or `StorageFull` for what the system refuses, with the page unchanged,
    and `LogBusy` when another process keeps the directory locked for 10 s.
    """

    def __init__(self, path: Path | str, *, wait: float = _WAIT_S) -> None:
        self.path = Path(path)
        self.history = self.path.with_name(f"{self.path.name}.history")
        self._wait = wait

    @property
    def there(self) -> bool:
        """Whether there is a page."""
        return self.path.exists()

    def read(self) -> Profile:
        """The page; an empty one when there is no file."""
        return _decoded(self._load(self.path))

    def refresh(self, decide: Callable[[Profile], Update], *, watermark: int) -> Update:
        """A pass: what `decide` makes of the page is written, with the watermark in the same file. Refused,
        nothing is written. `decide` may be called again. Raises `Conflict` when the file changes each time.
        """
        return self._changing(lambda old: self._pass(old, decide, watermark))

    def undo(self) -> Profile:
        """Puts back the version before the last change of the page, which takes its place: undone again, all
        is as it was. The watermark stays, so the next pass does not repeat what was undone. Raises `NotFound`
        when there is none.
        """
        return self._changing(self._undone)

    def snapshots(self) -> tuple[tuple[int, str], ...]:
        """The kept versions, newest first: when each was replaced (milliseconds) and its text."""
        return tuple([(ulid_ts(path.stem), render(_decoded(self._load(path)))) for path in self._versions()])

    def forget(self, ids: Collection[str]) -> int:
        """Takes the lines of these records out of the kept versions, so that no undo brings them back; in how
        many of them there were any. Lines that a person edited stay."""
        touched = 0
        with self._locked():
            for path in self._versions():
                page = _Page(_flat(_decoded(self._load(path))), "")
                if page.remove(ids):
                    self._put(path, _encoded(_profile(page.lines)))
                    touched += 1
        return touched

    def traces(self, ids: Collection[str] | None = None) -> Traces:
        """What there is of these records; without `ids` of everything. It makes nothing."""
        versions = self._versions()
        found = [_lines_left(self._load(path), ids) for path in (self.path, *versions)]
        if ids is None:
            pages = int(self.path.exists())
            return Traces(pages=pages, versions=len(versions), lines=sum(lines for lines, _ in found))
        return Traces(
            pages=int(found[0][0] > 0),
            versions=sum(lines > 0 for lines, _ in found[1:]),
            lines=sum(lines for lines, _ in found),
            kept=tuple(sorted({id for _, kept in found for id in kept})),
        )

    def destroy(self, ids: Collection[str]) -> None:
        """Takes the lines of these records out of the page and out of its kept versions, and keeps none with
        them. Lines that a person edited stay. No pass writes them again."""
        if self.path.parent.is_dir():
            self._changing(lambda old: self._without(old, ids))
            self.forget(ids)
            self._sweep()

    def purge(self) -> None:
        """Deletes the page with all its versions."""
        if not self.path.parent.is_dir():
            return
        with self._locked():
            osfiles.remove_dir(self.history)
            osfiles.remove(self.path)
            osfiles.sync_dir(self.path.parent)
        self._sweep()

    # --- within the lock ---

    def _changing(self, change: Callable[[bytes], _Result | None]) -> _Result:
        with self._locked():
            for _ in range(_TRIES):
                result = change(self._load(self.path))
                if result is not None:
                    return result
        raise Conflict(
            "the file is changed again and again while it is written",
            path=str(self.path),
            hint="save it, then try again",
        )

    def _pass(self, old: bytes, decide: Callable[[Profile], Update], watermark: int) -> Update | None:
        before = _decoded(old)
        update = decide(before)
        if update.refused:
            return update
        after = stamped(update.profile, watermark)
        if not self._replaced(old, before, after):
            return None
        return replace(update, profile=after)

    def _without(self, old: bytes, ids: Collection[str]) -> bool | None:
        page = _Page(_flat(_decoded(old)), "")
        if page.remove(ids):
            if self._load(self.path) != old:
                return None
            self._put(self.path, _encoded(_profile(page.lines)))
        return True

    def _sweep(self) -> None:
        """Removes what a pass that was killed had begun to write."""
        with self._locked():
            for directory in (self.path.parent, self.history):
                for path in directory.glob(f"*{osfiles.TEMPORARY}*"):
                    osfiles.remove(path)

    def _undone(self, old: bytes) -> Profile | None:
        now = _decoded(old)
        for path in self._versions():
            kept = _decoded(self._load(path))
            # The same as the page: an undo or a pass was killed before it came to replace the file.
            if _page_of(kept) == _page_of(now):
                continue
            after = stamped(kept, max(kept.watermark, now.watermark), kept.written | now.written)
            if not self._replaced(old, now, after):
                return None
            osfiles.remove(path)
            return after
        raise NotFound("there is no earlier version of this profile", path=str(self.path))

    def _replaced(self, old: bytes, before: Profile, after: Profile) -> bool:
        """Keeps the version of before, if it says something else, and replaces the file; False, with nothing
        replaced, when somebody else did."""
        new = _encoded(after)
        if new == old:
            return True
        if _page_of(before) != _page_of(after):
            self._keep(old, before)
        if not self._put(self.path, new, still=lambda: self._load(self.path) == old):
            return False
        for path in self._versions()[SNAPSHOTS:]:
            osfiles.remove(path)
        return True

    def _keep(self, old: bytes, page: Profile) -> None:
        newest = self._versions()[:1]
        if newest and _page_of(_decoded(self._load(newest[0]))) == _page_of(page):
            return  # kept already, by a pass that was killed
        # Later than every other, also when the clock went back.
        last = ulid_ts(newest[0].stem) if newest else 0
        name = max(new_ulid(), new_ulid(last + 1))
        osfiles.make_dir(self.history)
        self._put(self.history / f"{name}.md", old)

    def _versions(self) -> list[Path]:
        """The kept versions, newest first."""
        try:
            names = os.listdir(self.history)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise osfiles.failed(error, "listing the versions of a profile", self.history) from error
        ours = [name for name in names if name.endswith(".md") and ULID.match(name[:-3])]
        return [self.history / name for name in sorted(ours, reverse=True)]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            osfiles.make_dir(self.path.parent)
            with osfiles.locked_dir(self.path.parent, self._wait):
                yield
        except OSError as error:
            raise osfiles.failed(error, "changing a profile", self.path) from error

    def _load(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise osfiles.failed(error, "reading a profile", path) from error

    def _put(self, path: Path, data: bytes, still: Callable[[], bool] = lambda: True) -> bool:
        try:
            return osfiles.replace_file(path, data, still=still)
        except OSError as error:
            raise osfiles.failed(error, "writing a profile", path) from error


def _lines_left(data: bytes, ids: Collection[str] | None) -> tuple[int, set[str]]:
    """How many lines there are of these records, and whose of them a person edited; without `ids` how many
    that say anything."""
    lines = _flat(_decoded(data))
    if ids is None:
        return sum(bool(line.raw.strip()) for line in lines), set()
    left = sum(_is_line_of(line, ids) for line in lines)
    return left, {id for line in lines if not _is_line_of(line, ids) for id in line.ids if id in ids}


def _decoded(data: bytes) -> Profile:
    return parse(data.decode("utf-8", "surrogateescape"))


def _encoded(profile: Profile) -> bytes:
    return render(profile).encode("utf-8", "surrogateescape")


def _page_of(profile: Profile) -> str:
    """The page without the comment that only the passes read, nor the line feeds that it may need."""
    return "\n".join([line.raw for line in _flat(profile) if line.kind != "state"]).rstrip("\r\n")
