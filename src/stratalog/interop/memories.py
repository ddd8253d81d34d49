"""Records of what another program remembered, as they were imported.

Apart from `ingest`, so that who brings in conversations alone does not load the records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stratalog.engine.core import Stratalog
from stratalog.engine.remembering import Draft, Layer, Records, Scope, Source, When
from stratalog.errors import Conflict, InvalidInput, InvalidKey
from stratalog.interop.contract import ImportedMemory
from stratalog.keys import SessionKey


def remember(memory: Stratalog, key: SessionKey, memories: Sequence[ImportedMemory]) -> dict[str, int]:
    """Makes a record of each memory of the session `key`, and tells how many had which outcome.

    A record is long-term, its origin is `import` and its source the entry it was read from. It is its user's,
    or else the agent's of `key`; it holds from when it was said. The same again is `merged` and changes
    nothing. One that cannot be kept (too long, a key of nothing, a slot that is full) is `refused`, as is one
    that was forgotten here; the others are kept all the same. Raises what opening the records raises, and
    `AccessDenied` where nobody may remember.
    """
    outcomes: Counter[str] = Counter()
    if not memories:
        return {}
    with Records(memory) as records:
        for one in memories:
            scope = Scope("user", one.user) if one.user else Scope("agent", key.agent)
            draft = Draft(
                layer=Layer.LONG,
                scope=scope,
                key=one.key,
                payload=one.payload,
                text=one.text,
                origin="import",
                sources=(Source(str(key), one.entry),),
                said_at=one.said_at,
                valid_from=When(one.said_at) if one.said_at else None,
            )
            try:
                who = records.caller(user=one.user, agent=key.agent)
                outcomes[records.service.remember(who, draft).outcome] += 1
            except (InvalidInput, InvalidKey, Conflict):
                outcomes["refused"] += 1
    return dict(outcomes)
