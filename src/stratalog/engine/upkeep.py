"""What is done in the background, for every tenant of a data directory.

    with Stratalog("data") as memory, upkeep(memory) as background:
        ...                                    # consolidates, refreshes profiles, compacts what is idle

| work | what it does | due |
|---|---|---|
| `remember` | tells minds of answered turns that a crash kept from them | as `consolidate` |
| `draw` | has a model draw from a turn, where that failed at the turn's end | when it was put |
| `consolidate` | merges, promotes, marks and ends records | `background.consolidate_every` |
| `profiles` | brings MEMORY.md and USER.md up to date | `background.profiles_every` |
| `profile` | one page that a pass was refused | when somebody retries it |
| `compact_idle` | compacts large sessions that nobody uses | `background.idle_every` |
| `embed` | makes vectors of what is new, where an embedder is configured | as `consolidate` |
| `purge` | finishes purges that were cut short | as `consolidate` |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from stratalog.engine.agent_memory import DRAW, memory_of
from stratalog.engine.agents import configured
from stratalog.engine.background import Background, Job, Runner, Work, jobs_of, outcome
from stratalog.engine.compaction import Summariser, closing_summariser
from stratalog.engine.core import Stratalog
from stratalog.engine.embedding import charging, embed
from stratalog.engine.governing import governed
from stratalog.engine.idle import compact_idle
from stratalog.engine.meaning import LOCAL
from stratalog.engine.minding import remember_due
from stratalog.engine.profiling import PageOf, refresh
from stratalog.engine.purging import resume_purges
from stratalog.engine.remembering import Records
from stratalog.engine.session import Session
from stratalog.errors import Conflict, InvalidConfig, words_of
from stratalog.ids import now_ms
from stratalog.keys import tenant_named
from stratalog.memory.consolidate import consolidate
from stratalog.memory.contract import PRODUCTION, Scope
from stratalog.memory.jobs import FILE as JOBS
from stratalog.memory.sqlite import FILE as RECORDS
from stratalog.models.extractive import NAME as EXTRACTIVE
from stratalog.recall.knowledge import FILE as DOCUMENTS

_QUIET_MS: Final = 60_000  # after its last message a session's own process may still be at it


def upkeep(memory: Stratalog) -> Background:
    """All of it every so often, in threads, for every tenant of the directory, as long as the memory is open.
    Close it, or use it in a `with` block. Raises `Conflict` when another process does it, and
    `InvalidConfig` when APScheduler is not installed."""
    return Background(runner_of(memory), tick=memory.settings_of().background.tick)


def runner_of(memory: Stratalog, *, clock: Callable[[], int] = now_ms) -> Runner:
    """What does all that is due once, when it is told to. Raises `Conflict` when another process has one."""

    def works_of(tenant: str) -> list[Work]:
        return works(memory.as_tenant(tenant), clock)

    return Runner(
        memory.data,
        works_of,
        lambda tenant: jobs_of(memory.as_tenant(tenant)),
        lambda: tenants(memory),
        note=memory.note,
        clock=clock,
    )


def tenants(memory: Stratalog) -> Iterator[str]:
    """Those that have sessions, records, jobs or documents."""
    seen = set(memory.tenants())
    if memory.data.is_dir():
        for each in os.scandir(memory.data):
            name = tenant_named(each.name)
            if name and any(
                os.path.exists(os.path.join(each.path, file)) for file in (RECORDS, JOBS, DOCUMENTS)
            ):
                seen.add(name)
    yield from sorted(seen)


def works(memory: Stratalog, clock: Callable[[], int] = now_ms) -> list[Work]:
    """How each kind of job is done for the tenant. Each opens the records for itself. `clock` gives
    milliseconds UTC."""
    own = memory.settings_of().background
    doing = _Doing(memory, clock)
    embed = Work(name="embed", run=doing.embed, every=own.consolidate_every)
    return [
        Work(name="remember", run=doing.remember, every=own.consolidate_every),
        Work(name=DRAW, run=doing.draw),
        Work(name="consolidate", run=doing.consolidate, every=own.consolidate_every),
        Work(name="profiles", run=doing.profiles, every=own.profiles_every),
        Work(name="profile", run=doing.profile),
        Work(name="compact_idle", run=doing.compact_idle, every=own.idle_every),
        *([embed] if memory.settings_of().recall.embedder else []),
        Work(name="purge", run=doing.purge, every=own.consolidate_every),
    ]


class _Doing:
    """The works of one tenant; each returns what it came to."""

    def __init__(self, memory: Stratalog, clock: Callable[[], int]) -> None:
        self._memory = memory
        self._clock = clock
        self._settings = memory.settings_of()
        self._own = self._settings.background

    def remember(self, job: Job) -> dict[str, Any]:
        sessions = 0
        problems: list[str] = []
        with Records(self._memory) as records:
            for meta in self._memory.sessions().sessions:
                if not 0 < meta.remembered < meta.answered or self._clock() - meta.updated_at < _QUIET_MS:
                    continue
                session = self._memory.session(meta.key)
                if session.busy:
                    continue
                done = outcome(partial(self._remembered, records, session))
                problems += [words_of(done)] if isinstance(done, BaseException) else done
                sessions += 1
        return {"sessions": sessions, "problems": problems}

    def _remembered(self, records: Records, session: Session) -> list[str]:
        """One session; what is wrong with it keeps no other from being remembered."""
        whose = _whose(session.meta.metadata)
        return list(remember_due(session, memory_of(records, session.settings, clock=self._clock, **whose)))

    def draw(self, job: Job) -> dict[str, Any]:
        session = self._memory.session(job.session)
        if not session.exists:
            return {"gone": True}
        with Records(self._memory) as records:
            whose = _whose(session.meta.metadata) | {"user": job.user, "environment": job.environment}
            mind = memory_of(records, session.settings, clock=self._clock, **whose)
            if not mind.draws:
                raise InvalidConfig(
                    "no model is configured that draws from turns", hint="set `memory.model` or `model`"
                )
            return mind.drawn(session, job)

    def consolidate(self, job: Job) -> dict[str, Any]:
        with Records(self._memory) as records:
            done = consolidate(
                records.store,
                None,
                now=self._clock(),
                older_than_ms=int(self._own.promote_after * 1000),
                after=str(job.result.get("watermark", "")),
            )
        return {**msgspec.structs.asdict(done), "watermark": done.next}

    def profiles(self, job: Job) -> dict[str, Any]:
        with Records(self._memory) as records:
            known = job.result or next((each.result for each in _done(records, job.kind)), {})
            done = refresh(
                records.store,
                records.data,
                records.tenant,
                after=int(known.get("watermark", 0)),
                most_removed=self._own.most_removed,
            )
            for each in done.pages:
                _note_page(records, each.page, each.refused)
        pages = [msgspec.to_builtins(each) for each in done.pages]
        return {"pages": pages, "watermark": done.watermark, "more": done.more}

    def profile(self, job: Job) -> dict[str, Any]:
        page = msgspec.convert(job.args, PageOf)
        with Records(self._memory) as records:
            done = refresh(
                records.store,
                records.data,
                records.tenant,
                only=page,
                most_removed=self._own.most_removed,
            )
        for each in done.pages:
            if each.refused:
                raise _refused(each.page, each.refused)
        return {"pages": [msgspec.to_builtins(each) for each in done.pages]}

    def compact_idle(self, job: Job) -> dict[str, Any]:
        with Records(self._memory) as records:
            summarise, by = self._summariser(records)
            done = compact_idle(self._memory, summarise=summarise, by=by)
        return {"compacted": len(done)}

    def embed(self, job: Job) -> dict[str, Any]:
        with Records(self._memory) as records:
            local = self._settings.recall.embedder == LOCAL
            charge = (lambda texts: None) if local else charging(records, self._clock)
            done = embed(self._memory, records, charge=charge)
        sent = int(job.result.get("watermark", 0)) + done.embedded + done.refused
        told = {"embedded": done.embedded, "refused": done.refused}
        return {**told, "watermark": sent, "more": done.left}

    def purge(self, job: Job) -> dict[str, Any]:
        with Records(self._memory) as records:
            return {"finished": len(resume_purges(self._memory, records))}

    def _summariser(self, records: Records) -> tuple[Summariser | None, str]:
        """The settings' own, within the tenant's budget; it leaves no connection open."""
        spec = self._settings.compaction.summariser
        if not spec or spec == EXTRACTIVE:
            return None, EXTRACTIVE
        who = governed(
            configured(spec, self._settings), records.jobs, records.limits, self._clock, tenant=records.tenant
        )
        return closing_summariser(who), who.name


def _whose(metadata: Mapping[str, Any]) -> dict[str, str]:
    """In which run and environment a session's turns are remembered; for whom, each turn tells."""
    return {
        "run": str(metadata.get("run", "")),
        "environment": str(metadata.get("environment", PRODUCTION)),
    }


def _done(records: Records, kind: str) -> tuple[Job, ...]:
    return records.jobs.list(state="done", kind=kind, limit=1).jobs


def _note_page(records: Records, page: PageOf, refused: str) -> None:
    """A page that was refused is a job that has failed, for a person to see; one that was not is none."""
    if not refused:
        return
    scope: Scope = page.scope
    key = f"{page.environment} {scope.kind} {scope.id}"
    job = records.jobs.put(
        "profile",
        key,
        args=msgspec.to_builtins(page),
        user=scope.id if scope.kind == "user" else "",
        environment=page.environment,
    )
    mine = records.jobs.claim(job.id, lease_ms=_QUIET_MS)
    if mine is not None:
        records.jobs.failed(mine, str(_refused(page, refused)), retry_at=None)


def _refused(page: PageOf, reason: str) -> Conflict:
    return Conflict(
        f"{page.name} was left as it is: {reason}",
        hint="look at it, then `stratalog memory profiles --force`, or edit it",
        of=f"{page.scope.kind} {page.scope.id}",
        environment=page.environment,
    )
