"""What `stratalog purge` does: looks, asks, destroys, and shows the receipt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from rich.text import Text

from stratalog import Stratalog
from stratalog.engine.purging import PurgeReceipt, purge, resume_purges
from stratalog.engine.remembering import ADMIN, PRODUCTION, Caller, Records, Selector
from stratalog.errors import InvalidInput
from stratalog.surfaces.cli.confirming import asks, confirmed
from stratalog.surfaces.cli.failures import OK, WRONG
from stratalog.surfaces.cli.output import Output, plain_table
from stratalog.surfaces.cli.plain import counted
from stratalog.surfaces.cli.record_inputs import session_named
from stratalog.surfaces.cli.record_views import whole
from stratalog.surfaces.cli.state import State
from stratalog.surfaces.cli.times import minute


def destroy(state: State, kind: str, id: str, environment: str, *, dry_run: bool, yes: bool) -> int:
    """Purges what this kind of `Selector` names, in this environment ("": production), after a yes; the exit
    code. Raises `InvalidInput` where there is nobody to ask."""
    with _opened(state) as (memory, records):
        who = _admin(records, environment)
        selector = Selector(cast(Any, kind), str(session_named(memory, id)) if kind == "session" else id)
        receipt = None
        if dry_run or not yes:
            receipt = purge(memory, records, who, selector, dry_run=True)
            _print(state.output, receipt)
        agreed = yes or (receipt is not None and not dry_run and _agreed(state.output, receipt))
        if agreed and not dry_run:
            receipt = purge(memory, records, who, selector)
            _print(state.output, receipt)
        elif not dry_run:
            state.output.tell("nothing was destroyed")
        state.finish({**whole(receipt), "purged": agreed and not dry_run})
        return OK if dry_run or agreed else WRONG


def finish(state: State) -> int:
    """Finishes the tenant's purge that was cut short, if there is one; the exit code."""
    with _opened(state) as (memory, records):
        receipts = resume_purges(memory, records)
        for receipt in receipts:
            _print(state.output, receipt)
        if not receipts:
            state.output.tell("no purge was cut short")
        state.finish({"receipts": whole(receipts)})
        return OK


@contextmanager
def _opened(state: State) -> Iterator[tuple[Stratalog, Records]]:
    with state.memory() as memory, Records(memory) as records:
        yield memory, records


def _admin(records: Records, environment: str) -> Caller:
    """Whoever has the data directory."""
    return records.caller(environment=environment or PRODUCTION, roles=(ADMIN,))


def _agreed(out: Output, receipt: PurgeReceipt) -> bool:
    if not asks(out):
        raise InvalidInput("purging needs a yes", hint="there is no terminal to ask on: use --yes")
    return confirmed(out, f"Destroy all this of the {out.line(_selected(receipt))} for good?")


def _selected(receipt: PurgeReceipt) -> str:
    kind, id = receipt.selector.kind, receipt.selector.id
    return f"{kind} {id or (receipt.tenant if kind == 'tenant' else receipt.environment)}"


def _print(out: Output, receipt: PurgeReceipt) -> None:
    """How much there was of each thing in each store, and is left."""
    doing = "would destroy" if receipt.dry_run else "destroyed"
    when = f"  {minute(receipt.at)}" + (", cut short then and finished now" if receipt.resumed else "")
    out.print(Text.assemble((f"{doing} ", "bold"), out.line(_selected(receipt)), (when, "dim")))
    where = f"tenant {receipt.tenant}, environment {receipt.environment}"
    out.print(Text(out.line(where), "dim"))
    table = plain_table("store", "what")
    table.add_column("before", justify="right")
    if not receipt.dry_run:
        table.add_column("after", justify="right")
    for store in receipt.stores:
        for name, number in store.before.items():
            left = () if receipt.dry_run else (f"{store.after.get(name, 0):,}",)
            if number or any(each != "0" for each in left):
                table.add_row(out.line(store.store), name, f"{number:,}", *left)
    if table.row_count:
        out.table(table)
    else:
        out.print(Text("nothing is there", "dim"))
    told = (
        (receipt.kept, "line", "that a person edited may still say it"),
        (receipt.shared, "session", "of others too was left"),
        (receipt.forks, "session", "that began with its history was left"),
        (receipt.unread, "session", "or file cannot be read, so that it is not known whose it is"),
    )
    for names, noun, what in told:
        if names:
            out.warn(f"{counted(len(names), noun)} {what}: {', '.join(map(out.line, names))}")
    for line in receipt.unsupported:
        out.warn(line)
