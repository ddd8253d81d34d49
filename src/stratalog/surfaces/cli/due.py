"""What `jobs run` does: all that is due in the background, once or until it is ended."""

from __future__ import annotations

import signal
from typing import Any

from stratalog.engine.background import Job
from stratalog.engine.upkeep import runner_of, upkeep
from stratalog.surfaces.cli.failures import OK, WRONG
from stratalog.surfaces.cli.record_views import whole
from stratalog.surfaces.cli.state import State

_ENDS = (signal.SIGINT, signal.SIGTERM)


def run_once(state: State) -> int:
    """Does what is due, of every tenant; 1 when some of it failed."""
    with state.memory() as memory, runner_of(memory) as runner:
        ran = runner.run_due()
    for job in ran:
        state.output.print(_line(state, job))
    if not ran:
        state.output.tell("nothing is due")
    state.finish({"jobs": whole(ran)})
    return WRONG if any(job.state in ("failed", "stopped") for job in ran) else OK


def run_on(state: State) -> int:
    """Does it every so often until Ctrl-C or SIGTERM."""
    # Blocked before the threads are made, which inherit it: so it is this one that waits for them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    try:
        with state.memory() as memory, upkeep(memory):
            state.output.tell("work goes on in the background of this command; Ctrl-C ends it")
            signal.sigwait(_ENDS)
            state.output.tell("ending, after the job that is running")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    state.finish({})
    return OK


def _line(state: State, job: Job) -> str:
    told: Any = job.error or ", ".join(
        f"{value} {name}" for name, value in job.result.items() if isinstance(value, int) and value
    )
    about = f" {job.key}" if job.key else ""
    return state.output.line(f"{job.kind}{about}: {job.state}{', ' + told if told else ''}")
