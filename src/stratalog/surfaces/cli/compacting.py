"""`compact`: folding what is old into a summary, in one session or in all that are large and idle."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import typer

from stratalog.engine.compaction import Compacted, Nothing, Plan, Policy, compact, planned
from stratalog.engine.idle import compact_idle
from stratalog.engine.session import Session
from stratalog.errors import InvalidInput
from stratalog.surfaces.cli.failures import WRONG
from stratalog.surfaces.cli.keys import complete, find
from stratalog.surfaces.cli.loading import policy_for, summariser_for
from stratalog.surfaces.cli.plain import counted
from stratalog.surfaces.cli.state import State


def compact_command(
    state: State,
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="KEY",
            autocompletion=complete,
            help="The session: its key, its chat, or how its chat or its title begins.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only say what would be done.")
    ] = False,
    window: Annotated[
        int | None,
        typer.Option(
            "--window",
            metavar="TOKENS",
            min=1,
            help="The window of the model. Else that of the settings' model, or 32768 where they name none.",
        ),
    ] = None,
    preset_name: Annotated[
        Literal["default", "fixed-80k"] | None,
        typer.Option("--preset", help="When to begin, and what to keep. Else the settings."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="SPEC",
            help="The model that writes the summary, as openai:gpt-5. Else the setting, or none.",
        ),
    ] = None,
    idle: Annotated[
        bool, typer.Option("--idle", metavar="", help="All sessions that are large and idle, and no KEY.")
    ] = False,
) -> None:
    """Fold what is old in a session into a summary. Nothing is lost: `show` still has all."""
    if idle:
        if key is not None or dry_run or window is not None or preset_name is not None:
            raise InvalidInput("--idle goes with --model alone", hint="the settings say the rest")
        _compact_idle(state, model)
    elif key is None:
        raise InvalidInput("which session?", hint="name one, or give --idle for all that are large and idle")
    else:
        _compact_one(state, key, dry_run=dry_run, window=window, preset_name=preset_name, model=model)


def _compact_one(
    state: State, key: str, *, dry_run: bool, window: int | None, preset_name: str | None, model: str | None
) -> None:
    with state.memory() as memory:
        session = find(memory, key)
        policy = policy_for(session.settings, window=window, preset_name=preset_name)
        decided: Plan | Nothing | Compacted
        if dry_run:
            decided, by = planned(session, policy, force=True), summariser_for(session.settings, model).by
        else:
            decided, by = _compacted(session, policy, model), ""
        value = _value(session, decided, policy.trigger_at, by)
        _tell(state, value, dry_run)
        state.finish(value)
    if isinstance(decided, Nothing) and decided.stuck:
        raise typer.Exit(WRONG)


def _compacted(session: Session, policy: Policy, model: str | None) -> Compacted | Nothing:
    asked = summariser_for(session.settings, model)
    return asyncio.run(
        compact(
            session,
            policy=policy,
            summarise=asked.summarise,
            by=asked.by,
            summariser_window=asked.window,
            force=True,
        )
    )


def _compact_idle(state: State, model: str | None) -> None:
    """Does what a program that runs all the time does by itself, once."""
    with state.memory() as memory:
        asked = summariser_for(memory.settings_of(), model)
        done = compact_idle(memory, summarise=asked.summarise, by=asked.by)
        before = sum(made.entry.tokens_before for made in done)
        after = sum(made.entry.tokens_after for made in done)
        state.output.print(f"compacted {counted(len(done), 'session')} that nobody used")
        if done:
            state.output.print(f"{before:,} tokens before, {after:,} after")
        for made in done:
            state.output.tell(made.key)
        state.finish(
            {
                "compacted": len(done),
                "keys": [made.key for made in done],
                "entries": sum(made.covered for made in done),
                "tokens_before": before,
                "tokens_after": after,
            }
        )


def _value(session: Session, decided: Plan | Nothing | Compacted, trigger: int, by: str) -> dict[str, Any]:
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
        "stood_in": "",
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
            value |= {"first_kept": decided.first_kept, "kept": decided.kept, "by": by}
        case Compacted(entry=entry):
            value |= {"compacted": True, "tokens_before": entry.tokens_before}
            value |= {"tokens_after": entry.tokens_after, "covers": entry.covers, "entries": decided.covered}
            value |= {"first_kept": entry.first_kept, "kept": entry.kept, "by": entry.by}
            value |= {"stood_in": decided.stood_in}
    return value


def _tell(state: State, value: dict[str, Any], dry_run: bool) -> None:
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
    if value["stood_in"]:
        out.warn(f"the model did not write it: {value['stood_in']}")
    if value["kept"]:
        out.print(f"{len(value['kept']):,} entries before the last of these stay in view")
