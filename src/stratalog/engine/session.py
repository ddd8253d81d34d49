"""One session as its user has it: messages, turns, context, and what a list shows of it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Unpack

import msgspec

from stratalog.config import Settings
from stratalog.context.budget import Context
from stratalog.context.view import View, starts_at, view, withdrawal
from stratalog.engine.reading import folded, heard, since, whole, without_references
from stratalog.engine.seeing import ContextOptions, Seeing, Wants, memo_of
from stratalog.engine.strata import Strata
from stratalog.engine.turn import Status, Turn, lost
from stratalog.engine.working import PinnedFacts, WorkingDict
from stratalog.errors import (
    Conflict,
    InvalidInput,
    InvalidKey,
    LogError,
    NotFound,
    SessionBusy,
    SessionExists,
    StratalogError,
)
from stratalog.ids import new_ulid
from stratalog.keys import SessionKey, parse_key, session_key
from stratalog.log.contract import LogStore, OnProblem, Problem, Reading, Seals
from stratalog.sessions.manager import Live, SessionManager, Tenure
from stratalog.sessions.meta import FORK, METADATA, RESTART, SessionMeta, advance, clean_title
from stratalog.sessions.turns import OpenTurn, TurnBook
from stratalog.types import (
    AnyEntry,
    Compaction,
    Content,
    Note,
    Pin,
    Title,
    TurnEnd,
    TurnStart,
    User,
    WorkingMemory,
)

_SHOWN = (Title, Pin, TurnEnd, WorkingMemory, Compaction, Note)
_MOST_METADATA = 16_384  # bytes
_WORDS = ("memory_plugin", "residency", "run", "environment")
_DEAR = 500  # entries, after reading which it pays to save what they came to


class Restart(msgspec.Struct, frozen=True):
    """Whether a restart took place; if not, within how many seconds to ask again to confirm it."""

    done: bool
    confirm_within: float = 0.0


class Arrival(msgspec.Struct, frozen=True):
    """A message that is in the log: the turn it opens, and how many turns are before it."""

    turn: str
    message: User
    ahead: int


class Session:
    """Got from `Stratalog.session`; costs nothing until it is used. Safe to use from several threads."""

    def __init__(
        self,
        key: SessionKey,
        store: LogStore,
        manager: SessionManager,
        strata: Strata,
        settings_of: Callable[[str], Settings],
        on_problem: OnProblem,
        stalls: dict[SessionKey, tuple[int, int]],
    ) -> None:
        self.key = key
        self.stalls = stalls  # compaction's; see there
        self._store = store
        self._manager = manager
        self._strata = strata
        self._settings_of = settings_of
        self._settings = settings_of(key.agent)
        self._on_problem = on_problem
        self._seeing = Seeing(key, store, self._settings, on_problem, self._caught_up)

    # --- writing ---

    def append(self, *entries: AnyEntry, fence: int | None = None) -> list[AnyEntry]:
        """Appends entries as they are, outside any turn unless they name one; durable on return.

        With a `fence` only as its holder: raises `StaleFence` once the session was taken by another.
        """
        return self._write(list(entries), fence)

    def withdraw(
        self, *entries: AnyEntry, meta: dict[str, Any] | None = None, fence: int | None = None
    ) -> list[AnyEntry]:
        """Takes messages, calls and results of this session out of what a model sees from now on, in every
        process; they stay in the log, in transcripts and in what a search finds. A message among them that
        waits for its turn waits no more. Returns what was appended: a note with `meta`, and ends of turns.

        What a summary says of them it goes on saying. A `fence` is as for `append`. Raises `InvalidInput`
        for an entry that is not stored, or of another kind.
        """
        if not entries:
            return []
        note = withdrawal(entries, meta)
        gone = {entry.id for entry in entries}
        waiting = [turn for turn in self._caught_up().turns.queued if turn.message.id in gone]
        ends = [TurnEnd(turn=turn.turn, status="interrupted") for turn in waiting]
        return self._write([note, *ends], fence)

    def submit(self, content: Content, *, meta: dict[str, object] | None = None) -> Arrival:
        """Logs a user's message at once, whoever holds the session; it waits to be taken by `next`."""
        (message,) = self._write([_opening(content, meta)], None)
        assert isinstance(message, User)
        try:
            turns = self._caught_up().turns
        except LogError as error:
            self._after_append(error)
            turns = self._live().turns
        ahead = sum(1 for turn in turns.open if turn.message.seq < message.seq)
        return Arrival(message.turn, message, ahead)

    def turn(
        self,
        content: Content,
        *,
        meta: dict[str, object] | None = None,
        wait: float | None = None,
        deadline: float | None = None,
    ) -> Turn:
        """A turn that this message opens. The message is in the log before any wait.

        Waits until the turn that holds the session ends, at most `wait` seconds (None: as long as it takes,
        for a holder loses it at its deadline anyhow). `deadline`, seconds, is how long this one may hold it.
        Raises `SessionBusy` when the wait is over; the message stays queued. Raises `NotFound` when a restart
        or a deletion took the message away while it waited.
        """
        try:
            return self.turn_now(content, meta=meta, deadline=deadline)
        except SessionBusy:
            arrival = self.submit(content, meta=meta)
        return self.start(arrival.turn, wait=wait, deadline=deadline)

    def turn_now(
        self, content: Content, *, meta: dict[str, object] | None = None, deadline: float | None = None
    ) -> Turn:
        """A turn that this message opens, if nobody holds the session or waits for it.

        Raises `SessionBusy`, with nothing written.
        """
        message = _opening(content, meta)
        begun = self._begin(message.turn, deadline, 0, lambda turns: message)
        assert begun is not None
        return begun

    def next(self, *, wait: float = 0, deadline: float | None = None) -> Turn | None:
        """The turn that the oldest waiting message opens; None when none waits. Raises `SessionBusy`."""
        waiting = self._caught_up().turns.queued
        if not waiting:
            return None
        return self._begin(
            waiting[0].turn,
            deadline,
            wait,
            lambda turns: turns.queued[0].message if turns.queued else None,
        )

    def start(self, turn: str, *, wait: float | None = None, deadline: float | None = None) -> Turn:
        """Begins, or resumes, the unfinished turn with this id. Raises `NotFound`, `SessionBusy`."""

        def choose(turns: TurnBook) -> User | None:
            return next((open_turn.message for open_turn in turns.open if open_turn.turn == turn), None)

        begun = self._begin(turn, deadline, wait, choose)
        if begun is None:
            raise NotFound("the session has no such unfinished turn", key=str(self.key), turn=turn)
        return begun

    def abort(self) -> bool:
        """Ends the running turn, of whichever process: what it wrote is kept, what it would write is refused.

        False: none ran. A turn that a crash cut short does not run; see `start` and `close_unfinished`.
        """
        live = self._caught_up()
        with self._manager.outsider(live) as outsider:
            if live.tenure is None and outsider is None:
                return False
            self._end_all("abort", only_started=True)
            self._manager.revoke(live, "aborted", "idle")
            if outsider is not None:
                outsider.oust()
        return True

    def restart(self, *, force: bool = False) -> Restart:
        """Starts the history anew; title and pin stay, and the old history stays readable in the archive.

        While a turn runs, the first call only asks: the second within `restart_window` seconds, or `force`,
        aborts the turn. Messages that wait are not taken over. Raises `NotFound`.
        """
        live = self._caught_up()
        self._must_exist()
        with self._manager.outsider(live) as outsider:
            busy = live.tenure is not None or outsider is not None
            window = self._settings.restart_window
            if busy and not force and not self._manager.confirm_restart(live, window):
                return Restart(False, window)
            self._end_all("restart", only_started=False)
            self._store.replace(self.key, [Note(kind=RESTART)])
            self._manager.revoke(live, "restarted", "idle")
            if outsider is not None:
                outsider.oust()
        self._save()
        return Restart(True)

    def close_unfinished(self) -> list[str]:
        """Ends as interrupted the turns that a crash left, queued ones too; returns their ids.

        Raises `SessionBusy` while a turn runs.
        """
        with self.held() as fence:
            left = [turn.turn for turn in self._caught_up().turns.open]
            if left:
                self._write([TurnEnd(turn=turn, status="interrupted") for turn in left], fence)
        return left

    @contextmanager
    def held(self, *, wait: float | None = 0) -> Iterator[int]:
        """Holds the session without a turn for a `with` block; gives the fence to append under.

        Raises `SessionBusy` while a turn runs for longer than `wait` seconds (None: as long as it takes).
        Past its deadline it is lost to the next that wants it.
        """
        live = self._live()
        tenure = self._tenure("", None)
        try:
            self._manager.take(live, tenure, wait)
            yield self._fence()
        finally:
            self._manager.release(live, tenure)

    def set_title(
        self, title: str, *, by: Literal["user", "auto", "model", "import"] = "user"
    ) -> SessionMeta:
        """Names the session. What the user chose is never replaced by another's choice.

        Raises `NotFound`, and `InvalidInput` for a title of which nothing would show.
        """
        self._must_exist()
        if not clean_title(title):
            raise InvalidInput("a title needs a character that shows", title=ascii(title)[:80])
        self._write([Title(title=title, by=by)], None)
        return self.meta

    def pin(self, pinned: bool = True) -> SessionMeta:
        """Lists the session before those that are not pinned. Raises `NotFound`."""
        self._must_exist()
        self._write([Pin(pinned=pinned)], None)
        return self.meta

    def set_metadata(self, **values: Any) -> SessionMeta:
        """Says something of the session itself, which need not exist yet: names with JSON, None takes one
        away. It stays through restarts, and goes with forks and into sessions that continue this one.

        Some names have a meaning: `memory_plugin` and `residency` (see `memory.lanes`), `users`, `run` and
        `environment` (whose the session is, for a purge). Raises `InvalidInput` for what is no JSON or too
        large, and for a meaning that is no text.
        """
        if isinstance(values.get("users"), str):
            values["users"] = [values["users"]]
        told = {name: value for name, value in (self.meta.metadata | values).items() if value is not None}
        _check_metadata(told)
        self._write([Note(kind=METADATA, data=values)], None)
        return self.meta

    def fork(self, to: str | SessionKey, *, at: str | int | None = None) -> Session:
        """A new session with this one's current history up to the entry `at` (its id or seq; all of it).

        Entries keep their ids and times. Turns that are not finished there end as interrupted.
        Raises `NotFound`, `SessionExists`, `InvalidKey` for another tenant's.
        """
        key = parse_key(to, self.key.tenant)
        if key.tenant != self.key.tenant:
            raise InvalidKey("a fork stays with its tenant", key=str(key), tenant=self.key.tenant)
        self._must_exist()
        last = self._find(at) if at is not None else None
        if self._store.head(key) is not None:
            raise _taken(key)
        made = Session(
            key, self._store, self._manager, self._strata, self._settings_of, self._on_problem, self.stalls
        )
        made.begin_with(self.forked(last))
        return made

    def begin_with(self, entries: Iterable[AnyEntry]) -> None:
        """Makes the session's log of these entries, whole or not at all. Raises `SessionExists`."""
        live = self._live()
        tenure = self._tenure("begin", None)
        try:
            self._manager.take(live, tenure, None)  # so that of two to one key the second is refused
            if self.exists:
                raise _taken(self.key)
            self._store.replace(self.key, entries)
        finally:
            self._manager.release(live, tenure)

    def delete(self) -> bool:
        """Removes the session with all that belongs to it, and from every stratum. False: there was none."""
        try:
            return self._store.delete(self.key)
        finally:
            if not self.exists:
                self._manager.drop(self.key)
                self._strata.forget(self.key)

    # --- reading ---

    @property
    def settings(self) -> Settings:
        """The settings of the session's agent."""
        return self._settings

    @property
    def exists(self) -> bool:
        return self._store.head(self.key) is not None

    @property
    def status(self) -> Literal["idle", "processing", "error"]:
        """`processing` while a turn of this process holds it; `error` after one lost it at its deadline."""
        live = self._manager.find(self.key)
        return live.status if live is not None else "idle"

    @property
    def busy(self) -> bool:
        """Whether a turn holds it now, in any process."""
        live = self._live()
        with self._manager.outsider(live) as outsider:
            return live.tenure is not None or outsider is not None

    @property
    def meta(self) -> SessionMeta:
        """Title, pin, times and counts, as of now."""
        return self._caught_up().meta

    def entries(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        reverse: bool = False,
        blobs: bool = True,
        generations: Literal["current", "all"] = "current",
    ) -> Reading:
        """The session's entries; see `LogStore.read`."""
        return self._store.read(
            self.key, after=after, before=before, reverse=reverse, blobs=blobs, generations=generations
        )

    def unfinished(self) -> list[OpenTurn]:
        """The turns that have no end: those that wait, and those that run or were cut short by a crash."""
        return [turn._replace(message=self._whole(turn.message)) for turn in self._caught_up().turns.open]

    def context(self, budget: int | None = None, **options: Unpack[ContextOptions]) -> Context:
        """What a model should see, within `budget` tokens. Without one: what `model` takes by its window, or
        else the agent's setting. For a `model` it is counted by the best counter there is, else roughly.

        `system` goes before the system messages in the log; `tools` are those that are offered; `memory` are
        blocks of text beside the agent's working memory; `recalled` are texts, the worthiest first, shown
        before the newest message. Raises `ContextOverflow`.
        """
        return self._seeing.context(None, Wants(budget=budget, **options))

    def view(self, turn: str | None = None) -> View:
        """What of the session a model may see, before any budget; large payloads are references. For a
        running turn without the messages that wait."""
        return self._seeing.view(turn)

    def memory_blocks(self) -> tuple[str, ...]:
        """The agent's working memory and pinned facts in words, as they would be after a compaction now."""
        return self._seeing.memory_blocks(now=True)

    @property
    def seeing(self) -> Seeing:
        """The session's views and contexts, for those who make requests of them."""
        return self._seeing

    @property
    def working_memory(self) -> WorkingDict:
        """The agent's own dictionary; see `WorkingDict`."""
        limit = self._settings.working_memory_limit
        return WorkingDict(self._append_all, lambda: self.meta.working_memory, limit)

    @property
    def facts(self) -> PinnedFacts:
        """What is pinned: lines that a model always sees; see `PinnedFacts`."""
        return PinnedFacts(self._append_all, lambda: self.meta.facts)

    def entry(self, ref: str | int) -> AnyEntry:
        """The entry with this id or `seq` in the current history, whole. Raises `NotFound`."""
        seq = self._find(ref)
        found = next(self._store.read(self.key, after=seq - 1, before=seq + 1), None)
        if found is None:
            raise NotFound("the session has no such entry now", key=str(self.key), entry=ref)
        return found

    def with_payloads(self, entries: Iterable[AnyEntry]) -> list[AnyEntry]:
        """The entries with their payloads in place."""
        return whole(self._store, self.key, entries, self._on_problem)

    @property
    def end(self) -> int:
        """The `seq` of the last entry; 0 when there is no session."""
        head = self._store.head(self.key)
        return head.seq if head is not None else 0

    @property
    def fence(self) -> int:
        """The newest fence of the session; 0 when there is no session."""
        return self._fence()

    # --- how ---

    def _fence(self) -> int:
        head = self._store.head(self.key)
        return head.fence if head is not None else 0

    def _live(self) -> Live:
        return self._manager.touch(
            self.key, lambda: self._strata.load_meta(self.key), self._settings.idle_ttl
        )

    def _append_all(self, entries: list[AnyEntry]) -> None:
        self._write(entries, None)

    def _write(self, entries: list[AnyEntry], fence: int | None) -> list[AnyEntry]:
        """Appends. What follows from it may fail, but must not look as if the append had."""
        stored = self._store.append(self.key, entries, fence=fence)
        self._live()
        compaction = next((entry for entry in reversed(stored) if isinstance(entry, Compaction)), None)
        try:
            if any(isinstance(entry, _SHOWN) for entry in stored):
                self._save()
            if compaction is not None and isinstance(self._store, Seals):
                # What it covers is out of the way of the next opening, and still readable. What it keeps
                # by name is read from there, no farther back than the oldest message that is unanswered.
                self._store.seal(self.key, compaction.first_kept or compaction.id)
                self._store.compress(self.key)
        except (LogError, Conflict) as error:
            self._after_append(error)
        return stored

    def _after_append(self, error: StratalogError) -> None:
        path = str(error.where.get("path", ""))
        self._on_problem(Problem(f"after an append: {error}", path=path, key=str(self.key)))

    def _caught_up(self) -> Live:
        """The live session with what any process has written."""
        live = self._live()
        with live.changed:
            known = live.meta
            new = since(self._store, self.key, known.seq, known.last, self._on_problem)
            if new is None:
                live.learn_anew(SessionMeta(key=str(self.key)))
                new = folded(self._store, self.key, 0, self._on_problem)
            if not live.turns_known:
                book = TurnBook()
                reading = self._store.read(self.key, reverse=True, blobs=False)
                needed = starts_at(heard(reading, self._on_problem))
                for entry in needed:
                    book.advance(entry)
                live.turns, live.turns_known = book, True
                memo_of(live).start(needed)
            learned = 0
            for entry in new:
                live.meta = advance(live.meta, entry, self._settings.title_length)
                live.turns.advance(entry)
                memo_of(live).advance(entry)
                live.saved = False
                learned += 1
            if learned > _DEAR:
                self._save_live(live)
        return live

    def _save(self) -> None:
        live = self._caught_up()
        with live.changed:
            self._save_live(live)

    def _save_live(self, live: Live) -> None:
        if not live.saved and live.meta.seq:
            self._strata.save_meta(live.meta)
            live.saved = True

    def _tenure(self, turn: str, deadline: float | None) -> Tenure:
        seconds = self._settings.lock_deadline if deadline is None else deadline
        if not 0 < seconds < math.inf:
            raise InvalidInput("a deadline is a number of seconds above 0", deadline=seconds)
        return Tenure(turn, seconds)

    def _begin(
        self,
        turn: str,
        deadline: float | None,
        wait: float | None,
        choose: Callable[[TurnBook], User | None],
    ) -> Turn | None:
        """Takes the session and logs, all at once, the end of what was cut short, the message that `choose`
        chooses, if it is new, and the turn's start. None when it chooses none."""
        live = self._live()
        tenure = self._tenure(turn, deadline)
        done = False
        try:
            self._manager.take(live, tenure, wait)
            # From here to the start nobody else may have begun: the fence says so, should this process be
            # stopped in between for longer than it may hold the session.
            head = self._store.head(self.key)
            turns = self._caught_up().turns
            message = choose(turns)
            if message is None:
                return None
            if head is None:
                (opened,) = self._write([message], None)
                assert isinstance(opened, User)
                message = opened
                head = self._store.head(self.key)
            message = self._start(turns, tenure, message, head.fence if head is not None else None)
            done = True
        finally:
            if not done:
                self._manager.release(live, tenure)
        return Turn(message, tenure, self._write, self._end, self._seeing, self._fence)

    def _start(self, turns: TurnBook, tenure: Tenure, message: User, fence: int | None) -> User:
        entries: list[AnyEntry] = []
        for cut in turns.started:
            if cut.turn != message.turn:
                timed_out = tenure.took_over or cut.turn == tenure.after_overdue
                status: Status = "timed_out" if timed_out else "interrupted"
                entries.append(TurnEnd(turn=cut.turn, status=status))
        if not message.seq:
            entries.append(message)
        entries.append(TurnStart(turn=message.turn, holder=f"pid {os.getpid()}"))
        if tenure.lost:
            raise lost(message.turn, tenure.lost)
        stored = self._write(entries, fence)
        start = stored[-1]
        assert isinstance(start, TurnStart)
        tenure.fence, tenure.turn = start.fence, message.turn
        if message.seq:
            return self._whole(message)
        opened = stored[-2]
        assert isinstance(opened, User)
        return opened

    def _end(self, tenure: Tenure, status: Status) -> None:
        live = self._live()
        self._manager.release(live, tenure, "idle" if status != "timed_out" else "error")

    def _end_all(self, by: str, *, only_started: bool) -> None:
        """Takes the session from whoever has it, in any process, and logs the end of every turn."""
        # A start that belongs to no turn: from here on the fences of earlier ones are void.
        (start,) = self._write([TurnStart(holder=by)], None)
        assert isinstance(start, TurnStart)
        ends: list[AnyEntry] = [
            TurnEnd(turn=turn.turn, status="aborted" if turn.started else "interrupted")
            for turn in self._caught_up().turns.open
            if turn.fence < start.fence and (turn.started or not only_started)
        ]
        self._write(ends, None)

    def _whole(self, message: User) -> User:
        (found,) = whole(self._store, self.key, [message], self._on_problem)
        assert isinstance(found, User)
        return found

    def forked(self, last: int | None = None) -> Iterator[AnyEntry]:
        """The entries of a fork: the current history up to the number `last`, and the note of whose it is."""
        book = TurnBook()
        seq = 0
        before = None if last is None else last + 1
        for entry in heard(self._store.read(self.key, before=before), self._on_problem):
            book.advance(entry)
            seq = entry.seq
            yield without_references(entry)
        # Messages that wait are seen in the order in which they are given up: that of the parent's view.
        newest = heard(self._store.read(self.key, before=before, reverse=True, blobs=False), self._on_problem)
        shown = {turn.turn: place for place, turn in enumerate(view(starts_at(newest)).turns)}
        for turn in sorted(book.open, key=lambda turn: shown.get(turn.turn, -1)):
            yield TurnEnd(turn=turn.turn, status="interrupted")
        metadata = self.meta.metadata
        if metadata:  # it may be of before a restart, and what may not leave still may not
            yield Note(kind=METADATA, data=metadata)
        yield Note(kind=FORK, data={"parent": str(self.key), "seq": seq})

    def _find(self, at: str | int) -> int:
        """The seq of the entry with this id or seq, in the current history."""
        for entry in self._store.read(self.key, reverse=True, blobs=False):
            if at in (entry.seq, entry.id):
                return entry.seq
        raise NotFound("the session has no such entry now", key=str(self.key), entry=at)

    def _must_exist(self) -> None:
        if self._store.head(self.key) is None:
            raise NotFound(
                "there is no such session", key=str(self.key), hint="`stratalog sessions` lists them"
            )


def _check_metadata(told: dict[str, Any]) -> None:
    try:
        size = len(msgspec.json.encode(told))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"a session's metadata is JSON: {error}") from error
    if size > _MOST_METADATA:
        raise InvalidInput("a session's metadata is too large", bytes=size, most=_MOST_METADATA)
    for name in _WORDS:
        if not isinstance(told.get(name, ""), str):
            raise InvalidInput("this of a session's metadata is text", name=name)
    users = told.get("users", [])
    if not isinstance(users, list | tuple) or not all(isinstance(each, str) and each for each in users):
        raise InvalidInput("`users` of a session's metadata are ids of users", hint='such as ["ana", "ben"]')
    for id in (told.get("run", ""), told.get("environment", ""), *users):
        if id:
            session_key("any", "any", id)  # an id of these is what an id of a chat is


def _opening(content: Content, meta: dict[str, object] | None) -> User:
    turn = new_ulid()
    return User(id=turn, turn=turn, content=content, meta=meta)


def _taken(key: SessionKey) -> SessionExists:
    return SessionExists("there is a session already", key=str(key), hint="choose another key")
