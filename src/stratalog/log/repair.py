"""Checking a log against its promises, and moving what is damaged out of its way.

Repair only ever moves: damaged bytes go into the session's quarantine with a note of where they were and why,
and in the log a `Note` of kind `damage` takes each lost entry's number, so that the numbers have no gap and
the log itself says what happened. Whole lines are copied byte for byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import msgspec

from stratalog import osfiles
from stratalog.errors import DamagedLog, ForeignFile, LogBusy, StratalogError
from stratalog.ids import new_ulid, now_ms
from stratalog.keys import SessionKey, SessionPaths
from stratalog.log import archive, codec
from stratalog.log.contract import Problem, Verification
from stratalog.log.fences import first_fence
from stratalog.log.segment import TORN, Line, entries_of, found_in, header_of, lines, lines_of, settled
from stratalog.types import AnyEntry, Blob, Note


def release(fd: int) -> None:
    """Closes a file, and gives its lock back even where a forked child has the file open too."""
    with suppress(OSError):
        osfiles.unlock(fd)
    os.close(fd)


class _Source(msgspec.Struct):
    """One segment as verify reads it. `stop` is the seq after its last entry, where that is known.

    `reason` says why it cannot be read as it should be; then `data` is the file as it is, empty when it is
    missing, and `lines` what can be read all the same.
    """

    path: Path
    header: codec.Header
    lines: Iterator[Line]
    stop: int | None = None
    reason: str = ""
    data: bytes = b""


def quarantine(paths: SessionPaths, data: bytes, problem: Problem) -> Path:
    """Keeps `data` in the session's quarantine, with the problem beside it as JSON; returns the file."""
    osfiles.make_dir(paths.quarantine)
    target = paths.quarantine / f"{new_ulid()}.bin"
    osfiles.replace_file(target, data)
    note = msgspec.structs.replace(problem, quarantine=str(target.name))
    osfiles.replace_file(target.with_suffix(".json"), msgspec.json.encode(note) + b"\n")
    return target


def last_of(piece: archive.Piece) -> tuple[int, codec.Header]:
    """The last seq in a sealed segment, and its header. Raises `DamagedLog` when that cannot be read."""
    try:
        found = lines_of(archive.load(piece))
        header = codec.decode_header(found[0].data)
    except (codec.BadLine, OSError, IndexError) as error:
        raise DamagedLog(
            f"the log is gone and the last segment of its archive cannot be read: {error}",
            path=str(piece.path),
            hint="run `stratalog doctor`",
        ) from error
    last = next((got[-1] for got in map(entries_of, reversed(found[1:])) if got), None)
    return (last.seq if last is not None else piece.base - 1), header


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
    """Reads every segment and payload again. Nothing is changed.

    The log is locked only to see where it ends; what is appended meanwhile is not looked at.
    """
    problems: list[Problem] = []
    entries = segments = size = 0
    fd = -1
    try:
        fd, size = _locked(paths, lock_timeout)
        try:
            header, body = _header(fd, size, key, paths)
            end = settled(fd, body, size)
            problems += _leftovers(header, key, paths)
        finally:
            osfiles.unlock(fd)
        if end < size:
            problems.append(Problem(TORN, path=str(paths.log), offset=end, length=size - end, key=str(key)))
        expected, generation = 1, 0
        seen: set[str] = set()
        for source in _sources(fd, header, body, end, key, paths):
            segments += 1
            if source.reason:
                problems.append(Problem(source.reason, path=str(source.path), key=str(key)))
            if source.header.generation != generation:
                generation = source.header.generation
                seen.clear()
            for line in source.lines:
                for found in found_in(line):
                    if found.entry is None:
                        problems.append(
                            Problem(
                                found.reason,
                                path=str(source.path),
                                offset=found.start,
                                length=found.stop - found.start,
                                key=str(key),
                            )
                        )
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
    """Moves the damage in every segment to quarantine; returns what it moved or found missing."""
    while True:
        fd = -1
        try:
            fd, size = _locked(paths, lock_timeout)
            with osfiles.locked_dir(paths.log.parent, lock_timeout):
                if os.path.samestat(os.fstat(fd), os.stat(paths.log)):
                    return _repair(fd, size, key, paths)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise osfiles.failed(error, "repairing a log", paths.log) from error
        finally:
            if fd >= 0:
                release(fd)


def _repair(fd: int, size: int, key: SessionKey, paths: SessionPaths) -> list[Problem]:
    if size == 0:
        return []
    moved: list[Problem] = []
    try:
        header, body = _header(fd, size, key, paths)
        rescued = False
    except ForeignFile:
        header, body = _rescued_header(fd, size, key, paths), 0
        rescued = True
    end = settled(fd, body, size)
    if not rescued:
        clear_leftovers(fd, header, body, end, paths)
    last = 0
    for source in _sources(fd, header, body, end, key, paths):
        if source.path == paths.archive:  # a missing segment is made of notes
            source.header = msgspec.structs.replace(source.header, base=last + 1)
            source.path = archive.piece_path(paths.archive, source.header.segment, last + 1)
        rebuilt, lost, last = _rebuild(source, last, paths, key)
        if source.path == paths.log and end < size:
            torn = Problem(TORN, path=str(paths.log), offset=end, key=str(key))
            lost.append(_moved(torn, os.pread(fd, size - end, end), paths))
        moved += lost
        if lost:
            data = codec.header_line(source.header) + b"".join(rebuilt)
            if source.path.suffix == ".zst":
                data = archive.compress(data)
            osfiles.make_dir(source.path.parent)
            osfiles.replace_file(source.path, data)
    return moved


def _moved(problem: Problem, data: bytes, paths: SessionPaths) -> Problem:
    """The problem, after its bytes were put into quarantine."""
    problem = msgspec.structs.replace(problem, length=len(data))
    if not data:
        return problem
    return msgspec.structs.replace(problem, quarantine=quarantine(paths, data, problem).name)


def _rebuild(
    source: _Source, last: int, paths: SessionPaths, key: SessionKey
) -> tuple[list[bytes], list[Problem], int]:
    """The segment's lines without its damage, what was moved to quarantine, and the last seq."""
    rebuilt: list[bytes] = []
    lost: list[Problem] = []
    waiting: list[Problem] = []

    def move(reason: str, offset: int, data: bytes) -> None:
        problem = Problem(reason, path=str(source.path), offset=offset, key=str(key))
        lost.append(_moved(problem, data, paths))
        if data:
            waiting.append(lost[-1])

    def mark(count: int) -> None:
        """Notes in place of `count` entries that are lost."""
        nonlocal last
        if count > 0 and not lost:
            lost.append(Problem(f"{count} entries are missing", path=str(source.path), key=str(key)))
        for number in range(count):
            last += 1
            problem = waiting[min(number, len(waiting) - 1)] if waiting else lost[-1]
            note = Note(
                kind="damage",
                text=problem.reason,
                data={"quarantine": problem.quarantine, "offset": problem.offset, "length": problem.length},
            )
            rebuilt.append(codec.line_of(codec.encode(codec.stamp(note, last, now_ms()))[1]))
        waiting.clear()

    if source.reason:
        move(source.reason, 0, source.data)
    for line in source.lines:
        for found in found_in(line):
            data = line.data[found.start - line.offset : found.stop - line.offset]
            if found.entry is None:
                move(found.reason, found.start, data)
            elif found.entry.seq <= last:
                move(f"entry {found.entry.seq} is here again, or too late", found.start, data)
                waiting.pop()
            else:
                mark(found.entry.seq - last - 1)
                rebuilt.append(data + b"\n")
                last = found.entry.seq
    mark(len(waiting) if source.stop is None else source.stop - 1 - last)
    return rebuilt, lost, last


def _header(fd: int, size: int, key: SessionKey, paths: SessionPaths) -> tuple[codec.Header, int]:
    if size == 0:
        raise DamagedLog("the log is empty, without a header", hint="the next append makes it anew")
    return header_of(fd, str(paths.log), str(key))


def _sources(
    fd: int, header: codec.Header, body: int, end: int, key: SessionKey, paths: SessionPaths
) -> Iterator[_Source]:
    """The segments, oldest first; also those that are missing."""
    sealed = [piece for piece in archive.pieces(paths.archive) if piece.segment < header.segment]
    active = archive.Piece(header.segment, header.base, paths.log)
    first = archive.Piece(0, 1, paths.archive)
    for before, piece in pairwise([first, *sealed, active]):
        for number in range(before.segment + 1, piece.segment):
            own = msgspec.structs.replace(header, segment=number)
            yield _Source(paths.archive, own, iter(()), piece.base, f"segment {number} is missing")
        if piece is not active:
            after = next(other for other in [*sealed, active] if other.segment > piece.segment)
            stop = after.base if after.segment == piece.segment + 1 else None
            yield _sealed(piece, stop, header, key)
    yield _Source(paths.log, header, lines(fd, body, end))


def _sealed(piece: archive.Piece, stop: int | None, header: codec.Header, key: SessionKey) -> _Source:
    own = msgspec.structs.replace(header, segment=piece.segment, base=piece.base)
    rest: list[Line] = []
    try:
        found = lines_of(archive.load(piece))
        rest = found[1:]
        own = codec.decode_header(found[0].data if found else b"")
        if own.key != str(key):
            rest = []
            raise codec.BadLine(f"it is a segment of another session, {own.key}")
    except (codec.BadLine, OSError) as error:
        reason = f"a sealed segment cannot be read: {error}"
        if rest:
            reason = f"the header of a sealed segment is damaged: {error}"
            return _Source(piece.path, own, iter(rest), stop, reason, found[0].data)
        data = piece.path.read_bytes()
        own = msgspec.structs.replace(header, segment=piece.segment, base=piece.base)
        return _Source(piece.path, own, iter(()), stop, reason, data)
    return _Source(piece.path, own, iter(rest), stop)


def _leftovers(header: codec.Header, key: SessionKey, paths: SessionPaths) -> list[Problem]:
    """Segments that an unfinished seal left. The log's lock is held, so none is being made."""
    reason = "left over from a seal that did not finish; the next one removes it"
    return [
        Problem(reason, path=str(piece.path), key=str(key))
        for piece in archive.pieces(paths.archive)
        if piece.segment >= header.segment
    ]


def _rescued_header(fd: int, size: int, key: SessionKey, paths: SessionPaths) -> codec.Header:
    """A header for a log whose own is damaged, from what its entries and its archive say.

    Raises what `header_of` does where no line is of ours, or where the header is whole: another's log.
    """
    first = next((got[0] for got in map(entries_of, lines(fd, 0, size)) if got), None)
    try:
        codec.decode_header(next(lines(fd, 0, size)).data)
        first = None
    except codec.BadLine:
        pass
    if first is None:
        header_of(fd, str(paths.log), str(key))
    sealed = archive.pieces(paths.archive)
    segment, generation, start, base = 1, 1, 1, 1
    if sealed:
        last, own = last_of(sealed[-1])
        segment, generation, start, base = own.segment + 1, own.generation, own.first, last + 1
    return codec.Header(
        format=codec.FORMAT,
        key=str(key),
        segment=segment,
        generation=generation,
        base=base,
        fence=first_fence(),
        created=now_ms(),
        first=start,
    )


def _check(
    entry: AnyEntry,
    expected: int,
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

    if entry.seq != expected:
        say(f"entry {expected} should be here, not entry {entry.seq}")
    if entry.id in seen:
        say(f"the id {entry.id} was used before")
    for blob in codec.blobs_of(entry):
        reason = _blob_problem(blob, paths)
        if reason:
            say(reason)
    return found


def _blob_problem(blob: Blob, paths: SessionPaths) -> str:
    try:
        path = paths.blobs / codec.blob_name(blob)
        codec.check_blob(blob, path.read_bytes(), str(path))
    except (StratalogError, OSError) as error:
        return str(error)
    return ""


def _locked(paths: SessionPaths, seconds: float) -> tuple[int, int]:
    """The log open and locked, and its size."""
    while True:
        fd = os.open(paths.log, os.O_RDONLY | os.O_CLOEXEC)  # the kernel's lock asks for no more
        held = False
        try:
            if not osfiles.wait_lock(fd, seconds):
                raise LogBusy(
                    f"another process keeps the log locked for over {seconds:g} s", path=str(paths.log)
                )
            info = os.fstat(fd)
            held = os.path.samestat(info, os.stat(paths.log))  # it may have been replaced meanwhile
        finally:
            if not held:
                release(fd)
        if held:
            return fd, info.st_size
