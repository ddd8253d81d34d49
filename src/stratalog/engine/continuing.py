"""Continuing a session in a new one: with all of its history, with a summary of it, or with what the agent
keeps in mind alone.

    continued = continue_from(memory, "assistant:cli:monday", "assistant:cli:tuesday")

Unless it is said what to inherit, the time since the old session was last written to decides. The new log is
made in one go, or not at all, and nothing of the old one is changed. What it begins with is told by a note of
kind `continue`, which names the old session and its last entry that counts here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from stratalog.config import ContinueSettings
from stratalog.engine.compaction import DEFAULT_WINDOW, Policy, Summariser, Summary, preset, summary_of_all
from stratalog.engine.core import Stratalog
from stratalog.engine.naming import resolve
from stratalog.engine.session import Session
from stratalog.errors import InvalidInput, InvalidKey, NotFound, SessionExists
from stratalog.keys import SessionKey, parse_key
from stratalog.sessions.meta import FACT, METADATA, SessionMeta
from stratalog.tokens.rough import count_entry
from stratalog.types import AnyEntry, Compaction, Note, WorkingMemory

__all__ = [
    "CONTINUE",
    "Continued",
    "Inherit",
    "Inherited",
    "continue_async",
    "continue_from",
    "decide",
    "resolve",
]

CONTINUE = "continue"
Inherited: TypeAlias = Literal["working_memory", "summary", "history"]
Inherit: TypeAlias = Literal["auto", "working_memory", "summary", "history"]
_KINDS: tuple[Inherited, ...] = ("working_memory", "summary", "history")


class Continued(msgspec.Struct, frozen=True):
    """The new session, what it inherited and why, and the seconds since the old one was last written to.

    `summary` is the text that it begins with ("": none, for it was not asked for or there was nothing to
    summarise); `stood_in` says why the extractive summariser made it although another was asked ("": not so).
    """

    session: Session
    inherit: Inherited
    gap: float
    why: str
    summary: str = ""
    stood_in: str = ""


def decide(gap: float, settings: ContinueSettings) -> tuple[Inherited, str]:
    """What a session inherits that is begun `gap` seconds after the old one's end, and why."""
    since = f"the session was last written to {_duration(gap)} ago"
    if gap <= settings.history:
        return "history", f"{since}, which is within {_duration(settings.history)}"
    if gap <= settings.summary:
        return "summary", f"{since}, which is within {_duration(settings.summary)}"
    return "working_memory", f"{since}, which is more than {_duration(settings.summary)}"


def continue_from(
    memory: Stratalog,
    old: str | SessionKey,
    new: str | SessionKey,
    *,
    inherit: Inherit = "auto",
    now: int | None = None,
    summarise: Summariser | None = None,
    by: str = "model",
    policy: Policy | None = None,
) -> Continued:
    """`continue_async` for one who is in no event loop."""
    return asyncio.run(
        continue_async(memory, old, new, inherit=inherit, now=now, summarise=summarise, by=by, policy=policy)
    )


async def continue_async(
    memory: Stratalog,
    old: str | SessionKey,
    new: str | SessionKey,
    *,
    inherit: Inherit = "auto",
    now: int | None = None,
    summarise: Summariser | None = None,
    by: str = "model",
    policy: Policy | None = None,
) -> Continued:
    """Begins the session `new` where `old` is.

    With `auto` the settings of the new session's agent say what to inherit after which time; `now` is
    milliseconds UTC, and an old session that was written to later than that counts as just written to.
    `summarise`, called `by` in the log, makes the summary as in a compaction under `policy`; without it,
    where the old session's residency forbids it, and where it fails, the extractive summariser does.

    The history comes with all that is in it. The summary stands for everything that a model would see of the
    old session; before it stand working memory and facts. Messages of the system come with the history alone.

    Raises `NotFound` for `old`, `SessionExists` for `new`, `InvalidKey` for another tenant's,
    `InvalidInput` when both are one, and what the log raises; nothing is written then.
    """
    if inherit != "auto" and inherit not in _KINDS:
        raise InvalidInput(
            "there is no such thing to inherit", inherit=str(inherit), hint=f"auto, {', '.join(_KINDS)}"
        )
    source, made = memory.session(_own(memory, old)), memory.session(_own(memory, new))
    if source.key == made.key:
        raise InvalidInput("a session cannot continue itself", key=str(made.key), hint="choose a new key")
    if not source.exists:
        raise NotFound(
            "there is no such session", key=str(source.key), hint="`stratalog sessions` lists them"
        )
    if made.exists:
        raise _taken(made.key)
    meta = source.meta
    gap = max(0, (now if now is not None else time.time_ns() // 1_000_000) - meta.updated_at) / 1000
    kind, why = decide(gap, memory.settings_of(made.key.agent).continuing)
    if inherit != "auto":
        kind, why = inherit, "it was asked for"
    if kind == "history":
        made.begin_with(_history(source))
        return Continued(made, kind, gap, why)
    summary: Summary | None = None
    if kind == "summary":
        policy = policy or preset("default", DEFAULT_WINDOW)
        summary = await summary_of_all(source, policy=policy, upto=meta.seq, summarise=summarise, by=by)
    made.begin_with(_inheritance(meta, kind, summary))
    if summary is None:
        return Continued(made, kind, gap, why)
    return Continued(made, kind, gap, why, summary.text, summary.stood_in)


# --- what a new log begins with ---


def _history(source: Session) -> Iterator[AnyEntry]:
    """The entries of a fork, and the note."""
    seq = 0
    for entry in source.forked():
        if isinstance(entry, Note) and isinstance(entry.data, dict):
            seq = entry.data.get("seq", seq)  # a fork ends with the note that has it
        yield entry
    yield _note(str(source.key), "history", seq)


def _inheritance(meta: SessionMeta, kind: Inherited, summary: Summary | None) -> list[AnyEntry]:
    """What was said of the session; what the agent keeps in mind, before the summary, which freezes it."""
    entries: list[AnyEntry] = [Note(kind=METADATA, data=meta.metadata)] if meta.metadata else []
    entries += [WorkingMemory(op="set", key=key, value=value) for key, value in meta.working_memory.items()]
    entries += [Note(kind=FACT, text=fact, data={"pinned": True}) for fact in meta.facts]
    if summary is not None:
        entries.append(_compaction(meta, summary))
    return [*entries, _note(meta.key, kind, meta.seq)]


def _compaction(meta: SessionMeta, summary: Summary) -> Compaction:
    """The summary as the new log has it. What it covers is in another log, and so is named in `meta` only."""
    told: dict[str, object] = {"continued_from": meta.key}
    if any(summary.covers):
        told["covers"] = list(summary.covers)
    if summary.stood_in:
        told["stood_in"] = summary.stood_in
    entry = Compaction(
        summary=summary.text,
        by=summary.by,
        tokens_before=summary.replaced,
        working_memory=meta.working_memory,
        meta=told,
    )
    return msgspec.structs.replace(entry, tokens_after=count_entry(entry))


def _note(parent: str, kind: Inherited, seq: int) -> Note:
    return Note(kind=CONTINUE, data={"parent": parent, "inherit": kind, "seq": seq})


def _own(memory: Stratalog, key: str | SessionKey) -> SessionKey:
    parsed = parse_key(key, memory.tenant)
    if parsed.tenant != memory.tenant:
        raise InvalidKey("a session is continued within its tenant", key=str(parsed), tenant=memory.tenant)
    return parsed


def _taken(key: SessionKey) -> SessionExists:
    return SessionExists("there is a session already", key=str(key), hint="choose another key")


_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def _duration(seconds: float) -> str:
    """Whole units of time, such as `2 days` or `1 hour 5 minutes`, rounded down."""
    left, parts = int(seconds), []
    for name, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {name}{'' if count == 1 else 's'}")
    return " ".join(parts[:2]) or "0 seconds"
