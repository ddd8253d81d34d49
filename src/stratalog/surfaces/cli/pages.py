"""What the commands of `memory` do with pages: MEMORY.md of an agent, USER.md of a user."""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.engine.profiling import PageOf, Refreshed, page_files, refresh, render, shown
from stratalog.engine.remembering import Caller, Records, Scope
from stratalog.errors import InvalidInput
from stratalog.surfaces.cli.failures import OK, WRONG
from stratalog.surfaces.cli.plain import counted
from stratalog.surfaces.cli.record_views import whole
from stratalog.surfaces.cli.state import State


def bring_up_to_date(state: State, records: Records, who: Caller, *, force: bool, anew: bool) -> int:
    """The pages of who asks, or of everybody when nobody does."""
    most = 1.0 if force else records.settings.background.most_removed
    found: list[Refreshed] = []
    for only in pages_of(who) or (None,):
        done = refresh(
            records.store,
            records.data,
            records.tenant,
            only=only,
            anew=anew,
            most_removed=most,
            may_empty=force,
        )
        found += done.pages
    for each in found:
        state.output.print(_line(each))
    if not found:
        state.output.print("every page is up to date")
    refused = any(each.refused for each in found)
    if refused:
        state.output.tell("--force does it all the same; `memory undo` takes it back")
    state.finish({"pages": whole(found)})
    return WRONG if refused else OK


def show(state: State, records: Records, who: Caller, *, sources: bool) -> int:
    page = _one(who)
    files = page_files(records.data, records.tenant, page)
    profile = files.read()
    text = (render if sources else shown)(profile)
    if not text.strip():
        state.output.tell("nothing is written there yet")
    else:
        state.output.print(text.rstrip("\n"))
    state.finish({"page": page.name, "path": str(files.path), "text": text})
    return OK if text.strip() else WRONG


def undo(state: State, records: Records, who: Caller) -> int:
    page = _one(who)
    files = page_files(records.data, records.tenant, page)
    profile = files.undo()
    state.output.print(f"{page.name} is as it was before its last change; once more takes that back")
    state.finish({"page": page.name, "path": str(files.path), "text": shown(profile)})
    return OK


def pages_of(who: Caller) -> Sequence[PageOf]:
    """The pages of who asks."""
    scopes = [Scope("user", who.user)] if who.user else []
    scopes += [Scope("agent", who.agent)] if who.agent else []
    return [PageOf(scope, who.environment) for scope in scopes]


def _one(who: Caller) -> PageOf:
    pages = pages_of(who)
    if len(pages) != 1:
        raise InvalidInput("which page?", hint="--user for a USER.md, or --agent for a MEMORY.md")
    return pages[0]


def _line(done: Refreshed) -> str:
    whose = f"{done.page.name} of {done.page.scope.id}"
    if done.page.environment != "production":
        whose += f" in {done.page.environment}"
    if done.refused:
        return f"{whose} was left as it is: {done.refused}"
    told = [
        f"{counted(number, 'line')} {what}"
        for number, what in ((done.added, "more"), (done.changed, "changed"), (done.removed, "less"))
        if number
    ]
    told += [f"{done.left_out} found no room"] if done.left_out else []
    told += [f"{done.kept} forgotten ones were edited and stay"] if done.kept else []
    return f"{whose}: {', '.join(told)}"
