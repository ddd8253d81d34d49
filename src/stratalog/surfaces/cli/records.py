"""What the commands of `memory` do. `remembering` has their options, `record_views` shows the outcome."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from stratalog import Stratalog
from stratalog.engine.remembering import (
    ADMIN,
    MAX_PAGE,
    PRODUCTION,
    AuditLine,
    Caller,
    Draft,
    Event,
    Layer,
    Record,
    Records,
    Scope,
    ScopeKind,
    Source,
    Status,
)
from stratalog.errors import AccessDenied, InvalidInput, NotFound
from stratalog.surfaces.cli import pages
from stratalog.surfaces.cli import record_views as views
from stratalog.surfaces.cli.asking import Who
from stratalog.surfaces.cli.failures import OK, WRONG
from stratalog.surfaces.cli.keys import find
from stratalog.surfaces.cli.moments import parse_moment, parse_when
from stratalog.surfaces.cli.plain import counted, unicode_text, utf8
from stratalog.surfaces.cli.record_inputs import json_value, lines_of, opened, session_named
from stratalog.surfaces.cli.state import State
from stratalog.surfaces.cli.writing import write_file

_EVERY: tuple[Status, ...] = ("current", "superseded", "forgotten")
_TOLD = 10  # records that a new one has to do with, each with its words


@contextmanager
def desk(state: State, who: Who) -> Iterator[Desk]:
    """The records that the options name, for who asks. Raises what opening them raises, and `InvalidInput`
    for a caller that cannot be."""
    with state.memory() as memory, Records(memory) as records:
        session = str(session_named(memory, who.session)) if who.session else ""
        caller = records.caller(
            user=who.user,
            agent=who.agent,
            session=session,
            run=who.run,
            environment=who.environment or PRODUCTION,
            roles=(ADMIN,) if who.admin else (),
        )
        try:
            yield Desk(state, memory, records, caller)
        except AccessDenied as error:
            raise AccessDenied(
                error.what,
                hint="--user, --agent, --session and --run say who asks, --admin that it is an admin",
                **error.where,
            ) from error


class Desk:
    """Each method does a command, shows what came of it, and returns the exit code."""

    def __init__(self, state: State, memory: Stratalog, records: Records, caller: Caller) -> None:
        self._state = state
        self._out = state.output
        self._memory = memory
        self._records = records
        self._service = records.service
        self._caller = caller

    def add(
        self,
        text: str,
        *,
        key: str,
        scope: ScopeKind,
        layer: str,
        confidence: float,
        payload: str | None,
        begins: str | None,
        ends: str | None,
        replaces: bool,
        sources: Sequence[str],
    ) -> int:
        draft = Draft(
            layer=Layer(layer),
            scope=self._scope(scope),
            key=key,
            payload=None if payload is None else json_value(payload),
            text=utf8(text),
            confidence=confidence,
            sources=tuple(self._source(each) for each in sources),
            valid_from=parse_when(begins) if begins is not None else None,
            valid_to=parse_when(ends) if ends is not None else None,
            replaces=replaces,
        )
        done = self._service.remember(self._caller, draft)
        if not self._state.json:
            views.print_remembered(self._out, done, self._known)
        self._state.finish(
            {"outcome": done.outcome, "reason": done.reason, "record": views.whole(done.record)}
        )
        return WRONG if done.outcome == "refused" else OK

    def search(self, query: str, *, layers: Sequence[str], limit: int, as_of: str | None) -> int:
        recalled = self._service.recall(
            self._caller,
            query,
            layers=[Layer(each) for each in layers],
            limit=limit,
            as_of=parse_moment(as_of) if as_of is not None else None,
        )
        if not self._state.json:
            views.print_found(self._out, recalled.found)
        if not recalled.found:
            self._out.tell("nothing found")
        elif recalled.more and not self._state.json:
            self._out.tell("there are more: --limit takes a larger number")
        self._state.finish(
            {
                "query": unicode_text(query),
                "found": [{**views.whole(each.record), "score": each.score} for each in recalled.found],
                "more": recalled.more,
            }
        )
        return OK if recalled.found else WRONG

    def list(
        self,
        *,
        layers: Sequence[str],
        keys: Sequence[str],
        as_of: str | None,
        all_statuses: bool,
        everyone: bool,
        limit: int,
        cursor: str,
    ) -> int:
        chosen = [Layer(each) for each in layers]
        if as_of is None:
            page = self._service.list(
                self._caller,
                layers=chosen,
                keys=keys,
                statuses=_EVERY if all_statuses else ("current",),
                everyone=everyone,
                limit=limit,
                after=cursor,
            )
        elif all_statuses or everyone:
            raise InvalidInput(
                "--as-of goes with neither --all-statuses nor --everyone",
                hint="what held then is current or superseded now, and is listed whichever it is",
            )
        else:
            at = parse_moment(as_of)
            page = self._service.as_of(self._caller, at, layers=chosen, keys=keys, limit=limit, after=cursor)
        if not self._state.json:
            views.print_records(self._out, page.records, statuses=all_statuses or as_of is not None)
        if not page.records:
            self._out.tell("no such records")
        self._tell_next(page.next)
        self._state.finish({"records": views.whole(page.records), "cursor": page.next})
        return OK

    def show(self, id: str) -> int:
        record = self._service.get(self._caller, id)
        events = [event for page in self._events_of(record) for event in page]
        if not self._state.json:
            views.print_record(self._out, record)
            views.print_events(self._out, events, words=False)
        self._state.finish({"record": views.whole(record), "events": views.whole(events)})
        return OK

    def history(self, *, id: str, keys: Sequence[str], limit: int, cursor: int) -> int:
        page = self._service.history(self._caller, id=id, keys=keys, limit=limit, after=cursor)
        if not self._state.json:
            views.print_events(self._out, page.events)
        if not page.events:
            self._out.tell("nothing happened to such records")
        self._tell_next(page.next or "")
        self._state.finish({"events": views.whole(page.events), "cursor": page.next})
        return OK

    def forget(self, id: str, *, key: str, scope: ScopeKind, reason: str) -> int:
        whose = self._scope(scope) if key else None
        done = self._service.forget(self._caller, id=id, scope=whose, key=key, reason=utf8(reason))
        self._out.tell(f"forgot {counted(done.forgotten, 'record')}")
        self._state.finish(views.whole(done))
        return OK

    def forget_source(self, entries: Sequence[str], *, reason: str) -> int:
        ids = [self._source(each).entry if "#" in each else each for each in entries]
        done = self._service.forget_source(self._caller, ids, reason=utf8(reason))
        self._out.tell(
            f"forgot {counted(done.forgotten, 'record')}, {counted(done.repaired, 'other')} put right"
        )
        self._state.finish(views.whole(done))
        return OK

    def export(self, file: Path | None, *, everyone: bool) -> int:
        chunks = self._service.export(self._caller, everyone=everyone)
        if file is not None and str(file) != "-":
            size = write_file(self._memory, file, chunks)
            self._out.tell(f"{size:,} bytes written to {file}")
            self._state.finish({"file": unicode_text(file), "bytes": size})
        elif self._state.json:
            self._state.finish({"content": b"".join(chunks).decode()})
        else:
            self._out.raw(chunks)
        return OK

    def import_(self, file: Path) -> int:
        with opened(file) as stream:
            done = self._service.import_(self._caller, lines_of(stream, file))
        if not self._state.json:
            views.print_imported(self._out, done)
        if done.denied:
            self._out.warn(f"{counted(done.denied, 'line')} not taken in: who asks may not write there")
        if not done.complete:
            self._out.warn(
                "the bundle has no end that tells what it has: it was cut, or something is missing"
            )
        self._state.finish(views.whole(done))
        return OK if done.complete and not done.denied else WRONG

    def audit(self, who: Who, last: int) -> int:
        """The last lines of those that fit what `who` names."""
        wanted = {
            "user": self._caller.user,
            "agent": self._caller.agent,
            "session": self._caller.session,
            "run": self._caller.run,
            "environment": self._caller.environment if who.environment else "",
        }
        lines: deque[AuditLine] = deque(maxlen=last)
        for line in self._records.audit():
            if all(value in ("", getattr(line, name)) for name, value in wanted.items()):
                lines.append(line)
        if not self._state.json:
            views.print_audit(self._out, lines)
        if not lines:
            self._out.tell("nothing was asked of the records")
        self._state.finish({"lines": views.whole(list(lines))})
        return OK

    # --- pages and tidying ---

    def profiles(self, *, force: bool, anew: bool) -> int:
        return pages.bring_up_to_date(self._state, self._records, self._caller, force=force, anew=anew)

    def page(self, *, sources: bool) -> int:
        return pages.show(self._state, self._records, self._caller, sources=sources)

    def undo(self) -> int:
        return pages.undo(self._state, self._records, self._caller)

    def consolidate(self, older_than: float | None) -> int:
        age = self._records.settings.background.promote_after if older_than is None else older_than
        total: Counter[str] = Counter(merged=0, promoted=0, marked=0, expired=0)
        after, more = "", True
        while more:
            done = self._records.consolidate(
                environment=self._caller.environment, older_than=age, after=after
            )
            total.update({name: getattr(done, name) for name in total})
            after, more = done.next, done.more
        self._out.print(", ".join(f"{number} {name}" for name, number in total.items()))
        self._state.finish(dict(total))
        return OK

    # --- what was typed ---

    def _scope(self, kind: ScopeKind) -> Scope:
        """The caller's own scope of this kind. Raises `InvalidInput` where it has none."""
        if kind == "tenant":
            return Scope("tenant")
        id: str = getattr(self._caller, kind)
        if not id:
            raise InvalidInput(f"no {kind} was given", hint=f"--{kind} names it; --scope takes another kind")
        return Scope(kind, id)

    def _source(self, text: str) -> Source:
        """The source written SESSION#ENTRY, the entry by its seq or its id. Raises `NotFound`."""
        name, mark, ref = text.rpartition("#")
        if not (name and mark and ref):
            raise InvalidInput("this is no source", source=ascii(text), hint="write SESSION#ENTRY")
        session = find(self._memory, name)
        entry = session.entry(int(ref) if ref.isdecimal() else ref)
        return Source(session=str(session.key), entry=entry.id)

    # --- how ---

    def _known(self, ids: Iterable[str]) -> Iterator[Record]:
        """The first few of those records, as far as they say something."""
        for id in tuple(ids)[:_TOLD]:
            with suppress(NotFound):
                yield self._service.get(self._caller, id)

    def _events_of(self, record: Record) -> Iterator[tuple[Event, ...]]:
        after = 0
        while True:
            page = self._service.history(
                self._caller, id=record.id, scopes=(record.scope,), limit=MAX_PAGE, after=after
            )
            yield page.events
            after = page.next
            if not after:
                return

    def _tell_next(self, cursor: str | int) -> None:
        if cursor and not self._state.json:
            self._out.tell(f"there are more: say --cursor {cursor} too")
