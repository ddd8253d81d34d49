"""Compacting the sessions that nobody uses: work in the background, by the same code as any compaction."""

from __future__ import annotations

import time

import msgspec

from stratalog.context.compact import Policy, preset
from stratalog.engine.compaction import Compacted, Summariser, compact_now, is_large
from stratalog.engine.core import Stratalog
from stratalog.errors import CompactionStuck, LogError, NotFound, SessionBusy
from stratalog.keys import parse_key
from stratalog.log.contract import Problem
from stratalog.tokens.windows import DEFAULT_WINDOW


def compact_idle(
    memory: Stratalog,
    *,
    idle: float | None = None,
    messages: int | None = None,
    policy: Policy | None = None,
    summarise: Summariser | None = None,
    by: str = "model",
) -> list[Compacted]:
    """Compacts the sessions of which nothing was said for `idle` seconds and of which a model would see
    more than `messages` messages, whatever their tokens; what is not said is as the settings of each
    session's agent say, by which the last 20 messages are kept. Their place in the list stays. Busy ones are
    left alone; what fails is told as a problem.

    Not to be called in an event loop.
    """
    now = time.time()
    done: list[Compacted] = []
    for meta in memory.sessions().sessions:
        session = memory.session(parse_key(meta.key))
        own = session.settings.idle
        most = own.messages if messages is None else messages
        if meta.messages <= most or now - meta.updated_at / 1000 < (own.after if idle is None else idle):
            continue
        keeping = policy or msgspec.structs.replace(
            preset("fixed-80k", DEFAULT_WINDOW), keep_messages=own.keep_messages
        )
        try:
            if is_large(session, most):
                made = compact_now(session, policy=keeping, summarise=summarise, by=by, force=True)
                done += [made] if isinstance(made, Compacted) else []
        except (SessionBusy, NotFound):
            continue
        except (LogError, CompactionStuck) as error:
            memory.note(Problem(f"not compacted: {error}", key=meta.key))
    return done
