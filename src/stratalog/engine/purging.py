"""Destroying all that a session, user, agent, run, environment or tenant has, in every store, with a receipt.

    receipt = purge(memory, records, records.caller(user="ana"), Selector("user", "ana"))

The service says whether the caller may, and which records are meant; the sessions are chosen by what their
metadata says of them. What is to be destroyed is noted on the disk first (`purge.json`), each part destroys
its own in a way that can be done again, and the note goes last, after the line in the audit: a purge that was
killed is finished by the next one of the tenant, or by `resume_purges`. What the receipt says is left was
looked for again after it was done. docs/decisions/0013 says why it is so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stratalog import osfiles
from stratalog.engine.core import Stratalog
from stratalog.engine.purge_parts import LOCK, Part, parts_of
from stratalog.engine.purge_plan import Plan, merged, planned
from stratalog.engine.remembering import Records
from stratalog.errors import DamagedLog, InvalidInput, LogBusy, NewerFormat
from stratalog.ids import now_ms
from stratalog.keys import purge_note_path, tenant_path
from stratalog.memory.caller import Caller
from stratalog.memory.service import Purging, Selector, StoreCount
from stratalog.points import reach

VERSION: Final = 1
_WAIT_S: Final = 10.0


class PurgeReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a purge destroyed, or, as a `dry_run`, would have, in numbers before and after.

    `unsupported` is what a lane cannot promise. `kept` are lines of pages that a person edited and that may
    still say what they said, as `page: record`. `shared` are sessions of the user that are others' too, and
    `forks` those that began with the history of a purged one: neither was purged. Nor was what is `unread`:
    sessions, and places of files, of which it cannot be read whose they are. `resumed`: it was killed before,
    and finished now.
    """

    tenant: str
    environment: str
    selector: Selector
    dry_run: bool
    at: int
    stores: tuple[StoreCount, ...]
    unsupported: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    forks: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    resumed: bool = False


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """What is noted before anything is destroyed: who asked, what it means, and what there was."""

    version: int = VERSION
    at: int
    caller: Caller
    plan: Plan
    before: dict[str, dict[str, int]]


def purge(
    memory: Stratalog, records: Records, who: Caller, selector: Selector, *, dry_run: bool = False
) -> PurgeReceipt:
    """Destroys what the selector means, in the caller's environment; what there was, and what is left.

    Rights are those of `MemoryService.purge`: one's own user, session and run; anything else for an admin.
    Running turns of purged sessions lose them, in any process. Before it, a purge of the tenant that was
    killed is finished. With `dry_run` nothing is changed but for the line in the audit.

    Raises `AccessDenied`; `InvalidInput` for a session of another environment; `LogBusy` while another purge
    of the tenant runs or when somebody reads a file so long that its bytes stay; and what the stores raise.
    What it had come to is then destroyed, and the same call goes on.
    """
    if dry_run:
        with records.service.purging(who, selector, dry_run=True) as purging:
            plan = planned(memory, purging, who, selector)
            before = _looked(parts_of(memory, records, purging, who), plan)
            intent = Intent(at=now_ms(), caller=who, plan=plan, before=before)
            receipt = replace(_receipt(intent, before, purging), dry_run=True)
            purging.note(receipt.stores)
        return receipt
    with _alone(memory) as alone:
        if not alone:
            raise LogBusy(
                "another purge of this tenant runs", tenant=memory.tenant, hint="try again when it has ended"
            )
        with records.service.purging(who, selector) as purging:
            _resumed(memory, records)
            parts = parts_of(memory, records, purging, who)
            plan = planned(memory, purging, who, selector)
            intent = Intent(at=now_ms(), caller=who, plan=plan, before=_looked(parts, plan))
            _write_intent(memory, intent)
            reach("purging.intended")
            receipt = _done(memory, parts, purging, intent)
            purging.note(receipt.stores)
        reach("purging.told")
        _remove_intent(memory)
    return receipt


def resume_purges(memory: Stratalog, records: Records) -> list[PurgeReceipt]:
    """Finishes the tenant's purge that was killed, if there is one; its receipt. One that runs is left to who
    runs it. It is for who keeps the data directory: whether the one who asked may was looked at then."""
    if unfinished(memory) is None:
        return []
    with _alone(memory, wait=0) as alone:
        return _resumed(memory, records) if alone else []


def unfinished(memory: Stratalog) -> Intent | None:
    """The purge of the tenant that is under way, or was killed. Raises `DamagedLog` and `NewerFormat` for a
    note that cannot be read."""
    path = _intent_path(memory)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise osfiles.failed(error, "reading a purge's note", path) from error
    try:
        version = msgspec.json.decode(data, type=dict[str, Any]).get("version")
        if isinstance(version, int) and version > VERSION:
            raise NewerFormat(
                "a later version was killed as it purged", path=str(path), hint="finish it with that version"
            )
        return msgspec.json.decode(data, type=Intent)
    except (msgspec.MsgspecError, InvalidInput) as error:
        raise DamagedLog(
            "the note of an unfinished purge is damaged",
            path=str(path),
            hint="delete it, and purge once more what was meant",
        ) from error


def _resumed(memory: Stratalog, records: Records) -> list[PurgeReceipt]:
    intent = unfinished(memory)
    if intent is None:
        return []
    who, selector = intent.caller, intent.plan.selector
    with records.service.purging(who, selector) as purging:
        intent = replace(intent, plan=merged(intent.plan, planned(memory, purging, who, selector)))
        receipt = _done(memory, parts_of(memory, records, purging, who), purging, intent)
        purging.note(receipt.stores)
    reach("purging.told")
    _remove_intent(memory)
    return [replace(receipt, resumed=True)]


def _done(memory: Stratalog, parts: Sequence[Part], purging: Purging, intent: Intent) -> PurgeReceipt:
    for part in parts:
        part.destroy(intent.plan)
        reach(f"purging.{part.name}")
    left = planned(memory, purging, intent.caller, intent.plan.selector)
    return _receipt(intent, _looked(parts, merged(intent.plan, left)), purging)


def _receipt(intent: Intent, after: dict[str, dict[str, int]], purging: Purging) -> PurgeReceipt:
    plan = intent.plan
    return PurgeReceipt(
        tenant=intent.caller.tenant,
        environment=intent.caller.environment,
        selector=plan.selector,
        dry_run=False,
        at=intent.at,
        stores=tuple(
            [StoreCount(store=name, before=intent.before.get(name, {}), after=after[name]) for name in after]
        ),
        unsupported=(
            *[line for lane in sorted(purging.stores) for line in _unsupported(lane, purging)],
            *[f"{lane} is not open: what is there stays" for lane in plan.closed],
        ),
        kept=plan.kept,
        shared=plan.shared,
        forks=plan.forks,
        unread=plan.unread,
    )


def _unsupported(lane: str, purging: Purging) -> list[str]:
    can = purging.stores[lane].capabilities
    cannot = {
        "transactions": "what was on its way may still arrive",
        "history": "what it keeps of earlier words is not known",
    }
    told = [f"{lane} has no {name}: {what}" for name, what in cannot.items() if not getattr(can, name)]
    return [*told, f"{lane} is external: its files are its own"] if can.external else told


def _looked(parts: Iterable[Part], plan: Plan) -> dict[str, dict[str, int]]:
    return {part.name: part.look(plan) for part in parts}


# --- the note ---


def _intent_path(memory: Stratalog) -> Path:
    return purge_note_path(memory.data, memory.tenant)


def _write_intent(memory: Stratalog, intent: Intent) -> None:
    path = _intent_path(memory)
    try:
        osfiles.replace_file(path, msgspec.json.encode(intent))
    except OSError as error:
        raise osfiles.failed(error, "noting a purge", path) from error


def _remove_intent(memory: Stratalog) -> None:
    path = _intent_path(memory)
    try:
        for each in path.parent.glob(f"{path.name}*"):  # with what was never finished
            osfiles.remove(each)
        osfiles.sync_dir(path.parent)
    except OSError as error:
        raise osfiles.failed(error, "ending a purge", path) from error


@contextmanager
def _alone(memory: Stratalog, wait: float = _WAIT_S) -> Iterator[bool]:
    """The only purge of the tenant for as long as the block lasts; False when another took longer than `wait`
    seconds. The file by which it is known is there only meanwhile."""
    path = tenant_path(memory.data, memory.tenant) / LOCK
    try:
        fd = _locked(path, wait)
    except OSError as error:
        raise osfiles.failed(error, "beginning a purge", path) from error
    try:
        yield fd >= 0
    finally:
        if fd >= 0:
            osfiles.remove(path)
            os.close(fd)


def _locked(path: Path, wait: float) -> int:
    """The open file, locked and in its place; -1 when another has it."""
    while True:
        fd = osfiles.locked_file(path, wait)
        mine = False
        try:
            mine = fd >= 0 and _is_at(fd, path)
        finally:
            if fd >= 0 and not mine:
                os.close(fd)
        if mine or fd < 0:
            return fd


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False
