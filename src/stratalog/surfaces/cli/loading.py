"""What runs a model, keeps records or writes a page, loaded by the commands that do; others start fast."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from stratalog import SessionKey, Stratalog
from stratalog.config import Settings
from stratalog.engine.compaction import Policy
from stratalog.engine.core import Found
from stratalog.surfaces.cli.asking import Who
from stratalog.surfaces.cli.state import State
from stratalog.types import AnyEntry

if TYPE_CHECKING:
    from stratalog import Stratalog
    from stratalog.engine.knowing import Describe, Passage
    from stratalog.interop.contract import ImportedMemory
    from stratalog.surfaces.cli.choosing import Asked
    from stratalog.surfaces.cli.records import Desk


def converse(state: State, **wished: str | int | bool | None) -> int:
    """See `conversing.converse`; `wished` are the fields of its `Wished`."""
    from stratalog.surfaces.cli import conversing

    return conversing.converse(state, conversing.wished(**wished), edit_lines)


def policy_for(settings: Settings, *, window: int | None, preset_name: str | None) -> Policy:
    """See `choosing.policy_for`."""
    from stratalog.surfaces.cli import choosing

    return choosing.policy_for(settings, window=window, preset_name=preset_name)


def summariser_for(settings: Settings, spec: str | None) -> Asked:
    """See `choosing.summariser_for`."""
    from stratalog.surfaces.cli import choosing

    return choosing.summariser_for(settings, spec)


def desk(state: State, who: Who) -> AbstractContextManager[Desk]:
    """See `records.desk`."""
    from stratalog.surfaces.cli import records

    return records.desk(state, who)


def remember_imported(
    memory: Stratalog, key: SessionKey, memories: Sequence[ImportedMemory]
) -> Mapping[str, int]:
    """See `interop.memories.remember`."""
    from stratalog.interop.memories import remember

    return remember(memory, key, memories)


def drop_records(memory: Stratalog, key: SessionKey, environment: str) -> None:
    """See `Records.drop_session`."""
    from stratalog.engine.remembering import PRODUCTION, Records

    with Records(memory) as records:
        records.drop_session(key, environment or PRODUCTION)


def beside(
    state: State,
    memory: Stratalog,
    query: str,
    turns: Sequence[Found],
    *,
    limit: int,
    explain: bool,
    **which: bool,
) -> tuple[list[Found | dict[str, Any]], Callable[[int, int], None]]:
    """What `beside.searched` finds, what is no turn as JSON has it; and how one of these is printed, by its
    number and its place."""
    from stratalog.surfaces.cli import beside

    found = beside.searched(memory, query, turns, limit=limit, **which)
    values = [each if isinstance(each, Found) else beside.value_of(each) for each in found]

    def show(number: int, place: int) -> None:
        each = found[place]
        assert not isinstance(each, Found)
        beside.print_beside(state.output, number, each, explain)

    return values, show


def show_refused(state: State, data: Path, last: int) -> None:
    """Shows the last lines of `auditing.nobodys_audit`."""
    from stratalog.engine.auditing import nobodys_audit
    from stratalog.surfaces.cli.record_views import print_audit, whole

    lines = list(deque(nobodys_audit(data), maxlen=last))
    if not state.json:
        print_audit(state.output, lines)
    if not lines:
        state.output.tell("no unknown token was refused")
    state.finish({"lines": whole(lines)})


def destroy(state: State, kind: str, id: str, environment: str, *, dry_run: bool, yes: bool) -> int:
    """See `purges.destroy`."""
    from stratalog.surfaces.cli import purges

    return purges.destroy(state, kind, id, environment, dry_run=dry_run, yes=yes)


def finish(state: State) -> int:
    """See `purges.finish`."""
    from stratalog.surfaces.cli import purges

    return purges.finish(state)


def work(state: State, *, forever: bool) -> int:
    """See `due.run_once` and `due.run_on`."""
    from stratalog.surfaces.cli import due

    return due.run_on(state) if forever else due.run_once(state)


def measure(state: State, kind: Literal["locomo", "squad"], embedder: str) -> None:
    """See `evaluating.run`."""
    from stratalog.surfaces.cli import evaluating

    evaluating.run(state, kind, embedder)


def describing(memory: Stratalog, spec: str) -> AbstractContextManager[Describe]:
    """See `describing.described_by`."""
    from stratalog.surfaces.cli import describing

    return describing.described_by(memory, spec)


def passages(memory: Stratalog, query: str, most: int, **how: Any) -> list[Passage]:
    """See `recalling.passages_of`."""
    from stratalog.engine import recalling

    return recalling.passages_of(memory, query, most, **how)


def exported(
    format: str, key: SessionKey, title: str, entries: Iterable[AnyEntry], metadata: Mapping[str, Any]
) -> Iterator[bytes]:
    """See `export_formats.exported`."""
    from stratalog.interop import export_formats

    return export_formats.exported(format, key, title, entries, metadata)


def edit_lines() -> None:
    """Gives `input` the keys of a terminal and a history, where this Python has them."""
    try:
        import readline  # noqa: F401  # being imported is what it does
    except ImportError:  # built without it: then lines are read as the terminal gives them
        return
