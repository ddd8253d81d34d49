"""What is done at once with jobs that are served: asking for a kind of work, and doing one job now."""

from __future__ import annotations

from typing import Final

from stratalog.engine.background import LEASE_MS, Job, Jobs, perform
from stratalog.engine.core import Stratalog
from stratalog.engine.upkeep import works
from stratalog.errors import Conflict

CONSOLIDATE: Final = "consolidate"
_AGAIN: Final = ("failed", "stopped")


def wanted(jobs: Jobs, kind: str) -> Job:
    """The job that does this kind of work next, due now; one that failed or was stopped waits again."""
    job = jobs.put(kind, "")
    return jobs.retry(job.id) if job.state in _AGAIN else job


def run_now(memory: Stratalog, jobs: Jobs, id: str) -> Job:
    """Does the job of this id, one that failed or was stopped too, and waits for its end; how it ended.
    Of work with several passes one is done.

    Raises `NotFound`, and `Conflict` for a job that is done, is running, or whose kind nothing here does.
    """
    job = jobs.get(id)
    run = {work.name: work.run for work in works(memory)}.get(job.kind)
    if run is None:
        raise Conflict("nothing here does jobs of this kind", id=id, kind=job.kind)
    if job.state in _AGAIN:
        job = jobs.retry(id)
    mine = jobs.claim(id, lease_ms=LEASE_MS)
    if mine is None:
        raise Conflict(f"this job is {jobs.get(id).state}", id=id, hint="only one that waits is done now")
    return perform(jobs, mine, run)
