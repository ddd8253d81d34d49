"""What becomes of a slot when something is said about it: pure functions that return what is to be written.

A slot is an environment, a scope and a key. Its records are intervals: two of them contradict one another
when both are current, hold at the same time and say different things. The rules, in their order:

1. What was forgotten after it was said is refused, however late it comes.
2. The same again is merged: evidence counts up, sources are united, the higher confidence stays.
3. Something else closes a record that it beats (by higher confidence, as an explicit correction, or by a
   later beginning at equal confidence) where its own validity begins. What it does not beat stays current,
   and both are marked. So a slot never ends without a current record by remembering.
4. What is written late, and was said or began before what is there, closes nothing of it. Dated, it takes
   its place: it ends where the next begins, and what held when it began ends there. Else both are marked.

"The same" is strict, for a wrong merge loses what was said and a missed one only marks a contradiction: the
same JSON with the same words in the same order, but for case, spaces, the full stop at the end and words that
add nothing (`the`, `also`, …). Numbers, names, negations and the order of words always count.

A record whose beginning is not known counts, beside others, from when it was written down.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec
import regex
from msgspec.structs import replace

from stratalog.errors import Conflict, InvalidInput
from stratalog.ids import ULID, derived_ulid, ulid_ts
from stratalog.memory.contract import (
    Action,
    Change,
    Event,
    Layer,
    Origin,
    Record,
    Scope,
    Source,
    Tombstone,
    When,
)

MAX_KEY: Final = 200
MAX_RAW_KEY: Final = 1_000
MAX_TEXT: Final = 16_000
MAX_PAYLOAD: Final = 64 * 1024
MAX_DEPTH: Final = 32
MAX_SOURCES: Final = 100
MAX_NAME: Final = 4_096
MAX_TIME: Final = 2**62
MAX_RIVALS: Final = 100
MAX_SLOT: Final = 500

Outcome: TypeAlias = Literal["stored", "merged", "superseded", "conflict", "refused"]

_FOREVER: Final = 2**63 - 1
LASTING: Final = {Layer.SHORT: 0, Layer.MID: 1, Layer.LONG: 2}
# Who is believed more about where a record came from.
TRUST: Final = {"model": 0, "tool": 1, "import": 2, "agent": 3, "user": 4}
_DERIVED: Final = ("model", "tool", "agent", "import")
SUMMARY_KEY: Final = "summary"
"""The slot of a session's running summary."""

# `#`, `+`, `%`, `&` and `@` tell names apart (C, C++, C#).
_FOLDED: Final = regex.compile(r"[[\p{P}\p{Z}\p{Cc}\p{Cs}]--[#%&@]]+", regex.V1)
_HIDDEN: Final = regex.compile(r"\p{Cf}+")
# Reordering a long run of marks is quadratic; 30 is the bound of Unicode's stream-safe form.
_MARKS: Final = regex.compile(r"(\p{M}{30})\p{M}+")

_APOSTROPHES: Final = {0x2019: "'", 0x02BC: "'"}
_CONTRACTIONS: Final = (
    (regex.compile(r"\b(c)an(?:'t|not)\b", regex.IGNORECASE), r"\1an not"),
    (regex.compile(r"\b(w)on't\b", regex.IGNORECASE), r"\1ill not"),
    (regex.compile(r"n't\b", regex.IGNORECASE), " not"),
)
_CLOSING: Final = " .。!\"'“”"
_EMPTY_WORDS: Final = frozenset(("the", "also", "just", "really", "simply"))


class Draft(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a caller wants remembered. A `payload` of None is the `text`; an empty `text` is made of key and
    payload.

    `said_at` is when it was said, which decides whether a later forgetting covers it: give it whenever it may
    be written later than it was said. 0 is the time of the latest source that tells it, or else now.
    `replaces` makes it an explicit correction of all that the slot says now.
    """

    layer: Layer
    scope: Scope
    key: str
    payload: Any = None
    text: str = ""
    confidence: float = 0.5
    origin: Origin = "user"
    sources: tuple[Source, ...] = ()
    valid_from: When | None = None
    valid_to: When | None = None
    expires_at: int = 0
    said_at: int = 0
    replaces: bool = False


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be written, and the record that now says what the draft said (None: refused)."""

    change: Change = Change()
    outcome: Outcome
    record: Record | None = None
    reason: str = ""


# --- keys and contents ---


def normal_key(text: str) -> str:
    """The key as it names a slot: NFKC, casefolded, spaces and punctuation folded to one space, nothing
    invisible. At most 200 characters; a longer one ends in a digest of itself. "" when nothing is left.

    Applied again it changes nothing.
    """
    key = _settled(text)
    if len(key) <= MAX_KEY:
        return key
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]
    return f"{key[: MAX_KEY - 33].rstrip()} {digest}"


def _settled(text: str) -> str:
    """Folded until folding changes nothing: removing what is invisible can bring marks to their letters."""
    if text.isascii():  # nothing of it is invisible, a mark, or composed of others
        folded: str = _FOLDED.sub(" ", text).strip().lower()
        return folded
    text = _MARKS.sub(r"\1", text)
    while (folded := _once(text)) != text:
        text = folded
    return text


def _once(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", _FOLDED.sub(" ", _HIDDEN.sub("", text)).strip())


def slot_key(text: str) -> str:
    """`normal_key` of a key that can name a slot. Raises `InvalidInput` when it is too long or empty."""
    if not isinstance(text, str) or len(text) > MAX_RAW_KEY:
        raise InvalidInput(
            f"a key is text of at most {MAX_RAW_KEY} characters", hint="put what is long into the payload"
        )
    key = normal_key(text)
    if not key:
        raise InvalidInput("the key has no letter or digit", key=ascii(text), hint="name what it is about")
    return key


def content_of(payload: Any) -> str:
    """A hash of what the payload says: of its canonical JSON, where texts that say the same are the same."""
    return hashlib.sha256(msgspec.json.encode(_canonical(payload), order="sorted")).hexdigest()


def same(record: Record, draft: Draft) -> bool:
    """Whether the draft says what the record says, strictly (see the module)."""
    return content_of(record.payload) == content_of(draft.payload)


def _canonical(value: Any) -> Any:
    match value:
        case str():
            return _words(value)
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
        case list() | tuple():
            return [_canonical(each) for each in value]
        case dict():
            return {name: _canonical(each) for name, each in value.items()}
        case _:
            return value


def _words(text: str) -> str:
    """The text with what does not change its meaning taken out."""
    text = unicodedata.normalize("NFKC", _MARKS.sub(r"\1", text)).translate(_APOSTROPHES)
    for pattern, expanded in _CONTRACTIONS:
        text = pattern.sub(expanded, text)
    words = [_plain_case(word) for word in text.strip(_CLOSING).split()]
    return " ".join([word for word in words if word not in _EMPTY_WORDS] or words)


def _plain_case(word: str) -> str:
    """A word in lower case; what has capitals within, or digits, is a name whose case counts."""
    return word.lower() if word[1:] == word[1:].lower() and not any(map(str.isdigit, word)) else word


# --- what may be remembered at all ---


def checked(draft: Draft) -> Draft:
    """The draft as it can be stored: key normalised, payload plain JSON, text there. Changes nothing again.

    Raises `InvalidInput` for what is of a wrong type, says nothing, ends before it begins, or is too large:
    a payload of more than 64 KiB as JSON or nested deeper than 32, a text of more than 16,000 characters,
    more than 100 sources, or one whose session and entry take more than 4,096 characters.
    """
    payload = _plain(draft.payload)
    try:
        msgspec.convert(msgspec.to_builtins(replace(draft, payload=None)), Draft)
    except (msgspec.ValidationError, TypeError, UnicodeEncodeError) as error:
        raise InvalidInput(f"this cannot be remembered: {error}", hint="see docs/records.md") from error
    key = slot_key(draft.key)
    scope_checked(draft.scope)
    text = storable(draft.text).strip()
    if payload is None:
        if not text:
            raise InvalidInput("neither payload nor text was given", key=key)
        payload = text
    size = len(msgspec.json.encode(payload))
    if size > MAX_PAYLOAD:
        raise InvalidInput(f"the payload is {size} bytes of JSON; {MAX_PAYLOAD} are allowed", key=key)
    text = text or _text_of(draft.key, payload)
    if len(text) > MAX_TEXT:
        raise InvalidInput(f"the text has {len(text)} characters; {MAX_TEXT} are allowed", key=key)
    storable(text)
    if len(draft.sources) > MAX_SOURCES:
        raise InvalidInput(f"{len(draft.sources)} sources were given; {MAX_SOURCES} are allowed", key=key)
    for source in draft.sources:
        if not source.entry or len(source.entry) + len(source.session) > MAX_NAME:
            raise InvalidInput(
                f"a source names an entry, in at most {MAX_NAME} characters with its session", key=key
            )
        storable(source.entry + source.session)
    times = [
        draft.expires_at,
        draft.said_at,
        *(each.at for each in (draft.valid_from, draft.valid_to) if each),
    ]
    if any(abs(time) > MAX_TIME for time in times) or min(times[:2]) < 0:
        raise InvalidInput("a time is milliseconds since 1970, and not that far away", key=key)
    if not 0 <= draft.confidence <= 1:
        raise InvalidInput("confidence is from 0 to 1", confidence=draft.confidence)
    if draft.valid_from and draft.valid_to and draft.valid_to.at <= draft.valid_from.at:
        raise InvalidInput("it ends before it begins", key=key, hint="valid_to must be after valid_from")
    return replace(draft, key=key, payload=payload, text=text, sources=tuple(dict.fromkeys(draft.sources)))


def scope_checked(scope: Scope) -> Scope:
    """The scope, if it names somebody; the tenant's own has no id, and only that. Raises `InvalidInput`."""
    if (scope.kind == "tenant") == bool(scope.id):
        raise InvalidInput("this scope names nobody", kind=scope.kind, hint="all but `tenant` need an id")
    storable(scope.id)
    return scope


def _plain(value: Any, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise InvalidInput(f"the payload is nested deeper than {MAX_DEPTH}")
    match value:
        case None | bool() | int():
            return value
        case float() if math.isfinite(value):
            return value
        case str():
            return storable(value)
        case list() | tuple():
            return [_plain(each, depth + 1) for each in value]
        case Mapping() if all(isinstance(name, str) for name in value):
            return {storable(name): _plain(each, depth + 1) for name, each in value.items()}
        case _:
            raise InvalidInput(
                f"a payload is JSON; it has a {type(value).__name__}",
                hint="numbers must be finite, names text",
            )


def storable(text: str) -> str:
    """The text, if it can be stored. Raises `InvalidInput` for a lone surrogate."""
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidInput("the text has a lone surrogate", hint="decode it as UTF-8 first")
    return text


def _text_of(key: str, payload: Any) -> str:
    """The payload in words, for searching; of JSON the beginning is enough."""
    if isinstance(payload, str):
        return payload
    return f"{key.strip()}: {msgspec.json.encode(payload).decode()}"[:MAX_TEXT]


# --- remembering ---


def decide(
    draft: Draft,
    *,
    environment: str,
    slot: Iterable[Record],
    tombstones: Iterable[Tombstone],
    now: int,
    new_id: str,
    actor: str,
) -> Decision:
    """What remembering the draft does to its slot. `slot` are the slot's current records, and the
    superseded ones too when the draft says when it began; `tombstones` those of the slot and those of
    forgotten entries (key ""); `new_id` is for a record that is new.

    Raises `InvalidInput` as `checked` does, and `Conflict` when the slot is full: 100 records that contradict
    the draft, 500 in all.
    """
    return decide_checked(
        checked(draft),
        environment=environment,
        slot=slot,
        tombstones=tombstones,
        now=now,
        new_id=new_id,
        actor=actor,
    )


def decide_checked(
    draft: Draft,
    *,
    environment: str,
    slot: Iterable[Record],
    tombstones: Iterable[Tombstone],
    now: int,
    new_id: str,
    actor: str,
) -> Decision:
    """`decide`, of a draft that `checked` returned."""
    left, refusal = _unforgotten(draft, tuple(tombstones), now)
    if refusal:
        return Decision(outcome="refused", reason=refusal)
    if 0 < draft.expires_at <= now:
        return Decision(outcome="refused", reason="its time is over")
    slot = tuple(slot)
    if not slot:  # as all that follows would find, at a tenth of its cost
        new = _fresh(left, environment, new_id, now, left.valid_from, ())
        events = _events({}, (new,), {new.id: "remember"}, now, actor)
        return Decision(change=Change(events=tuple(events)), outcome="stored", record=new, reason="new")
    before = [each for each in slot if each.status == "current" and not _has_expired(each, now)]
    said = _said(left, now)
    later = _later(left, slot)
    draft = left if later is None else replace(left, valid_to=later.valid_from)
    span = _span(draft.valid_from, draft.valid_to, now)
    rivals = [each for each in before if _meet(span, span_of(each))]
    past = [each for each in slot if each.status == "superseded" and _holds(each, draft.valid_from)]
    within = [each for each in past if span[1] <= span_of(each)[1]]
    twins = [each for each in (*rivals, *within) if same(each, draft)]
    known = next(iter(twins), None)
    others = [each for each in rivals if each not in twins]
    beaten = [each for each in others if _beats(draft, each, said)]
    if len(others) - len(beaten) >= MAX_RIVALS or len(before) - len(beaten) >= MAX_SLOT:
        raise Conflict(
            f"this slot has {len(before)} current records",
            key=draft.key,
            hint="settle it with replaces=True, or forget some",
        )
    begins = draft.valid_from or When(at=min(said or now, span[1] - 1))
    supersedes = tuple(each.id for each in beaten)
    if known is None:
        new = _fresh(draft, environment, new_id, now, begins if beaten else draft.valid_from, supersedes)
    else:
        later = None  # what would end the draft did not end what is known: that is surer, and goes on
        new = _merged(known, left, now, supersedes)
        if len(twins) > 1:
            new = replace(new, valid_from=known.valid_from)  # another has the time before
    closed = [part for each in beaten for part in _closed(each, begins, draft.valid_to, now, new_id)]
    if known is None:
        # Dated, it takes its place among what is over.
        if later is not None and span[1] <= now:
            new = replace(new, status="superseded")
        cut = [each for each in past if _beats(draft, each, said)]
        closed += [part for each in cut for part in _closed(each, begins, draft.valid_to, now, new_id)]
        new = replace(new, supersedes=(*supersedes, *(each.id for each in cut)))
    after = [each for each in before if each not in beaten and each is not known] + [*closed, new]
    if later is not None:
        after = [each for each in after if each.id != later.id] + [_having_closed(later, new.id)]
    ended = [each for each in after if each.status != "current"]
    marked = marks([each for each in after if each.status == "current"])
    record = next(each for each in (*ended, *marked) if each.id == new.id)
    actions: dict[str, Action] = {new.id: "remember" if known is None else "merge"}
    actions |= {each.id: "supersede" for each in closed}
    if later is not None:
        actions.setdefault(later.id, "supersede")
    events = _events({each.id: each for each in slot}, (*ended, *marked), actions, now, actor)
    # The record comes last: what it did to the others is read first.
    events.sort(key=lambda event: event.record.id == new.id)
    outcome: Outcome = "superseded" if beaten else "stored"
    if known is not None:
        outcome = "merged"
    elif record.conflict_with:
        outcome = "conflict"
    return Decision(
        change=Change(events=tuple(events)),
        outcome=outcome,
        record=record,
        reason=_told(outcome, record, known, supersedes),
    )


def _told(outcome: Outcome, record: Record, known: Record | None, supersedes: tuple[str, ...]) -> str:
    if outcome == "merged" and known is not None and known.evidence == record.evidence:
        return "known already from the same source"
    if outcome == "merged":
        return f"known already; said {record.evidence} times"
    if outcome == "superseded":
        return f"in place of {len(supersedes)}"
    if outcome == "conflict":
        return f"contradicts {len(record.conflict_with)}"
    return "new"


def _events(
    before: Mapping[str, Record], after: Iterable[Record], actions: Mapping[str, Action], at: int, actor: str
) -> list[Event]:
    """An event for each record that is not as it was; one of no named action only had its marks changed."""
    return [
        Event(at=at, action=actions.get(each.id, "conflict"), actor=actor, record=each)
        for each in after
        if before.get(each.id) != each
    ]


def _unforgotten(draft: Draft, tombstones: Sequence[Tombstone], now: int) -> tuple[Draft, str]:
    """The draft without sources that were forgotten, and why it is refused ("": it is not)."""
    gone = {each.content for each in tombstones if not each.key}
    sources = tuple(each for each in draft.sources if each.entry not in gone)
    if draft.sources and not sources:
        return draft, "what it was drawn from was forgotten"
    said = _said(draft, now)
    since = {each.content for each in tombstones if each.key and said and said <= each.at}
    if since and ("" in since or content_of(draft.payload) in since):
        return draft, "it was forgotten after it was said"
    return replace(draft, sources=sources), ""


def _said(draft: Draft, now: int) -> int:
    """When it was said, as far as that is told; 0: it is said now."""
    told = draft.said_at or max(
        (ulid_ts(each.entry) for each in draft.sources if ULID.match(each.entry)), default=0
    )
    return min(told, now)


def _has_expired(record: Record, now: int) -> bool:
    return 0 < record.expires_at <= now


_Span: TypeAlias = tuple[int, int]


def span_of(record: Record) -> _Span:
    """From when until when the record counts beside others of its slot, [start, stop)."""
    return _span(record.valid_from, record.valid_to, record.created_at)


def _span(start: When | None, stop: When | None, written: int) -> _Span:
    end = _FOREVER if stop is None else stop.at
    return (start.at if start else min(written, end - 1)), end


def _meet(a: _Span, b: _Span) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _holds(record: Record, at: When | None) -> bool:
    """Whether the record began before the moment and holds at it."""
    start, stop = span_of(record)
    return at is not None and start < at.at < stop


def _later(draft: Draft, slot: Iterable[Record]) -> Record | None:
    """The record that ends a draft which comes late: of the next beginning, said at least as surely. So the
    order in which dated sayings are written down does not count."""
    if draft.valid_from is None or draft.valid_to is not None or draft.replaces:
        return None
    following = [
        each
        for each in slot
        if each.valid_from is not None
        and draft.valid_from.at < each.valid_from.at < span_of(each)[1]
        and each.confidence >= draft.confidence
        and not same(each, draft)
    ]
    return min(following, key=lambda each: span_of(each)[0], default=None)


def _having_closed(record: Record, id: str) -> Record:
    return replace(record, supersedes=tuple(dict.fromkeys((*record.supersedes, id))))


def _beats(draft: Draft, record: Record, said: int) -> bool:
    heard = max((ulid_ts(each.entry) for each in record.sources if ULID.match(each.entry)), default=0)
    if 0 < said < heard:
        return False  # what was said later is not closed by what was said before it
    if draft.replaces or draft.confidence > record.confidence:
        return True
    later = draft.valid_from is not None and draft.valid_from.at > span_of(record)[0]
    return later and draft.confidence == record.confidence


def _fresh(
    draft: Draft, environment: str, new_id: str, now: int, begins: When | None, supersedes: tuple[str, ...]
) -> Record:
    return Record(
        id=new_id,
        environment=environment,
        layer=draft.layer,
        scope=draft.scope,
        key=draft.key,
        payload=draft.payload,
        text=draft.text,
        confidence=draft.confidence,
        origin=draft.origin,
        sources=draft.sources,
        valid_from=begins,
        valid_to=draft.valid_to,
        supersedes=supersedes,
        created_at=now,
        updated_at=now,
        expires_at=draft.expires_at,
    )


def _merged(record: Record, draft: Draft, now: int, supersedes: tuple[str, ...]) -> Record:
    """The record, said once more. What comes from sources that it has already is not said again."""
    news = [each for each in draft.sources if each not in record.sources]
    again = bool(news) or not draft.sources
    # An end is never put off: after it something else may hold.
    ends = [each for each in (record.valid_to, draft.valid_to) if each]
    start = record.valid_from
    if draft.valid_from and (draft.replaces or (start is None and draft.valid_from.at <= record.created_at)):
        start = draft.valid_from
    merged = replace(
        record,
        layer=max(record.layer, draft.layer, key=LASTING.__getitem__),
        payload=draft.payload if draft.replaces else record.payload,
        text=draft.text if draft.replaces else record.text,
        confidence=max(record.confidence, draft.confidence),
        origin=max(record.origin, draft.origin, key=TRUST.__getitem__),
        sources=(*record.sources, *news)[:MAX_SOURCES],
        valid_from=start,
        valid_to=min(ends, key=lambda when: when.at, default=None),
        supersedes=tuple(dict.fromkeys((*record.supersedes, *supersedes))),
        evidence=record.evidence + again,
        expires_at=max(record.expires_at, draft.expires_at) if record.expires_at and draft.expires_at else 0,
    )
    return merged if merged == record else replace(merged, updated_at=now)


def _closed(record: Record, begins: When, ends: When | None, now: int, new_id: str) -> list[Record]:
    """The record, closed where something else begins to hold; and what of it holds again after that."""
    stop = begins if record.valid_from is None or begins.at >= record.valid_from.at else record.valid_from
    over = stop.at <= now or stop == record.valid_from
    closed = replace(record, valid_to=stop, status="superseded" if over else "current", updated_at=now)
    if ends is None or ends.at >= span_of(record)[1]:
        return [closed]
    rest = replace(
        record,
        id=derived_ulid(now, record.id, new_id),
        valid_from=ends,
        supersedes=(record.id,),
        conflict_with=(),
        created_at=now,
        updated_at=now,
    )
    return [closed, rest]


def marks(slot: Sequence[Record]) -> tuple[Record, ...]:
    """The current records of a slot, each with the ids of those that it contradicts: that hold when it does
    and say something else, or say the same for a time that ends otherwise."""
    spans = [span_of(each) for each in slot]
    said = [(content_of(each.payload), span[1]) for each, span in zip(slot, spans, strict=True)]
    found = []
    for at, record in enumerate(slot):
        rivals = (
            other.id
            for there, other in enumerate(slot)
            if there != at and said[there] != said[at] and _meet(spans[at], spans[there])
        )
        found.append(replace(record, conflict_with=tuple(sorted(rivals))))
    return tuple(found)


# --- forgetting ---


def forgotten(
    gone: Sequence[Record],
    rest: Sequence[Record],
    *,
    at: int,
    actor: str,
    reason: str = "",
    whole: bool = False,
) -> Change:
    """Forgets records of a slot: they keep their id and their history, and say nothing any more. `rest` are
    the slot's other current records, whose marks are put right. The tombstones are for what the records said,
    or with `whole` for the slot.
    """
    events = [
        Event(at=at, action="forget", actor=actor, record=silent(each, at), reason=reason) for each in gone
    ]
    tombstones = [_tombstone(each, at, "" if whole else content_of(each.payload)) for each in gone]
    before = {each.id: each for each in rest}
    actions: dict[str, Action] = {each.id: "repair" for each in rest}
    live = [each for each in rest if not _has_expired(each, at)]
    events += _events(before, marks(live), actions, at, actor)
    return Change(events=tuple(events), tombstones=tuple(dict.fromkeys(tombstones)))


def _tombstone(record: Record, at: int, content: str) -> Tombstone:
    return Tombstone(
        environment=record.environment, scope=record.scope, key=record.key, at=at, content=content
    )


def silent(record: Record, at: int) -> Record:
    """The record, forgotten: without what it said."""
    return replace(record, payload=None, text="", conflict_with=(), status="forgotten", updated_at=at)


def repaired(record: Record, entries: frozenset[str], at: int) -> Record:
    """The record after those entries were forgotten: with fewer sources and less evidence, or, when an agent,
    a model, a tool or an import drew it from them alone, forgotten. So is a running summary, which is of all
    its sources together. The same record when it came from none of them."""
    kept = tuple(each for each in record.sources if each.entry not in entries)
    if kept == record.sources or record.status == "forgotten":
        return record
    if record.origin in _DERIVED and (not kept or record.key == SUMMARY_KEY):
        return silent(record, at)
    evidence = max(1, record.evidence - (len(record.sources) - len(kept)))
    return replace(record, sources=kept, evidence=evidence, updated_at=at)


def without_entries(
    slot: Sequence[Record], entries: frozenset[str], *, at: int, actor: str, reason: str = ""
) -> Change:
    """What forgetting entries does to the records of one slot, current and superseded.

    A record drawn from them alone is forgotten, and what it had closed holds again, as far as it did. The
    tombstones are for what the forgotten records said.
    """
    state = {each.id: each for each in slot}
    tombstones = []
    for record in sorted(slot, key=lambda each: each.id):
        after = repaired(state[record.id], entries, at)
        if after.status == "forgotten" and record.status != "forgotten":
            tombstones.append(_tombstone(record, at, content_of(record.payload)))
            _reopen(state, state[record.id], at)
        state[record.id] = after
    live = [each for each in state.values() if each.status == "current" and not _has_expired(each, at)]
    marked = marks(live)
    state |= {each.id: each for each in marked}
    actions: dict[str, Action] = {
        each.id: "forget" if each.status == "forgotten" else "repair" for each in state.values()
    }
    events = _events({each.id: each for each in slot}, state.values(), actions, at, actor)
    return Change(
        events=tuple(replace(event, reason=reason) for event in events), tombstones=tuple(tombstones)
    )


def _reopen(state: dict[str, Record], gone: Record, at: int) -> None:
    """Lets what `gone` had closed go on to where `gone` ended."""
    heirs = []
    for each in state.values():
        if each.id not in gone.supersedes or each.status == "forgotten" or each.valid_to is None:
            continue
        start = max((when.at for when in (gone.valid_from, each.valid_from) if when), default=None)
        # What was closed by being said once more did not end where `gone` began.
        if each.valid_to.at == start or not _has_closer(each, gone, state.values()):
            heirs.append(replace(each, valid_to=gone.valid_to, status=gone.status, updated_at=at))
    for later in list(state.values()):
        if gone.id in later.supersedes:
            supersedes = (*later.supersedes, *(heir.id for heir in heirs))
            state[later.id] = replace(later, supersedes=tuple(dict.fromkeys(supersedes)))
    state.update((heir.id, heir) for heir in heirs)


def _has_closer(record: Record, gone: Record, slot: Iterable[Record]) -> bool:
    """Whether something else that is still said closed the record too."""
    return any(
        record.id in each.supersedes for each in slot if each.id != gone.id and each.status != "forgotten"
    )


def expired(record: Record, now: int, actor: str) -> Event | None:
    """The end of a record whose time is over; None when it is not. It leaves no tombstone: it may be said
    again."""
    if record.status != "current" or not _has_expired(record, now):
        return None
    return Event(at=now, action="expire", actor=actor, record=silent(record, now))


# --- importing ---


def arrived(record: Record, now: int) -> Record:
    """A record from outside, checked as a draft is, with no time of writing in the future. Raises
    `InvalidInput`."""
    if not ULID.match(record.id) or record.evidence < 1 or min(record.created_at, record.updated_at) < 0:
        raise InvalidInput("this is no record that can be taken in", record=ascii(record.id))
    written = {"created_at": min(record.created_at, now), "updated_at": min(record.updated_at, now)}
    if record.status == "forgotten":
        scope_checked(record.scope)
        return replace(silent(record, now), key=slot_key(record.key), **written)
    draft = checked(
        Draft(
            layer=record.layer,
            scope=record.scope,
            key=record.key,
            payload=record.payload,
            text=record.text,
            confidence=record.confidence,
            origin=record.origin,
            sources=record.sources,
            # A record that was corrected from its beginning holds at no time: both bounds are one.
            valid_from=None if _empty(record) else record.valid_from,
            valid_to=record.valid_to,
            expires_at=record.expires_at,
        )
    )
    return replace(
        record, key=draft.key, payload=draft.payload, text=draft.text, sources=draft.sources, **written
    )


def _empty(record: Record) -> bool:
    start, stop = record.valid_from, record.valid_to
    corrected = start is not None and stop is not None and start.at == stop.at
    return corrected and record.status == "superseded"


def imported(
    record: Record,
    *,
    existing: Record | None,
    slot: Iterable[Record],
    tombstones: Iterable[Tombstone],
    now: int,
    actor: str,
) -> Decision:
    """What taking in a record of a bundle does to its slot. `existing` is the one of its id. The record keeps
    its times; it closes nothing, what it contradicts is marked, and what says the same is merged.

    "merged" with an empty change: it was there already.
    """
    record = replace(record, conflict_with=())
    if existing is not None and _slot_of(existing) != _slot_of(record):
        return Decision(outcome="refused", reason="its id is that of a record elsewhere")
    if existing is not None and (
        existing.status == "forgotten"
        or existing.updated_at > record.updated_at
        or replace(existing, conflict_with=()) == record
    ):
        return Decision(outcome="merged", record=existing, reason="it is here, as new or newer")
    if record.status != "forgotten":
        _, refusal = _unforgotten(_draft_of(record), tuple(tombstones), now)
        if refusal:
            return Decision(outcome="refused", reason=refusal)
    others = [each for each in slot if each.status == "current" and each.id != record.id]
    before = {each.id: each for each in others} | ({existing.id: existing} if existing else {})
    if record.status != "current":
        event = Event(at=now, action="import", actor=actor, record=record)
        marked = _events(before, marks(others), {}, now, actor)
        return Decision(change=Change(events=(*marked, event)), outcome="stored", record=record, reason="new")
    content = content_of(record.payload)
    rivals = [each for each in others if _meet(span_of(each), span_of(record))]
    twin = next((each for each in rivals if content_of(each.payload) == content), None)
    if twin is not None:
        merged = _united(twin, record, now)
        events = _events(before, [merged], {merged.id: "import"}, now, actor)
        return Decision(
            change=Change(events=tuple(events)), outcome="merged", record=merged, reason="known already"
        )
    if len(rivals) >= MAX_RIVALS or len(others) >= MAX_SLOT:
        return Decision(outcome="refused", reason="its slot is full")
    after = marks([*others, record])
    events = _events(before, after, {record.id: "import"}, now, actor)
    new = after[-1]
    outcome: Outcome = "conflict" if new.conflict_with else "stored"
    return Decision(change=Change(events=tuple(events)), outcome=outcome, record=new, reason="new")


def _slot_of(record: Record) -> tuple[str, Scope, str]:
    return record.environment, record.scope, record.key


def _draft_of(record: Record) -> Draft:
    return Draft(
        layer=record.layer,
        scope=record.scope,
        key=record.key,
        payload=record.payload,
        sources=record.sources,
        said_at=record.updated_at or record.created_at,
    )


def _united(twin: Record, record: Record, now: int) -> Record:
    """Two records of the same, as one. Counted by the larger evidence: both may be of the same sayings."""
    sources = tuple(dict.fromkeys((*twin.sources, *record.sources)))[:MAX_SOURCES]
    united = replace(
        twin,
        confidence=max(twin.confidence, record.confidence),
        evidence=max(twin.evidence, record.evidence, min(len(sources), MAX_SOURCES)),
        sources=sources,
    )
    return united if united == twin else replace(united, updated_at=now)
