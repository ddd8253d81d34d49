"""Records, their history and what became of them, as a person reads them and as JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from rich.text import Text

from stratalog.engine.remembering import (
    AuditLine,
    Event,
    Found,
    Imported,
    Record,
    Remembered,
    Scope,
)
from stratalog.surfaces.cli.moments import told as written
from stratalog.surfaces.cli.output import Output, plain_table
from stratalog.surfaces.cli.plain import counted
from stratalog.surfaces.cli.times import minute

_WORDS_ROOM = 20  # cells that the words get before columns are given up for them
_CUT = 24  # cells of a key, and of a scope, in a table

_OUTCOMES = {"stored": "green", "merged": "green", "superseded": "green", "conflict": "yellow"}


def whole(value: Any) -> Any:
    """The value for JSON, with each field that it has, those of its defaults too."""
    match value:
        case msgspec.Struct():
            return {name: whole(each) for name, each in msgspec.structs.asdict(value).items()}
        case tuple() | list():
            return [whole(each) for each in value]
        case _:
            return value


# --- one record ---


def print_remembered(
    out: Output, done: Remembered, known: Callable[[Iterable[str]], Iterable[Record]]
) -> None:
    """What became of a draft, and the records that it has to do with: `known` gives them by their ids."""
    colour = _OUTCOMES.get(done.outcome, "red")
    out.print(Text.assemble((done.outcome, f"bold {colour}"), f": {out.line(done.reason)}"))
    if done.record is None:
        return
    out.print(Text(done.record.id, "cyan"), indent=3)
    replaced = done.record.supersedes if done.outcome == "superseded" else ()
    for heading, ids in (("in place of", replaced), ("contradicts", done.record.conflict_with)):
        shown = list(known(ids))
        for record in shown:
            line = f"{heading} {record.id} {out.glyphs.dot} {out.line(record.text)}"
            out.print(Text(out.clip(line, out.width - 3)), indent=3)
        if len(ids) > len(shown):
            out.print(f"{heading} {counted(len(ids) - len(shown), 'other')}", indent=3)


def print_record(out: Output, record: Record) -> None:
    """The record with all that is known of it."""
    out.print(Text(out.text(record.text), "bold"))
    facts = [
        ("id", record.id),
        ("key", record.key),
        ("scope", _scope(record.scope)),
        ("environment", record.environment),
        ("layer", record.layer.value),
        ("status", record.status),
        ("holds", validity(record) or "no dates"),
        ("confidence", f"{record.confidence:g}"),
        ("said", f"{counted(record.evidence, 'time')}, by {record.origin}"),
        ("written", minute(record.created_at)),
        ("changed", minute(record.updated_at)),
        ("expires", minute(record.expires_at) if record.expires_at else ""),
        ("payload", "" if record.payload == record.text else _json(record.payload)),
        ("in place of", " ".join(record.supersedes)),
        ("contradicts", " ".join(record.conflict_with)),
    ]
    for name, value in facts:
        if value:
            out.print(Text.assemble((f"{name:<12}", "dim"), out.line(value)))
    for source in record.sources:
        span = f", characters {source.start} to {source.stop}" if source.stop else ""
        out.print(
            Text.assemble((f"{'source':<12}", "dim"), out.line(f"{source.session}#{source.entry}{span}"))
        )


def validity(record: Record) -> str:
    """From when until when the record holds, in words; "" where neither is said."""
    begins = f"from {written(record.valid_from)}" if record.valid_from else ""
    ends = f"until {written(record.valid_to)}" if record.valid_to else ""
    return " ".join(filter(None, (begins, ends)))


def _scope(scope: Scope) -> str:
    return f"{scope.kind} {scope.id}".rstrip()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# --- several ---


def print_records(out: Output, records: Sequence[Record], *, statuses: bool) -> None:
    """A table of records. On a terminal the scope, the layer and the dates go before the words do; an id is
    never cut."""
    if not records:
        return
    columns: dict[str, list[str]] = {
        "id": [each.id for each in records],
        "layer": [each.layer.value for each in records],
        "scope": [out.clip(out.line(_scope(each.scope)), _CUT) for each in records],
        "key": [out.clip(out.line(each.key), _CUT) for each in records],
        "holds": [out.line(validity(each)) for each in records],
        "status": [_status(each, statuses) for each in records],
    }
    for name in ("holds", "status"):
        if not any(columns[name]):
            del columns[name]
    if out.tty:
        for given_up in ("scope", "layer", "holds", "key"):
            if _room(out, columns) < _WORDS_ROOM:
                columns.pop(given_up, None)
    room = max(8, _room(out, columns))
    table = plain_table()
    for name in columns:
        table.add_column(name, no_wrap=True, style="cyan" if name == "id" else None)
    table.add_column("text", no_wrap=True)
    for record, *cells in zip(records, *columns.values(), strict=True):
        table.add_row(*map(Text, cells), Text(out.clip(out.line(record.text), room)))
    out.table(table)


def _status(record: Record, statuses: bool) -> str:
    contradicted = "contradicted" if record.conflict_with and record.status == "current" else ""
    return ", ".join(filter(None, (record.status if statuses else "", contradicted)))


def _room(out: Output, columns: dict[str, list[str]]) -> int:
    """The cells that the columns leave for the words."""
    return out.width - sum(
        max(Text(cell).cell_len for cell in (name, *cells)) + 2 for name, cells in columns.items()
    )


def print_found(out: Output, found: Sequence[Found]) -> None:
    """What a search found, the best first."""
    dot = f" {out.glyphs.dot} "
    for number, each in enumerate(found, 1):
        record = each.record
        facts = (
            record.layer.value,
            out.line(_scope(record.scope)),
            out.line(record.key),
            out.line(validity(record)),
        )
        if number > 1:
            out.print()
        head = Text.assemble((f"{number}. ", "bold"), dot.join(filter(None, facts)))
        out.print(Text(out.clip(head.plain, out.width), "dim"))
        out.print(out.wrap(out.text(record.text), 3), indent=3)
        out.print(Text(record.id, "cyan"), indent=3)


def print_events(out: Output, events: Iterable[Event], *, words: bool = True) -> None:
    """The steps, a line each: when, what, who, and why; with the record's id and what it said after it."""
    for event in events:
        record = event.record
        line = Text.assemble((f"{minute(event.at)}  ", "dim"), (f"{event.action:<10}", "bold"))
        if words:
            line.append(f"{record.id}  {out.line(record.key)}: {out.line(record.text)}  ")
        line.append(" ".join(filter(None, (_actor(out, event.actor), out.line(event.reason)))), "dim")
        out.print(Text(out.clip(line.plain, out.width)) if out.tty and line.cell_len > out.width else line)


def _actor(out: Output, actor: str) -> str:
    """Who did it, in words; what is no actor of ours is shown as it stands."""
    try:
        told = msgspec.json.decode(actor, type=dict[str, str])
    except msgspec.MsgspecError:
        return out.line(f"by {actor}") if actor else ""
    return out.line("by " + ", ".join(f"{name} {id}" for name, id in told.items())) if told else ""


# --- what was done ---


def print_imported(out: Output, done: Imported) -> None:
    """How the records of a bundle ended, and only those ways that any did."""
    for name, number in msgspec.structs.asdict(done).items():
        if name != "complete" and number:
            out.print(f"{name:<12}{number:,}")


def print_audit(out: Output, lines: Iterable[AuditLine]) -> None:
    """The lines: when, who, what, how it ended, and in which counts."""
    for line in lines:
        who = [
            f"{name} {value}"
            for name in ("user", "agent", "session", "run", "token")
            if (value := getattr(line, name))
        ]
        counts = [f"{name} {number:,}" for name, number in line.counts.items()]
        asked = [f"{name} {mark}" for name, mark in line.asked.items()]
        parts = [
            " ".join((line.call, line.ending)),
            ", ".join((*who, *line.roles)) or "nobody named",
            line.environment,
            ", ".join((*counts, *asked)),
            line.reason,
        ]
        shown = f" {out.glyphs.dot} ".join(out.line(part) for part in parts if part)
        out.print(Text.assemble((f"{minute(line.at)}  ", "dim"), shown))
