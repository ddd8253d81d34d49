"""Compacting the sessions that nobody uses: work in the background, by the same code as any compaction."""

from __future__ import annotations

import time

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
    idle: float = 600.0,
    messages: int = 100,
    policy: Policy | None = None,
    summarise: Summariser | None = None,
    by: str = "model",
) -> list[Compacted]:
    """Compacts the sessions of which nothing was said for `idle` seconds and of which a model would see
    more than `messages` messages, whatever their tokens; by default down to the last 20 messages, without
    a model. Their place in the list stays. Busy ones are left alone; what fails is told as a problem.

    Not to be called in an event loop.
    """
    policy = policy or preset("fixed-80k", DEFAULT_WINDOW)
    before = (time.time() - idle) * 1000
    done: list[Compacted] = []
    for meta in memory.sessions().sessions:
        if meta.messages <= messages or meta.updated_at > before:
            continue
        session = memory.session(parse_key(meta.key))
        try:
            if is_large(session, messages):
                made = compact_now(session, policy=policy, summarise=summarise, by=by, force=True)
                done += [made] if isinstance(made, Compacted) else []
        except (SessionBusy, NotFound):
            continue
        except (LogError, CompactionStuck) as error:
            memory.note(Problem(f"not compacted: {error}", key=meta.key))
    return done
