"""`compact`: folding what is old in a session into a summary."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from stratalog.engine.compaction import DEFAULT_WINDOW, Compacted, Nothing, Plan, compact_now, planned, preset
from stratalog.engine.session import Session
from stratalog.surfaces.cli.failures import WRONG
from stratalog.surfaces.cli.keys import find
from stratalog.surfaces.cli.state import KeyArgument, State


def compact_command(
    state: State,
    key: KeyArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only say what would be done.")
    ] = False,
    window: Annotated[
        int, typer.Option("--window", metavar="TOKENS", min=1, help="The window of the model.")
    ] = DEFAULT_WINDOW,
    preset_name: Annotated[
        Literal["default", "fixed-80k"], typer.Option("--preset", help="When to begin, and what to keep.")
    ] = "default",
) -> None:
    """Fold what is old in a session into a summary. Nothing is lost: `show` still has all."""
    policy = preset(preset_name, window)
    with state.memory() as memory:
        session = find(memory, key)
        decided: Plan | Nothing | Compacted
        if dry_run:
            decided = planned(session, policy, force=True)
        else:
            decided = compact_now(session, policy=policy, force=True)
        value = _value(session, decided, policy.trigger_at)
        _tell(state, session, value, dry_run)
        state.finish(value)
    if isinstance(decided, Nothing) and decided.stuck:
        raise typer.Exit(WRONG)


def _value(session: Session, decided: Plan | Nothing | Compacted, trigger: int) -> dict[str, Any]:
    value: dict[str, Any] = {
        "key": str(session.key),
        "compacted": False,
        "tokens_before": 0,
        "tokens_after": 0,
        "trigger": trigger,
        "covers": [],
        "entries": 0,
        "first_kept": "",
        "kept": [],
        "by": "",
        "reason": "",
    }
    match decided:
        case Nothing():
            value |= {
                "tokens_before": decided.tokens,
                "tokens_after": decided.tokens,
                "reason": decided.reason,
            }
        case Plan():
            value |= {"tokens_before": decided.before, "tokens_after": decided.after}
            value |= {"covers": decided.covers, "entries": len(decided.covered)}
            value |= {"first_kept": decided.first_kept, "kept": decided.kept, "by": "extractive"}
        case Compacted(entry=entry):
            value |= {"compacted": True, "tokens_before": entry.tokens_before}
            value |= {"tokens_after": entry.tokens_after, "covers": entry.covers, "entries": decided.covered}
            value |= {"first_kept": entry.first_kept, "kept": entry.kept, "by": entry.by}
    return value


def _tell(state: State, session: Session, value: dict[str, Any], dry_run: bool) -> None:
    out = state.output
    before, after = value["tokens_before"], value["tokens_after"]
    if value["reason"]:
        out.tell(f"nothing to compact: {value['reason']} ({before:,} tokens, begins at {value['trigger']:,})")
        return
    first, last = value["covers"]
    if dry_run:
        out.print(f"would fold {value['entries']:,} entries into a summary by {value['by']}")
        out.print(f"{before:,} tokens now, at most {after:,} then; begins by itself at {value['trigger']:,}")
    else:
        out.print(f"folded {value['entries']:,} entries into a summary by {value['by']}")
        out.print(f"{before:,} tokens before, {after:,} after")
    out.print(f"from {first} to {last}")
    if value["kept"]:
        out.print(f"{len(value['kept']):,} entries before the last of these stay in view")
