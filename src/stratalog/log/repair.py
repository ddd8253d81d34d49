"""Checking a log against its promises, and moving what is damaged out of its way.

Repair only ever moves: damaged bytes go into the session's quarantine with a note of where they were and why,
and in the log a `Note` of kind `damage` takes each lost entry's number, so that the numbers have no gap and
the log itself says what happened. Whole lines are copied byte for byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from stratalog import osfiles
from stratalog.errors import DamagedLog, ForeignFile, LogBusy, StratalogError
from stratalog.ids import new_ulid, now_ms
from stratalog.keys import SessionKey, SessionPaths
from stratalog.log import archive, codec
from stratalog.log.contract import Problem, Verification
from stratalog.log.fences import first_fence
from stratalog.log.segment import Line, entry_in, header_of, lines, lines_of
from stratalog.types import AnyEntry, Blob, Note


class _Source(msgspec.Struct):
    """One segment as verify reads it."""

    path: Path
    header: codec.Header | None
    lines: Iterator[Line]
    active: bool


def quarantine(paths: SessionPaths, data: bytes, problem: Problem) -> Path:
    """Keeps `data` in the session's quarantine, with the problem beside it as JSON; returns the file."""
    osfiles.make_dir(paths.quarantine)
    target = paths.quarantine / f"{new_ulid()}.bin"
    osfiles.replace_file(target, data)
    note = msgspec.structs.replace(problem, quarantine=str(target.name))
    osfiles.replace_file(target.with_suffix(".json"), msgspec.json.encode(note) + b"\n")
    return target


def last_of(piece: archive.Piece) -> tuple[int, int]:
    """The last seq in a sealed segment, and its generation. Raises `DamagedLog` when that cannot be read."""
    try:
        found = lines_of(archive.load(piece))
        header = codec.decode_header(found[0].data)
        last = next((entry for entry in map(_entry, reversed(found[1:])) if entry is not None), None)
    except (codec.BadLine, OSError, IndexError) as error:
        raise DamagedLog(
            f"the log is gone and the last segment of its archive cannot be read: {error}",
            path=str(piece.path),
            hint="run `stratalog doctor`",
        ) from error
    return (last.seq if last is not None else piece.base - 1), header.generation


def clear_leftovers(fd: int, header: codec.Header, body: int, end: int, paths: SessionPaths) -> None:
    """Removes what an unfinished seal left in the archive. What the log does not have goes to quarantine."""
    for piece in archive.pieces(paths.archive):
        if piece.segment < header.segment:
            continue
        try:
            data = archive.load(piece)
        except codec.BadLine:
            data = piece.path.read_bytes()
        if data[data.find(b"\n") + 1 :] not in os.pread(fd, end - body, body):
            problem = Problem(
                "a sealed segment is newer than the log", path=str(piece.path), length=len(data)
            )
            quarantine(paths, data, problem)
        osfiles.remove(piece.path)
        osfiles.remove(archive.packed_path(piece.path))


def verify(key: SessionKey, paths: SessionPaths, lock_timeout: float) -> Verification:
    """Reads every segment and payload again. Nothing is changed."""
    problems: list[Problem] = []
    entries = segments = size = 0
    expected: int | None = None
    seen: set[str] = set()
    fd = -1
    try:
        fd = _locked(paths, lock_timeout)
        size = os.fstat(fd).st_size
        for source in _sources(fd, size, key, paths, problems):
            segments += 1
            if source.header is not None and expected is None:
                expected = source.header.base
            for line in source.lines:
                found = entry_in(line)
                if found.reason:
                    problems.append(
                        Problem(
                            found.reason,
                            path=str(source.path),
                            offset=line.offset,
                            length=len(line.data) if found.entry is None else found.start - line.offset,
                            key=str(key),
                        )
                    )
                if found.entry is None:
                    continue
                entries += 1
                problems += _check(found.entry, expected, seen, source.path, line, paths, key)
                expected = found.entry.seq + 1
                seen.add(found.entry.id)
    except FileNotFoundError:
        problems.append(Problem("there is no log", path=str(paths.log), key=str(key)))
    except StratalogError as error:
        problems.append(Problem(str(error), path=str(paths.log), key=str(key)))
    except OSError as error:
        problems.append(Problem(f"cannot be read: {error.strerror}", path=str(paths.log), key=str(key)))
    finally:
        if fd >= 0:
            os.close(fd)
    kept = len(list(paths.quarantine.glob("*.bin"))) if paths.quarantine.is_dir() else 0
    return Verification(str(key), entries, segments, size, tuple(problems), kept)


def repair(key: SessionKey, paths: SessionPaths, lock_timeout: float) -> list[Problem]:
    """Moves the damage in every segment to quarantine. The caller holds the directory's lock."""
    moved: list[Problem] = []
    try:
        fd = _locked(paths, lock_timeout)
    except FileNotFoundError:
        return moved
    try:
        problems: list[Problem] = []
        size = os.fstat(fd).st_size
        last = 0
        for source in list(_sources(fd, size, key, paths, problems, repairing=True)):
            if source.header is None:
                continue
            last = max(last, source.header.base - 1)
            rebuilt, lost, last = _rebuild(source, last, paths, key)
            moved += lost
            if lost:
                data = codec.header_line(source.header) + b"".join(rebuilt)
                if source.path.suffix == ".zst":
                    data = archive.compress(data)
                osfiles.replace_file(source.path, data)
    except OSError as error:
        raise osfiles.failed(error, "repairing a log", paths.log) from error
    finally:
        os.close(fd)
    return moved


def _rebuild(
    source: _Source, last: int, paths: SessionPaths, key: SessionKey
) -> tuple[list[bytes], list[Problem], int]:
    """The segment's lines without its damage, what was moved to quarantine, and the last seq."""
    rebuilt: list[bytes] = []
    lost: list[Problem] = []
    waiting: list[Problem] = []

    def mark(count: int) -> None:
        nonlocal last
        for number in range(count):
            last += 1
            problem = waiting[min(number, len(waiting) - 1)] if waiting else Problem("entries are missing")
            note = Note(
                kind="damage",
                text=problem.reason,
                data={"quarantine": problem.quarantine, "offset": problem.offset, "length": problem.length},
            )
            rebuilt.append(codec.line_of(codec.encode(codec.stamp(note, last, now_ms()))[1]))
        waiting.clear()

    for line in source.lines:
        found = entry_in(line)
        if found.reason:
            damaged = line.data if found.entry is None else line.data[: found.start - line.offset]
            problem = Problem(
                found.reason, path=str(source.path), offset=line.offset, length=len(damaged), key=str(key)
            )
            where = quarantine(paths, damaged, problem)
            problem = msgspec.structs.replace(problem, quarantine=where.name)
            lost.append(problem)
            waiting.append(problem)
        if found.entry is not None:
            if found.entry.seq > last + 1:
                gap = found.entry.seq - last - 1
                if not waiting:
                    lost.append(Problem(f"{gap} entries are missing", path=str(source.path), key=str(key)))
                mark(gap)
            waiting.clear()
            rebuilt.append(line.data[found.start - line.offset :] + b"\n")
            last = found.entry.seq
    # A line at the very end that never had its newline was never acknowledged: it needs no mark.
    mark(len([problem for problem in waiting if not _unfinished(problem, source)]))
    return rebuilt, lost, last


def _unfinished(problem: Problem, source: _Source) -> bool:
    if not source.active:
        return False
    return problem.offset + problem.length == source.path.stat().st_size


def _sources(
    fd: int,
    size: int,
    key: SessionKey,
    paths: SessionPaths,
    problems: list[Problem],
    *,
    repairing: bool = False,
) -> Iterator[_Source]:
    """The segments, oldest first. Those without a readable header are problems."""
    if size == 0:
        problems.append(Problem("the log is empty, without a header", path=str(paths.log), key=str(key)))
        return
    try:
        header, body = header_of(fd, str(paths.log), str(key))
    except ForeignFile:
        # Lines of ours behind a damaged header can be saved; anything else is not ours to touch.
        if not any(entry_in(line).entry is not None for line in lines(fd, 0, size)):
            raise
        if not repairing:
            raise
        header, body = _rescued_header(fd, size, key, paths), 0
    before = None
    for piece in archive.pieces(paths.archive):
        if piece.segment >= header.segment:
            problems.append(
                Problem(
                    "left over from a seal that did not finish; the log has its entries",
                    path=str(piece.path),
                    key=str(key),
                )
            )
            continue
        try:
            found = lines_of(archive.load(piece))
            own = codec.decode_header(found[0].data)
            if own.key != str(key):
                raise codec.BadLine(f"it is a segment of another session, {own.key}")
        except (codec.BadLine, OSError, IndexError) as error:
            problems.append(
                Problem(f"a sealed segment cannot be read: {error}", path=str(piece.path), key=str(key))
            )
            continue
        if before is not None and piece.segment != before + 1:
            problems.append(
                Problem(f"segment {before + 1} is missing", path=str(paths.archive), key=str(key))
            )
        before = piece.segment
        yield _Source(piece.path, own, iter(found[1:]), False)
    if (before or 0) != header.segment - 1:
        problems.append(
            Problem(f"segment {header.segment - 1} is missing", path=str(paths.archive), key=str(key))
        )
    yield _Source(paths.log, header, lines(fd, body, size), True)


def _rescued_header(fd: int, size: int, key: SessionKey, paths: SessionPaths) -> codec.Header:
    """A header for a log whose own is damaged, from what its entries and its archive say."""
    first = next(entry for entry in map(_entry, lines(fd, 0, size)) if entry is not None)
    sealed = archive.pieces(paths.archive)
    generation, first_of_generation = 1, 1
    if sealed:
        header = codec.decode_header(lines_of(archive.load(sealed[-1]))[0].data)
        generation, first_of_generation = header.generation, header.first
    now = now_ms()
    return codec.Header(
        format=codec.FORMAT,
        key=str(key),
        segment=sealed[-1].segment + 1 if sealed else 1,
        generation=generation,
        base=first.seq,
        fence=first_fence(),
        created=now,
        first=first_of_generation,
    )


def _check(
    entry: AnyEntry,
    expected: int | None,
    seen: set[str],
    path: Path,
    line: Line,
    paths: SessionPaths,
    key: SessionKey,
) -> list[Problem]:
    """What is wrong with one whole entry in its place."""
    found: list[Problem] = []

    def say(reason: str) -> None:
        found.append(Problem(reason, path=str(path), offset=line.offset, length=len(line.data), key=str(key)))

    if expected is not None and entry.seq != expected:
        say(f"entry {expected} should be here, not entry {entry.seq}")
    if entry.id in seen:
        say(f"the id {entry.id} was used before")
    for blob in codec.blobs_of(entry):
        reason = _blob_problem(blob, paths)
        if reason:
            say(reason)
    return found


def _blob_problem(blob: Blob, paths: SessionPaths) -> str:
    path = paths.blobs / blob.sha256
    try:
        codec.check_blob(blob, path.read_bytes(), str(path))
    except (StratalogError, OSError) as error:
        return str(error)
    return ""


def _locked(paths: SessionPaths, seconds: float) -> int:
    fd = os.open(paths.log, os.O_RDWR | os.O_CLOEXEC)
    if not osfiles.wait_lock(fd, seconds):
        os.close(fd)
        raise LogBusy(f"another process keeps the log locked for over {seconds:g} s", path=str(paths.log))
    return fd


def _entry(line: Line) -> AnyEntry | None:
    return entry_in(line).entry
