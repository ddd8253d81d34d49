"""Whether anything of one tenant, user, session or environment reaches another: an adversarial suite.

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
    def test_nothing_leaks(case, tmp_path):
        case(Lab(lambda tenant, lane: MyStore(tmp_path / dir_name(tenant))))

Each case fills a service over your stores with callers of hostile names, each of whom has a secret of its own
in every scope: a word that stands nowhere else (a *canary*), in the payload, the text and the key. Then
everybody tries every path on everybody's records, and a canary that its asker may not see is a leak, wherever
it turns up: in a result, an error, an audit, a file. That something exists must not show either: not in the
words of an answer, nor in the calls that a store gets (which are counted; no clock is read). A case raises
`AssertionError` with what leaked to whom.

Give `files_of`, the contents of a tenant's files, where there are any. Stores must begin empty, and give the
same data again for the same tenant.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from stratalog.errors import AccessDenied, InvalidKey, NotFound, StratalogError
from stratalog.ids import derived_ulid, new_ulid
from stratalog.memory import bundle
from stratalog.memory.audit import Audit, AuditLine, MemoryAudit
from stratalog.memory.caller import ADMIN, Caller, caller, scopes_of
from stratalog.memory.contract import (
    PRODUCTION,
    Capabilities,
    Change,
    Event,
    Found,
    Layer,
    Record,
    RecordPage,
    RecordStore,
    Scope,
    Source,
    Tombstone,
    Transaction,
    Where,
)
from stratalog.memory.lanes import NATIVE, Lanes
from stratalog.memory.policy import Draft
from stratalog.memory.service import MemoryService, Selector, StoreOf

# Names that a prefix, a pattern, a case folding, a path, a query or a look at them could take for another's.
HOSTILE: Final = (
    "a",
    "ab",
    "A",
    "a ",
    " a",
    "a%",
    "a_",
    "a_b",
    "a-b",
    "a.b",
    "*",
    "%",
    "\u0430",  # Cyrillic a
    "\uff41",  # full-width a
    "a\u200b",
    "a\u0301",
    "'; DROP TABLE records; --",
    '"',
    "con",
    "a" * 1024,
)
# Names that no caller may have.
ESCAPING: Final = ("", ".", "..", "../a", "a/b", "a\\b", "a:b", "a\x00", "a\n", "a%2Fb", "\ud800", "a" * 1025)

_WORD: Final = "everybodyhasthisword"
_CANARY: Final = re.compile(r"canary[0-9a-z]{26}")
_EVAL: Final = "eval:suite"
_EVAL_TENANT: Final = "eval-suite"  # a tenant that is for evaluations alone


class Secret(NamedTuple):
    """A record that only some may see: in whose environment and scope it is, its id and its canary."""

    tenant: str
    environment: str
    scope: Scope
    id: str
    canary: str
    entry: str
    key: str


class Call(NamedTuple):
    """A call that a store got."""

    tenant: str
    name: str


class Lab:
    """A service over the stores under test. `calls` are those that the stores got, `lines` those that the
    audit got, each with its tenant."""

    def __init__(
        self,
        store_of: StoreOf,
        *,
        audit: Audit | None = None,
        files_of: Callable[[str], Iterable[bytes]] = lambda tenant: (),
    ) -> None:
        self.calls: list[Call] = []
        self.lines: list[tuple[str, AuditLine]] = []
        self.audit = audit or MemoryAudit()
        self.files_of = files_of
        self._store_of = store_of
        self.service = MemoryService(
            self._watched,
            self,
            Lanes({NATIVE: Capabilities(name=NATIVE)}),
            evaluation=lambda tenant: tenant == _EVAL_TENANT,
        )

    def _watched(self, tenant: str, lane: str) -> RecordStore:
        return _Watched(self._store_of(tenant, lane), tenant, self.calls)

    def write(self, tenant: str, line: AuditLine) -> None:
        """Passes a line on to the audit."""
        self.lines.append((tenant, line))
        self.audit.write(tenant, line)

    def read(self, tenant: str) -> Iterator[AuditLine]:
        """The lines that the audit has."""
        return self.audit.read(tenant)

    def calls_of(self, act: Callable[..., Any], *given: Any, **named: Any) -> list[Call]:
        """The calls that stores get meanwhile, whether it ends well or not."""
        before = len(self.calls)
        _attempt(act, *given, **named)
        return self.calls[before:]


class _Watched:
    """A store that counts what it is asked."""

    def __init__(self, store: RecordStore, tenant: str, calls: list[Call]) -> None:
        self._store = store
        self._tenant = tenant
        self._calls = calls

    def _note(self, name: str) -> None:
        self._calls.append(Call(self._tenant, name))

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    def writing(self) -> AbstractContextManager[Transaction]:
        return self._writing()

    @contextmanager
    def _writing(self) -> Iterator[Transaction]:
        self._note("writing")
        with self._store.writing() as transaction:
            yield _WatchedTransaction(transaction, self._note)

    def find(self, where: Where, *, limit: int = 100, after: str = "") -> RecordPage:
        self._note("find")
        return self._store.find(where, limit=limit, after=after)

    def search(self, where: Where, query: str, *, limit: int = 10) -> tuple[Found, ...]:
        self._note("search")
        return self._store.search(where, query, limit=limit)

    def history(self, where: Where, *, limit: int = 100, after: int = 0) -> tuple[Event, ...]:
        self._note("history")
        return self._store.history(where, limit=limit, after=after)

    def purge(self, where: Where, *, dry_run: bool = False) -> dict[str, int]:
        self._note("purge")
        return self._store.purge(where, dry_run=dry_run)

    def close(self) -> None:
        self._store.close()


class _WatchedTransaction:
    def __init__(self, transaction: Transaction, note: Callable[[str], None]) -> None:
        self._transaction = transaction
        self._note = note

    def find(self, where: Where) -> tuple[Record, ...]:
        self._note("transaction.find")
        return self._transaction.find(where)

    def tombstones(self, environment: str, scope: Scope, key: str) -> tuple[Tombstone, ...]:
        self._note("transaction.tombstones")
        return self._transaction.tombstones(environment, scope, key)

    def done(self, idempotency: str) -> str | None:
        self._note("transaction.done")
        return self._transaction.done(idempotency)

    def write(self, change: Change, *, idempotency: str = "", result: str = "") -> None:
        self._note("transaction.write")
        self._transaction.write(change, idempotency=idempotency, result=result)


# --- the world ---


class World(NamedTuple):
    """Who there is, and what each of them has."""

    callers: list[Caller]
    secrets: list[Secret]

    def others(self, who: Caller, most: int = 12) -> list[Secret]:
        """Secrets that are not the caller's, near ones first: its own tenant's, then some of each other."""
        foreign = [each for each in self.secrets if not _sees(who, each)]
        near = [each for each in foreign if each.tenant == who.tenant]
        far = [each for each in foreign if each.tenant != who.tenant]
        step = max(1, len(near) // most)
        return [*islice(near[::step], most), *far[:: max(1, len(far) // most)]]


def _sees(who: Caller, secret: Secret) -> bool:
    """Who may see what, said again in other words than the service's, so that one checks the other."""
    if (who.tenant, who.environment) != (secret.tenant, secret.environment):
        return False
    if ADMIN in who.roles or secret.scope.kind == "tenant":
        return True
    return secret.scope.id != "" and getattr(who, secret.scope.kind) == secret.scope.id


def populated(lab: Lab) -> World:
    """A world of hostile names: as tenants, and within one tenant as users, agents, sessions and runs, in
    production and in an evaluation, each with a secret in every scope of its own."""
    callers = [caller(tenant, user="ana", agent="bot", session="bot:cli:1", run="r1") for tenant in HOSTILE]
    for name in HOSTILE[:8]:
        session = f"{name.strip()}:cli:{name}"
        callers.append(caller("a", user=name, agent=name.strip(), session=session, run=name))
    callers += [
        caller("a", user="ana", agent="bot", session="bot:cli:1", run="r1", environment=_EVAL),
        caller("a", user="ana", agent="bot", session="bot:cli:1:2", run="r1:2"),
        caller("a"),
        caller("ab", roles=[ADMIN]),
        caller("a", environment=_EVAL, roles=[ADMIN]),
    ]
    secrets = {}
    for who in callers:
        for scope in scopes_of(who).write:
            place = (who.tenant, who.environment, scope)
            if place not in secrets:
                secrets[place] = _plant(lab, who, scope)
    return World(callers, list(secrets.values()))


def _plant(lab: Lab, who: Caller, scope: Scope) -> Secret:
    canary = f"canary{new_ulid().lower()}"
    entry = new_ulid()
    draft = Draft(
        layer=Layer.LONG,
        scope=scope,
        key=f"secret {canary}",
        payload={"secret": canary},
        text=f"{_WORD} {canary}",
        origin="model",
        sources=(Source(who.session, entry),),
    )
    record = lab.service.remember(who, draft).record
    assert record is not None
    return Secret(who.tenant, who.environment, scope, record.id, canary, entry, record.key)


class _Answer(NamedTuple):
    """What a call gave: its result, or the kind and words of its error."""

    value: Any
    error: type[StratalogError] | None
    words: str


def _attempt(act: Callable[..., Any], *given: Any, **named: Any) -> _Answer:
    try:
        value = act(*given, **named)
        if isinstance(value, Iterator):
            return _Answer(value, None, b"".join(value).decode())
    except StratalogError as error:
        return _Answer(None, type(error), f"{error} {error.where}")
    return _Answer(value, None, msgspec.json.encode(value).decode())


def _no_leak(world: World, who: Caller, path: str, answer: _Answer, *, asked: str = "") -> set[str]:
    """The canaries in an answer, all of which the caller may see. What it `asked` may be said back to it."""
    seen = set(_CANARY.findall(answer.words))
    own = {each.canary for each in world.secrets if _sees(who, each)}
    leaked = seen - own - set(_CANARY.findall(asked))
    assert not leaked, f"{path} gave {_told(world, leaked)} to {who}"
    return seen & own


def _told(world: World, canaries: set[str]) -> list[Secret]:
    return [each for each in world.secrets if each.canary in canaries]


def _everything_is_there(lab: Lab, world: World) -> None:
    """Each secret is as its owner left it."""
    for who in world.callers:
        own = {
            each.canary for each in world.secrets if _sees(who, each) and each.scope in scopes_of(who).read
        }
        found = _no_leak(world, who, "list", _attempt(lab.service.list, who, limit=1_000))
        assert own <= found, f"{who} lost {_told(world, own - found)}"


# --- the cases ---


def names_that_escape_make_no_caller(lab: Lab) -> None:
    """A name that could be a path, a part of a key or nothing is refused where the caller is made."""
    for name in ESCAPING:
        _refused(InvalidKey, caller, name)
    for name in (".", "..", "../a", "a/b", "a\x00", "\ud800", "a" * 1025):
        for part in ("user", "agent", "run", "environment", "session"):
            _refused(InvalidKey, caller, "a", **{part: name})
    _refused(InvalidKey, caller, "a", session="ab/bot:cli:1")
    assert lab.calls == []


def hostile_names_are_different_names(lab: Lab) -> None:
    """Each hostile tenant has its own records, and finds all of its own."""
    _everything_is_there(lab, populated(lab))


def nothing_is_listed_that_is_not_the_callers(lab: Lab) -> None:
    """Lists, views, history and search give a caller all of its own and nothing else, by the page too."""
    world = populated(lab)
    service = lab.service
    for who in world.callers:
        for path, act in _reads(service, who).items():
            answer = _attempt(act)
            assert answer.error is None, f"{path} failed for {who}: {answer.words}"
            seen = _no_leak(world, who, path, answer)
            own = {
                each.canary
                for each in world.secrets
                if _sees(who, each) and each.scope in scopes_of(who).read
            }
            assert seen == own, f"{path} gave {who} not all of its own"


def _reads(service: MemoryService, who: Caller) -> dict[str, Callable[[], Any]]:
    return {
        "list": lambda: service.list(who, limit=1_000),
        "list of every status": lambda: service.list(
            who, statuses=("current", "superseded", "forgotten"), limit=1_000
        ),
        "list by single pages": lambda: _paged(lambda after: service.list(who, limit=1, after=after)),
        "current": lambda: service.current(who, limit=1_000),
        "as_of": lambda: service.as_of(who, 2**50, limit=1_000),
        "history": lambda: service.history(who, limit=1_000),
        "recall": lambda: service.recall(who, _WORD, limit=100),
        "export": lambda: service.export(who),
    }


def _paged(page: Callable[[str], RecordPage]) -> list[Record]:
    records: list[Record] = []
    after = ""
    while True:
        found = page(after)
        records += found.records
        after = found.next
        if not after:
            return records


def nothing_is_found_by_asking_for_it(lab: Lab) -> None:
    """Knowing another's words, key, id, entry or page gives what not knowing them gives."""
    world = populated(lab)
    service = lab.service
    for who in world.callers:
        if ADMIN in who.roles:
            continue
        for secret in world.others(who):
            for path, act in _asks(service, who, secret).items():
                answer = _attempt(act)
                assert answer.error is None, answer.words
                seen = _no_leak(world, who, path, answer)
                # Words are looked for one by one, so that a search may find the caller's own.
                assert path == "recall" or (not seen and answer.words in _NOTHING), f"{path}: {answer.words}"


_NOTHING: Final = ('{"records":[],"next":""}', '{"events":[],"next":0}')


def _asks(service: MemoryService, who: Caller, secret: Secret) -> dict[str, Callable[[], Any]]:
    return {
        "recall": lambda: service.recall(who, secret.canary, limit=100),
        "list by key": lambda: service.list(who, keys=(secret.key,)),
        "current by key": lambda: service.current(who, keys=(secret.key,)),
        "as_of by key": lambda: service.as_of(who, 2**50, keys=(secret.key,)),
        "history by id": lambda: service.history(who, id=secret.id),
        "history by key": lambda: service.history(who, keys=(secret.key,)),
    }


def anothers_id_is_like_no_id(lab: Lab) -> None:
    """Getting and forgetting what is another's ends as with an id that is not there: the same error, the same
    words, the same calls of the store."""
    world = populated(lab)
    service = lab.service
    for who in world.callers:
        for secret in world.others(who):
            absent = derived_ulid(1, secret.id)
            for act in (service.get, service.forget):
                theirs, none = (_attempt(act, who, id=id) for id in (secret.id, absent))
                assert theirs.error is NotFound, f"{act.__name__} told {who} of {secret}: {theirs.words}"
                assert theirs.error is none.error
                assert theirs.words.replace(secret.id, "ID") == none.words.replace(absent, "ID")
                calls = [lab.calls_of(act, who, id=id) for id in (secret.id, absent)]
                assert calls[0] == calls[1], f"{act.__name__} works otherwise for what is another's: {calls}"
    _everything_is_there(lab, world)


def naming_anothers_scope_is_refused_before_any_store(lab: Lab) -> None:
    """A scope that is not the caller's is `AccessDenied` on every path: one audit line, no store asked."""
    world = populated(lab)
    for who in world.callers:
        for secret in world.others(who):
            if secret.scope in scopes_of(who).read or ADMIN in who.roles:
                continue  # the name of a scope that it has too
            for path, act in _scoped(lab.service, who, secret.scope).items():
                lines = len(lab.lines)
                before = len(lab.calls)
                answer = _attempt(act)
                assert answer.error is AccessDenied, f"{path} let {who} at {secret}: {answer.words}"
                assert len(lab.calls) == before, f"{path} asked a store before it refused"
                (tenant, line), *more = lab.lines[lines:]
                assert not more, path
                assert (tenant, line.ending, line.user, line.session) == (
                    who.tenant,
                    "refused",
                    who.user,
                    who.session,
                )
                _no_leak(world, who, path, answer)
    _everything_is_there(lab, world)


def _scoped(service: MemoryService, who: Caller, scope: Scope) -> dict[str, Callable[[], Any]]:
    own = scopes_of(who).read
    draft = Draft(layer=Layer.LONG, scope=scope, key="x", payload="x")
    paths: dict[str, Callable[[], Any]] = {
        "remember": lambda: service.remember(who, draft),
        "recall": lambda: service.recall(who, _WORD, scopes=(scope,)),
        "recall among its own": lambda: service.recall(who, _WORD, scopes=(*own, scope)),
        "list": lambda: service.list(who, scopes=(scope,)),
        "current": lambda: service.current(who, scopes=(*own, scope)),
        "as_of": lambda: service.as_of(who, 1, scopes=(scope,)),
        "history": lambda: service.history(who, scopes=(scope,)),
        "export": lambda: service.export(who, scopes=(scope,)),
        "forget": lambda: service.forget(who, scope=scope, key="x"),
        "everyone": lambda: service.list(who, everyone=True),
        "recall of everyone": lambda: service.recall(who, _WORD, everyone=True),
        "history of everyone": lambda: service.history(who, everyone=True),
        "export of everyone": lambda: service.export(who, everyone=True),
        "purge of everyone": lambda: service.purge(who, Selector("environment")),
        "purge of the tenant": lambda: service.purge(who, Selector("tenant")),
    }
    if scope.id:
        paths["purge"] = lambda: service.purge(who, Selector(scope.kind, scope.id))
        paths["purge as a dry run"] = lambda: service.purge(who, Selector(scope.kind, scope.id), dry_run=True)
    return paths


def a_scope_that_is_missing_is_none(lab: Lab) -> None:
    """No scopes, a scope of nobody, something that is no scope, no caller: refused, and no store asked."""
    world = populated(lab)
    who = world.callers[0]
    before = len(lab.calls)
    nobody: Any
    for nobody in ((), (Scope("user"),), (Scope("tenant", "a"),), ("a",), (None,), ({"kind": "tenant"},)):
        _refused(AccessDenied, lab.service.recall, who, _WORD, scopes=nobody)
        _refused(AccessDenied, lab.service.list, who, scopes=nobody)
    for forged in (None, "a", {"tenant": "a"}, msgspec.structs.asdict(who)):
        _refused(AccessDenied, lab.service.list, forged)
    assert len(lab.calls) == before


def a_caller_cannot_be_made_another(lab: Lab) -> None:
    """A changed copy of a caller is checked again: no session of another tenant, nothing unnormalised."""
    who = populated(lab).callers[0]
    for change in (
        {"session": "ab/bot:cli:1"},
        {"tenant": "../a"},
        {"tenant": "a\u0301".encode().decode() + "/"},
        {"user": "../ana"},
        {"environment": ""},
        {"session": "bot:cli:1"},
        {"user": "e\u0301"},
    ):
        _refused(InvalidKey, msgspec.structs.replace, who, **change)


def an_idempotency_key_is_its_scopes_own(lab: Lab) -> None:
    """The same idempotency key in another scope is another key: nobody gets another's result by guessing."""
    world = populated(lab)
    canaries = []
    for who in world.callers:
        for scope in scopes_of(who).write[:1]:
            canary = f"canary{new_ulid().lower()}"
            draft = Draft(layer=Layer.MID, scope=scope, key="k", payload=canary)
            done = lab.service.remember(who, draft, idempotency="the same")
            place = (who.tenant, who.environment, scope)
            if place not in canaries:
                assert not done.again, f"{who} got the result of another"
            canaries.append(place)


def a_source_of_another_is_not_forgotten(lab: Lab) -> None:
    """Naming the entry that another's record came from leaves that record, also in the same tenant."""
    world = populated(lab)
    for who in world.callers:
        if ADMIN in who.roles:
            continue
        entries = [each.entry for each in world.others(who)]
        done = lab.service.forget_source(who, entries)
        assert (done.forgotten, done.repaired) == (0, 0), f"{who} forgot another's records"
    _everything_is_there(lab, world)


def a_bundle_stays_at_home(lab: Lab) -> None:
    """A bundle is refused by another tenant and environment, and brings nothing into another's scope."""
    world = populated(lab)
    owner = world.callers[0]
    lines = list(lab.service.export(owner))
    for who in world.callers:
        if (who.tenant, who.environment) != (owner.tenant, owner.environment):
            before = len(lab.calls)
            _refused(AccessDenied, lab.service.import_, who, lines)
            assert len(lab.calls) == before, "a store was asked before the bundle was refused"
        elif who.user not in (owner.user, ""):
            # Only what both may write is taken in; of the rest nothing.
            assert lab.service.import_(who, lines).denied >= 1
    _everything_is_there(lab, world)


def a_forged_bundle_takes_nothing_over(lab: Lab) -> None:
    """A bundle made by hand with another's ids, scopes or environment neither reads nor changes another's
    records, and does not tell that they are there."""
    world = populated(lab)
    for who in world.callers:
        if ADMIN in who.roles or not scopes_of(who).write:
            continue
        mine = scopes_of(who).write[0]
        for secret in world.others(who, most=4):
            answers = []
            for id in (secret.id, derived_ulid(1, secret.id)):
                forged = Record(
                    id=id,
                    environment=who.environment,
                    layer=Layer.LONG,
                    scope=mine,
                    key=f"taken {id[-10:]}",
                    payload="taken over",
                    text="taken over",
                    updated_at=2**50,
                )
                stolen = msgspec.structs.replace(forged, scope=secret.scope)
                abroad = msgspec.structs.replace(forged, environment=f"{secret.environment}x")
                grave = Tombstone(environment=who.environment, scope=secret.scope, key=secret.key, at=2**50)
                kept = [each for each in (stolen, abroad) if secret.scope not in scopes_of(who).write]
                lines = [
                    bundle.encoded(bundle.Head(tenant=who.tenant, environment=who.environment)),
                    *(bundle.encoded(bundle.Kept(record=each)) for each in (forged, *kept)),
                ]
                if kept:
                    lines.append(bundle.encoded(bundle.Gone(tombstone=grave)))
                before = len(lab.calls)
                report = lab.service.import_(who, lines)
                assert report.denied == len(lines) - 2, f"{who} wrote what is not its own: {report}"
                answers.append((report, lab.calls[before:], _attempt(lab.service.get, who, id).error))
                lab.service.forget(who, scope=mine, key=f"taken {id[-10:]}")
            assert answers[0] == answers[1], f"importing told {who} of {secret}: {answers}"
    _everything_is_there(lab, world)


def a_purge_reaches_its_own(lab: Lab) -> None:
    """Purging a user, and then a tenant, takes that and nothing of another, and counts only that."""
    world = populated(lab)
    service = lab.service
    gone: set[str] = set()
    for who in world.callers:
        if ADMIN in who.roles or not who.user:
            continue
        receipt = service.purge(who, Selector("user", who.user))
        mine = [
            each
            for each in world.secrets
            if (each.tenant, each.environment) == (who.tenant, who.environment)
            and each.scope == Scope("user", who.user)
            and each.canary not in gone
        ]
        assert receipt.stores[0].before["records"] == len(mine), f"the counts of {who} tell of others"
        gone |= {each.canary for each in mine}
    left = World(world.callers, [each for each in world.secrets if each.canary not in gone])
    _everything_is_there(lab, left)
    boss = caller("a", roles=[ADMIN])
    receipt = service.purge(boss, Selector("environment"))
    mine = [each for each in left.secrets if (each.tenant, each.environment) == ("a", PRODUCTION)]
    assert receipt.stores[0].before["records"] == len(mine)
    assert not any(receipt.stores[0].after.values()), receipt
    left = World(world.callers, [each for each in left.secrets if each not in mine])
    _everything_is_there(lab, left)
    service.purge(boss, Selector("tenant"))
    _everything_is_there(lab, World(world.callers, [each for each in left.secrets if each.tenant != "a"]))


def an_admin_stays_in_its_tenant(lab: Lab) -> None:
    """An admin sees all of its tenant's environment, and nothing of another tenant or environment."""
    world = populated(lab)
    service = lab.service
    for tenant, environment in (("a", PRODUCTION), ("a", _EVAL), ("ab", PRODUCTION), ("%", PRODUCTION)):
        boss = caller(tenant, environment=environment, roles=[ADMIN])
        own = {each.canary for each in world.secrets if _sees(boss, each)}
        listed = _attempt(service.list, boss, everyone=True, limit=1_000)
        exported = _attempt(service.export, boss, everyone=True)
        stepped = _attempt(service.history, boss, everyone=True, limit=1_000)
        recalled = _attempt(service.recall, boss, _WORD, everyone=True, limit=100)
        for path, answer in (("list", listed), ("export", exported), ("history", stepped)):
            assert _no_leak(world, boss, path, answer) == own
        assert _no_leak(world, boss, "recall", recalled) <= own
        for secret in world.others(boss):
            answer = _attempt(service.get, boss, secret.id)
            assert answer.error is NotFound
            if secret.tenant != tenant and secret.scope.kind == "session":
                before = len(lab.calls)
                for path, act in _scoped(service, boss, secret.scope).items():
                    if "everyone" not in path and "tenant" not in path:
                        assert _attempt(act).error is AccessDenied, path
                assert len(lab.calls) == before
    _everything_is_there(lab, world)


def an_evaluation_is_apart(lab: Lab) -> None:
    """Nothing of production is read or written from an evaluation, nor the reverse, by the same person."""
    world = populated(lab)
    for here, there in ((PRODUCTION, _EVAL), (_EVAL, PRODUCTION)):
        who = caller("a", user="ana", agent="bot", session="bot:cli:1", run="r1", environment=here)
        for path, act in _reads(lab.service, who).items():
            seen = _no_leak(world, who, path, _attempt(act))
            assert all(each.environment == here for each in _told(world, seen))
        for secret in world.secrets:
            if secret.tenant == "a" and secret.environment == there:
                lab.service.forget(who, scope=Scope("user", "ana"), key=secret.key)
                assert _attempt(lab.service.forget, who, id=secret.id).error is NotFound
    _everything_is_there(lab, world)


def a_tenant_for_evaluations_has_nothing_of_production(lab: Lab) -> None:
    """Nobody in production uses such a tenant, whatever its roles: every path is refused before any store is
    asked. In another environment it is like any tenant."""
    mine = Scope("user", "ana")
    draft = Draft(layer=Layer.LONG, scope=mine, key="x", payload=_WORD)
    inside = caller(_EVAL_TENANT, user="ana", environment=_EVAL)
    assert _attempt(lab.service.remember, inside, draft).error is None
    assert len(lab.service.recall(inside, _WORD).found) == 1
    for roles in ((), (ADMIN,)):
        who = caller(_EVAL_TENANT, user="ana", roles=roles)
        for path, act in (_reads(lab.service, who) | _scoped(lab.service, who, mine)).items():
            before, lines = len(lab.calls), len(lab.lines)
            answer = _attempt(act)
            assert answer.error is AccessDenied, f"{path} let {who} at an evaluation's: {answer.words}"
            assert len(lab.calls) == before, f"{path} asked a store before it refused"
            assert [line.ending for _, line in lab.lines[lines:]] == ["refused"], path
    assert len(lab.service.list(inside).records) == 1


def others_change_no_answer(lab: Lab) -> None:
    """What a tenant gets, with its scores and counts, is the same whether others have records or not."""
    who = caller("quiet", user="ana", session="bot:cli:1")
    script = (
        Draft(layer=Layer.LONG, scope=Scope("user", "ana"), key="tea", payload=f"{_WORD} green"),
        Draft(layer=Layer.LONG, scope=Scope("user", "ana"), key="tea", payload=f"{_WORD} black"),
        Draft(layer=Layer.MID, scope=Scope("session", who.session), key="plan", payload="to drink tea"),
    )

    def told(tenant: str) -> str:
        me = msgspec.structs.replace(who, tenant=tenant, session=f"{tenant}/bot:cli:1")
        for draft in script:
            if draft.scope.kind == "session":
                draft = msgspec.structs.replace(draft, scope=Scope("session", me.session))
            lab.service.remember(me, draft)
        found = lab.service.recall(me, f"{_WORD} tea", limit=100)
        page = lab.service.list(me)
        steps = lab.service.history(me)
        receipt = lab.service.purge(me, Selector("user", "ana"))
        return repr(
            (
                sorted((each.record.text, each.score) for each in found.found),
                sorted((each.text, each.evidence, len(each.conflict_with)) for each in page.records),
                [(each.seq, each.action) for each in steps.events],
                receipt.stores,
            )
        )

    alone = told("quiet")
    populated(lab)
    assert told("quiet2") == alone


def an_audit_has_no_words(lab: Lab) -> None:
    """The audit of a tenant tells of its own callers, and has nothing of any payload, text, key or query."""
    world = populated(lab)
    for who in world.callers:
        for path, act in _reads(lab.service, who).items():
            _no_leak(world, who, path, _attempt(act))
        for secret in world.others(who, most=2):
            _attempt(lab.service.recall, who, secret.canary)
            _attempt(lab.service.get, who, secret.canary)
            _attempt(lab.service.forget, who, id=secret.canary, reason="because")
            _attempt(lab.service.list, who, keys=(secret.canary,))
    for tenant in {who.tenant for who in world.callers}:
        lines = list(lab.audit.read(tenant))
        assert lines, f"nothing of {tenant!a} was audited"
        for line in lines:
            words = msgspec.json.encode(line).decode()
            assert not _CANARY.search(words), words
            assert _WORD not in words, words
            assert not line.session or line.session.startswith(f"{tenant}/"), words


def files_are_apart(lab: Lab) -> None:
    """The files of a tenant have nothing of another's."""
    world = populated(lab)
    for tenant in {who.tenant for who in world.callers}:
        for data in lab.files_of(tenant):
            seen = set(_CANARY.findall(data.decode("latin-1")))
            foreign = [each for each in _told(world, seen) if each.tenant != tenant]
            assert not foreign, f"the files of {tenant!a} have {foreign}"


def threads_keep_callers_apart(lab: Lab) -> None:
    """Callers that write, read and forget at the same time, through one service, each see their own."""
    world = populated(lab)
    faults: list[BaseException] = []

    def work(who: Caller) -> None:
        try:
            for number in range(3):
                for path, act in _reads(lab.service, who).items():
                    _no_leak(world, who, path, _attempt(act))
                if scopes_of(who).write:
                    scope = scopes_of(who).write[0]
                    draft = Draft(layer=Layer.SHORT, scope=scope, key=f"turn {number}", payload=_WORD)
                    lab.service.remember(who, draft)
                    lab.service.forget(who, scope=scope, key=f"turn {number}")
        except (AssertionError, StratalogError) as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(who,)) for who in world.callers[::3]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[0]
    _everything_is_there(lab, world)


def _refused(error: type[StratalogError], act: Callable[..., Any], *given: Any, **named: Any) -> None:
    answer = _attempt(act, *given, **named)
    assert answer.error is not None, f"{error.__name__} should have been raised"
    assert issubclass(answer.error, error), f"{error.__name__} should have been raised: {answer.words}"


CASES: Final[tuple[Callable[[Lab], None], ...]] = (
    names_that_escape_make_no_caller,
    hostile_names_are_different_names,
    nothing_is_listed_that_is_not_the_callers,
    nothing_is_found_by_asking_for_it,
    anothers_id_is_like_no_id,
    naming_anothers_scope_is_refused_before_any_store,
    a_scope_that_is_missing_is_none,
    a_caller_cannot_be_made_another,
    an_idempotency_key_is_its_scopes_own,
    a_source_of_another_is_not_forgotten,
    a_bundle_stays_at_home,
    a_forged_bundle_takes_nothing_over,
    a_purge_reaches_its_own,
    an_admin_stays_in_its_tenant,
    an_evaluation_is_apart,
    a_tenant_for_evaluations_has_nothing_of_production,
    others_change_no_answer,
    an_audit_has_no_words,
    files_are_apart,
    threads_keep_callers_apart,
)
