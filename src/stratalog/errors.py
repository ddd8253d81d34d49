"""Every error that Stratalog raises on purpose.

    StratalogError
    ├── InvalidInput            what was given cannot be used; nothing was done
    │   ├── InvalidKey              an id that cannot name a session
    │   ├── InvalidEntry            an entry that cannot be stored as it is
    │   ├── InvalidConfig           a configuration file or value
    │   ├── ImportFailed            a transcript that cannot be read
    │   ├── Ambiguous               a name that could be that of several sessions
    │   ├── WrongDimension          a vector of another length than its space's
    │   └── WorkingMemoryFull       more than an agent's dictionary, or its pinned facts, may have
    ├── NotFound                no such session, entry or turn
    ├── AccessDenied            this caller may not; no store was asked
    ├── LaneDenied              no place where this session's records may live
    ├── Conflict                somebody else's state stands in the way; nothing was written
    │   ├── SessionBusy             another turn holds the session
    │   ├── SessionExists           the target already has a history
    │   ├── StaleFence              the session was taken from this holder
    │   └── TurnClosed              the turn has ended
    ├── LogError                the log on disk
    │   ├── StorageFailed           the system refused a read or a write; the log is as it was
    │   │   └── StorageFull             no space left; works again once there is
    │   ├── LogBusy                 another process keeps the log locked
    │   ├── StoreBusy               another writes to the store of records for too long; nothing was written
    │   ├── ForeignFile             not a log of ours, or another session's: left untouched
    │   ├── NewerFormat             written by a later version: left untouched
    │   └── DamagedLog              what is asked for is damaged
    ├── ModelError              a language model
    │   ├── ModelUnavailable        not reached, or a passing fault after all retries
    │   ├── ModelRejected           the provider refused the request as it was
    │   │   └── ModelInputTooLong       because it was longer than the model's window
    │   └── ModelReplyUnusable      an empty or broken reply
    ├── SpendLimit              the tenant's budget for today is spent; no model was asked
    ├── ContextOverflow         a part of the context cannot fit
    └── CompactionStuck         compaction made no progress and will not be tried again by itself

Each says what happened, where (path, line, key, id …) and what to do. `where` holds the same facts as data.
"""

from __future__ import annotations


class StratalogError(Exception):
    """`what` happened, `where` as keyword facts, `hint` what to do about it."""

    def __init__(self, what: str, *, hint: str = "", **where: object) -> None:
        self.what = what
        self.hint = hint
        self.where = {name: value for name, value in where.items() if value not in (None, "")}
        super().__init__(what)

    def __str__(self) -> str:
        place = ", ".join(f"{name} {value}" for name, value in self.where.items())
        return self.what + (f" [{place}]" if place else "") + (f". {self.hint}" if self.hint else "")


def words_of(error: BaseException) -> str:
    """What an error says; of one that is not ours, of what kind it is too."""
    return str(error) if isinstance(error, StratalogError) else f"{type(error).__name__}: {error}"


class InvalidInput(StratalogError):
    pass


class InvalidKey(InvalidInput):
    pass


class InvalidEntry(InvalidInput):
    pass


class InvalidConfig(InvalidInput):
    pass


class NoModel(InvalidConfig):
    pass


class ImportFailed(InvalidInput):
    pass


class Ambiguous(InvalidInput):
    pass


class WorkingMemoryFull(InvalidInput):
    pass


class WrongDimension(InvalidInput):
    pass


class NotFound(StratalogError):
    pass


class AccessDenied(StratalogError):
    noted = False  # whether the audit has its line already


class LaneDenied(StratalogError):
    pass


class Conflict(StratalogError):
    pass


class SessionBusy(Conflict):
    pass


class SessionExists(Conflict):
    pass


class StaleFence(Conflict):
    pass


class TurnClosed(Conflict):
    pass


class LogError(StratalogError):
    pass


class StorageFailed(LogError):
    pass


class StorageFull(StorageFailed):
    pass


class LogBusy(LogError):
    pass


class StoreBusy(LogError):
    pass


class ForeignFile(LogError):
    pass


class NewerFormat(LogError):
    pass


class DamagedLog(LogError):
    pass


class ModelError(StratalogError):
    pass


class ModelUnavailable(ModelError):
    pass


class ModelRejected(ModelError):
    pass


class ModelInputTooLong(ModelRejected):
    pass


class ModelReplyUnusable(ModelError):
    pass


class SpendLimit(StratalogError):
    pass


class ContextOverflow(StratalogError):
    pass


class CompactionStuck(StratalogError):
    pass
