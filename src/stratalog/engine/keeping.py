"""What somebody else's model, at the other end of a protocol, wants remembered, changed or read again.

Each thing that it tells is noted in the log of the session in which it was told, and that entry is the
record's source: so a purge of the session destroys what was told there, and a record tells where it is from.
For the tools of a model that runs in a turn there is `memory_tools`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from stratalog.context.memory_words import BY_MODEL
from stratalog.engine.consulting import Known, Sight, known
from stratalog.engine.memory_tools import WRITE, answer, page_of, page_text, scope_about
from stratalog.engine.profiling import PageOf, refresh
from stratalog.engine.recalling import piece_of
from stratalog.engine.remembering import Draft, Layer, Outcome, Records, Scope, Source
from stratalog.engine.serving_records import record_place
from stratalog.engine.session import Session
from stratalog.errors import AccessDenied, InvalidInput, NotFound
from stratalog.memory.policy import SUMMARY_KEY, checked, slot_key
from stratalog.types import Note, Title

KEPT: Final = "kept"
_SURE: Final = 0.8  # of what an agent tells on purpose


class Kept(NamedTuple):
    """What became of it: the outcome, why, the id of the record that says it now ("" for none), and why the
    page about its owner was left as it was ("": it was not)."""

    outcome: Outcome
    reason: str = ""
    id: str = ""
    page: str = ""


class Under(NamedTuple):
    """What stands under a key, and the cursor to go on with ("": that is all)."""

    records: list[Known]
    cursor: str = ""


def begin(session: Session, signature: Mapping[str, Any], title: str) -> None:
    """Makes the session, if it does not exist, and says of it whose it is and what it is called."""
    if not session.exists:
        if signature:
            session.set_metadata(**signature)
        session.append(Title(title=title, by="auto"))


def remember(
    records: Records,
    sight: Sight,
    *,
    key: str,
    text: str,
    about: str = "",
    confidence: float = _SURE,
    idempotency: str = "",
) -> Kept:
    """Remembers a text beside what stands under the key: what contradicts is marked. The session must exist.
    `about` is user, agent or session; "" is the user where one is known, and else the agent. Raises
    `InvalidInput`, and what the service raises."""
    scope = owner(records, sight, about, confined=True)
    if scope.kind == "session" and slot_key(key) == SUMMARY_KEY:
        raise InvalidInput("this key is that of the session's running summary", key=key)
    draft = checked(
        Draft(
            layer=Layer.MID if scope.kind == "session" else Layer.LONG,
            scope=scope,
            key=key,
            text=text,
            confidence=confidence,
            origin="agent",
        )
    )
    entry = _noted(sight.session, key, text, idempotency)
    draft = msgspec.structs.replace(draft, sources=(Source(sight.who.session, entry),))
    done = records.service.remember(sight.who, draft, idempotency=idempotency)
    page = _refreshed(records, sight, scope)
    return Kept(done.outcome, done.reason, done.record.id if done.record is not None else "", page)


def write(records: Records, sight: Sight, *, key: str, text: str, about: str = "") -> dict[str, Any]:
    """Puts a text in the place of all that stands under the key; an empty one forgets. The session must
    exist. What became of it, as the tool `write_memory` of a turn tells it."""
    slot_key(key)
    scope = owner(records, sight, about, confined=False)
    entry = _noted(sight.session, key, text) if text.strip() else ""
    args = {"key": key, "text": text, "about": scope.kind}
    told: dict[str, Any] = msgspec.json.decode(answer(records, sight.session, sight.who, entry, WRITE, args))
    return told


def forget(
    records: Records, sight: Sight, *, id: str = "", key: str = "", about: str = "", reason: str = ""
) -> int:
    """Forgets one record, or all under a key; how many say nothing any more. Raises `InvalidInput`,
    `NotFound`, and what the service raises."""
    if bool(id) == bool(key.strip()):
        raise InvalidInput("what to forget is an id, or a key", hint="give one of the two")
    if id:
        scope = records.service.get(sight.who, id).scope
        if not sight.may(scope.kind):
            raise NotFound("no such record", id=ascii(id), hint="ids come from `remember` and `recall`")
        gone = records.service.forget(sight.who, id=id, reason=reason).forgotten
    else:
        scope = owner(records, sight, about, confined=False)
        gone = records.service.forget(sight.who, scope=scope, key=key, reason=reason).forgotten
    _refreshed(records, sight, scope)
    return gone


def owner(records: Records, sight: Sight, about: str, *, confined: bool) -> Scope:
    """Whose it is that is told of user, agent or session; what may not leave stays with the session where it
    is `confined`. Raises `InvalidInput` where nobody of the kind is known, and `AccessDenied`."""
    kind = about or ("user" if sight.who.user else "agent")
    _must_be_for(sight, kind)
    scope = scope_about(records, sight.who, kind, confined=confined)
    if scope is None:
        raise InvalidInput(
            "it is about a user, an agent or a session that is known", hint=f"no {kind} is known here"
        )
    return scope


def page(records: Records, sight: Sight, kind: str) -> str:
    """What USER.md (`user`) or MEMORY.md (`agent`) says that holds now, "" where there is none. Raises
    `AccessDenied`."""
    _must_be_for(sight, kind)
    of = page_of(sight.who, kind)
    return page_text(records, of, sight.who.agent)[0] if of is not None else ""


def under_key(records: Records, sight: Sight, key: str, *, limit: int, cursor: str = "") -> Under:
    """What stands under a key in any scope of who asks, through the gate. Raises `InvalidInput`, also for a
    cursor that this did not give."""
    after = record_place(cursor)
    found = records.service.current(sight.who, scopes=sight.scopes, keys=(key,), limit=limit, after=after)
    return Under(known(sight, [piece_of(each) for each in found.records]), found.next)


def _must_be_for(sight: Sight, kind: str) -> None:
    if not sight.may(kind):
        raise AccessDenied(f"what is the {kind}'s is not for this token", hint="what is the user's is")


def _noted(session: Session, key: str, text: str, idempotency: str = "") -> str:
    """Notes in the log what was told; the entry's id. With an `idempotency` key it is that of the first note
    with it, so that a record that is written once more has the same source."""
    if idempotency and (before := _first(session, idempotency)):
        return before
    data = {"key": key, **({"idempotency": idempotency} if idempotency else {})}
    (entry,) = session.append(Note(kind=KEPT, text=text, data=data, meta=dict(BY_MODEL)))
    # Another may have noted the same in the meantime: whoever was first is the source for both.
    return _first(session, idempotency) if idempotency else entry.id


def _first(session: Session, idempotency: str) -> str:
    """The id of the first note with this key, "" for none."""
    notes = (
        each
        for each in session.entries(blobs=False, generations="all")
        if isinstance(each, Note) and each.kind == KEPT and isinstance(each.data, dict)
    )
    return next((each.id for each in notes if each.data.get("idempotency") == idempotency), "")


def _refreshed(records: Records, sight: Sight, scope: Scope) -> str:
    """Brings the page about the owner up to date; why it was left as it was, if so."""
    if scope.kind not in ("user", "agent"):
        return ""
    only = PageOf(scope, sight.who.environment)
    done = refresh(records.store, records.data, records.tenant, only=only)
    return "; ".join(each.refused for each in done.pages if each.refused)
