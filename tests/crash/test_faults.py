"""Single system calls made to fail by strace: a typed error and the log as before, or success."""

from __future__ import annotations

import fcntl
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from crash.processes import PATIENCE, Say, child
from stratalog.errors import StorageFailed, StorageFull
from stratalog.ids import derived_ulid
from stratalog.keys import session_key, session_paths
from stratalog.log.contract import Verification
from stratalog.log.jsonl import JsonlStore
from stratalog.types import AnyEntry, TurnStart, User

pytestmark = pytest.mark.crash

KEY = session_key("agent", "channel", "chat")
CALLS = (
    *("write", "pwrite64", "fdatasync", "fsync", "rename", "openat", "ftruncate", "flock", "mkdir"),
    *("unlink", "rmdir", "fchmod"),
)
DONE, FULL, FAILED = 0, 10, 11
SEEN = "/the-child-that-waits-is-traced"


def _strace_works() -> str:
    """Why strace cannot be used here; empty if it can."""
    if shutil.which("strace") is None:
        return "strace is missing"
    tried = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else f"strace does not work here: {tried.stderr.decode()[:200]}"


NO_STRACE = _strace_works()
needs_strace = pytest.mark.skipif(bool(NO_STRACE), reason=NO_STRACE or "strace works")


def _store(root: Path) -> JsonlStore:
    # Without patience, so that the number of calls does not depend on the time.
    return JsonlStore(root, blob_threshold=2000, lock_timeout=0.0)


def _entry(number: int, size: int = 10) -> User:
    return User(content=f"{number} " + "x" * size, id=derived_ulid(number, "faults"), ts=number)


def _none(store: JsonlStore) -> None:
    pass


def _some(store: JsonlStore) -> None:
    store.append(KEY, [_entry(1), _entry(2), _entry(3, 3000)])
    store.append(KEY, [TurnStart(id=derived_ulid(4, "faults"), ts=4), _entry(5)])
    store.close()


def _sealed(store: JsonlStore) -> None:
    _some(store)
    store.seal(KEY, _entry(3).id)


def _append(store: JsonlStore) -> None:
    store.append(KEY, [_entry(20), _entry(21)])


def _append_blob(store: JsonlStore) -> None:
    store.append(KEY, [_entry(20, 3000), _entry(21)])


def _seal(store: JsonlStore) -> None:
    store.seal(KEY, _entry(2).id)


def _replace(store: JsonlStore) -> None:
    store.replace(KEY, [_entry(20), _entry(21)])


def _compress(store: JsonlStore) -> None:
    store.compress(KEY)


def _delete(store: JsonlStore) -> None:
    store.delete(KEY)


class Operation(NamedTuple):
    """What is done to which log; with `may_stay`, an error after the rename leaves the operation done.

    With `held`, somebody keeps the log locked meanwhile, so that it must be copied.
    """

    before: Callable[[JsonlStore], None]
    act: Callable[[JsonlStore], None]
    may_stay: bool = False
    held: bool = False


OPERATIONS = {
    "append": Operation(_some, _append),
    "append a payload": Operation(_some, _append_blob),
    "append beside a stopped writer": Operation(_some, _append, held=True),
    "create": Operation(_none, _append),
    "create with a payload": Operation(_none, _append_blob),
    "seal": Operation(_some, _seal, may_stay=True),
    "replace": Operation(_sealed, _replace, may_stay=True),
    "compress": Operation(_sealed, _compress, may_stay=True),
    "delete": Operation(_sealed, _delete, may_stay=True),
}


class State(NamedTuple):
    everything: list[AnyEntry]
    current: list[AnyEntry]


def _state(root: Path) -> State:
    store = _store(root)
    readings = [store.read(KEY, generations="all"), store.read(KEY)]
    entries = [
        [TurnStart(id=entry.id) if isinstance(entry, TurnStart) else entry for entry in reading]
        for reading in readings
    ]
    assert [reading.problems for reading in readings] == [[], []]
    return State(*entries)


def _run(root: Path, operation: Operation, *options: str, output: Path) -> int:
    """Runs the operation in a child that strace watches from its first call on; the child's exit code."""

    def work(say: Say) -> None:
        store = _store(root)
        say("ready")
        while not select.select([gate], [], [], 0.001)[0]:
            os.access(SEEN, os.F_OK)
        code = DONE
        try:
            operation.act(store)
        except StorageFull:
            code = FULL
        except StorageFailed:
            code = FAILED
        os._exit(code)

    output.unlink(missing_ok=True)
    gate, opener = os.pipe()
    held = os.open(session_paths(root, KEY).log, os.O_RDWR) if operation.held else os.dup(gate)
    if operation.held:
        fcntl.flock(held, fcntl.LOCK_EX)
    try:
        with child(work) as worker:
            assert worker.hear() == "ready"
            strace = subprocess.Popen(
                ["strace", "-f", "-qq", "-o", str(output), *options, "-p", str(worker.pid)],
                stderr=subprocess.PIPE,
            )
            try:
                _await_tracer(output, strace)
                os.write(opener, b"x")
                return worker.wait()
            finally:
                strace.terminate()
                strace.communicate(timeout=PATIENCE)
    finally:
        for fd in (gate, opener, held):
            os.close(fd)


def _await_tracer(output: Path, strace: subprocess.Popen[bytes]) -> None:
    """Waits until strace has seen a call of the child, so that it will see all that follow."""
    deadline = time.monotonic() + PATIENCE
    while not (output.exists() and SEEN in output.read_text()):
        assert strace.poll() is None, "strace ended"
        assert time.monotonic() < deadline, "strace did not attach"
        time.sleep(0.001)


def _trace(*calls: str) -> list[str]:
    return ["-e", f"trace={','.join([*calls, '?access', '?faccessat', '?faccessat2'])}"]


def _prepared(root: Path, operation: Operation) -> Path:
    store = _store(root)
    operation.before(store)
    store.close()
    root.mkdir(exist_ok=True)
    return root


def _counts(tmp_path: Path, operation: Operation) -> dict[str, int]:
    output = tmp_path / "counted"
    root = _prepared(tmp_path / "counting", operation)
    assert _run(root, operation, *_trace(*CALLS), output=output) == DONE
    lines = output.read_text().splitlines()
    counted = {call: sum(1 for line in lines if re.match(rf"\d+ +{call}\(", line)) for call in CALLS}
    assert sum(counted.values()) > 3, f"strace saw nothing of the operation: {lines}"
    return counted


def _unexpected(verified: Verification) -> list[str]:
    """Problems that the contract does not allow after a failed operation: all but an unfinished seal's."""
    return [p.reason for p in verified.problems if "seal that did not" not in p.reason]


@needs_strace
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_call_fails_once(name: str, error: str, tmp_path: Path) -> None:
    """Each call of each kind fails: a typed error and nothing changed, or success; later all works again."""
    operation = OPERATIONS[name]
    counted = _counts(tmp_path, operation)
    after = _state(tmp_path / "counting")
    pristine = _prepared(tmp_path / "pristine", operation)
    before = _state(pristine)
    for call, count in counted.items():
        for nth in range(1, count + 1):
            what = f"{name}: {call} {nth} of {count} {error}"
            root = tmp_path / f"{call}-{nth}"
            shutil.copytree(pristine, root)
            inject = f"inject={call}:error={error}:when={nth}"
            code = _run(root, operation, *_trace(call), "-e", inject, output=tmp_path / "out")
            assert "INJECTED" in (tmp_path / "out").read_text(), what
            assert code in (DONE, FULL, FAILED), f"{what}: exit code {code}"
            if code == FULL:
                assert error == "ENOSPC", what
            state = _state(root)
            if code == DONE:
                assert state == after, what
            else:
                assert state == before or (operation.may_stay and state == after), what
            store = _store(root)
            if state.everything:
                assert _unexpected(store.verify(KEY)) == [], what
            if state == before:
                operation.act(store)
                assert _state(root) == after, what
            (stored,) = store.append(KEY, [_entry(50)])
            assert list(store.read(KEY))[-1].id == stored.id, what
            store.sweep()
            assert list(store.unfinished_files()) == [], what
            assert _unexpected(store.verify(KEY)) == [], what
            store.close()
            shutil.rmtree(root)


@needs_strace
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("name", ["append", "append a payload", "create", "seal", "replace"])
def test_every_write_and_sync_fails_from_one_on(name: str, error: str, tmp_path: Path) -> None:
    """A disk that is full, or dead for writing, from some call on: a typed error, and the log as before."""
    operation = OPERATIONS[name]
    counted = _counts(tmp_path, operation)
    pristine = _prepared(tmp_path / "pristine", operation)
    before = _state(pristine)
    for call in ("write", "fdatasync", "fsync"):
        for nth in range(1, counted[call] + 1):
            what = f"{name}: {call} from {nth} of {counted[call]} on {error}"
            root = tmp_path / f"{call}-{nth}"
            shutil.copytree(pristine, root)
            inject = f"inject={call}:error={error}:when={nth}+"
            code = _run(root, operation, *_trace(call), "-e", inject, output=tmp_path / "out")
            assert code in (FULL, FAILED), f"{what}: exit code {code}"
            state = _state(root)
            if not (operation.may_stay and call == "fsync"):
                assert state == before, what
            store = _store(root)
            if state.everything:
                assert _unexpected(store.verify(KEY)) == [], what
            (stored,) = store.append(KEY, [_entry(50)])
            assert list(store.read(KEY))[-1].id == stored.id, what
            store.close()
            shutil.rmtree(root)


@needs_strace
@pytest.mark.parametrize("call", ["write", "fdatasync"])
def test_an_undo_that_fails_too(call: str, tmp_path: Path) -> None:
    """When the append and its undoing both fail, what is left is whole appends, and all goes on."""
    pristine = _prepared(tmp_path / "pristine", OPERATIONS["append"])
    before = _state(pristine).everything
    injects = ["-e", f"inject={call}:error=EIO:when=1", "-e", "inject=ftruncate:error=EIO"]
    traced = _trace(call, "ftruncate")
    code = _run(pristine, OPERATIONS["append"], *traced, *injects, output=tmp_path / "out")
    assert code == FAILED
    assert (tmp_path / "out").read_text().count("INJECTED") == 2
    store = _store(pristine)
    (stored,) = store.append(KEY, [_entry(50)])
    entries = _state(pristine).everything
    assert entries[: len(before)] == before
    assert [entry.id for entry in entries[len(before) :]] in (
        [stored.id],
        [_entry(20).id, _entry(21).id, stored.id],
    )
    assert store.verify(KEY).problems == ()
