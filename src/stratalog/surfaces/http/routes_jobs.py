"""Work in the background: what is due, what failed and why, trying it again and doing it now."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import get, post
from litestar.params import PathParameter, QueryParameter

from stratalog.engine.background import Job, State
from stratalog.engine.serving_jobs import run_now
from stratalog.surfaces.http.asking import changing
from stratalog.surfaces.http.errors import problems
from stratalog.surfaces.http.fields import Cursor, Limit
from stratalog.surfaces.http.queries import strict
from stratalog.surfaces.http.service import FromDesk, needs

_PATH = "/v1/jobs"
_ONE = _PATH + "/{job:str}"
_TAGS = ("jobs",)
_GUARDS = (needs("admin"),)

JobId = Annotated[str, PathParameter(description="The id of a job.", max_length=64)]


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job: what of, `key` about what, whose. `next_at` is when it will be taken, of a running one the end
    of its lease, 0 where that will not happen by itself. `result` is what it came to, or its last pass."""

    id: str
    kind: str
    key: str
    session: str
    user: str
    environment: str
    args: dict[str, Any]
    state: State
    attempts: int
    created_at: int
    updated_at: int
    next_at: int
    error: str
    result: dict[str, Any]


class Spending(msgspec.Struct, frozen=True):
    """What models were asked in the background today (UTC), in calls and tokens."""

    calls: int
    tokens: int


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that are not done, then those that are, the newest first; `cursor` goes on after them, "" at the
    end. `counts` are those of all jobs, by state."""

    jobs: list[JobView]
    cursor: str = ""
    counts: dict[str, int]
    today: Spending


class Retried(msgspec.Struct, frozen=True):
    """How many jobs wait again."""

    retried: int


@get(
    _PATH,
    operation_id="listJobs",
    tags=_TAGS,
    guards=_GUARDS,
    summary="The jobs of the tenant",
    responses=problems(),
)
async def list_jobs(
    desk: FromDesk,
    of_state: Annotated[State | None, QueryParameter(description="Only in this state.", name="state")] = None,
    kind: Annotated[str | None, QueryParameter(description="Only of this kind.", max_length=100)] = None,
    limit: Limit = 50,
    cursor: Cursor = "",
) -> JobPage:
    def page() -> JobPage:
        jobs = desk.tenancy.records.jobs
        found = jobs.list(state=of_state, kind=kind, limit=limit, after=cursor)
        spent = jobs.today()
        return JobPage(
            jobs=[job_view(each) for each in found.jobs],
            cursor=found.next,
            counts={str(name): number for name, number in jobs.counts().items()},
            today=Spending(spent.calls, spent.tokens),
        )

    return await desk.run(page)


@get(
    _ONE,
    operation_id="getJob",
    tags=_TAGS,
    guards=_GUARDS,
    summary="One job",
    responses=problems(404),
)
async def get_job(desk: FromDesk, job: JobId) -> JobView:
    return job_view(await desk.run(lambda: desk.tenancy.records.jobs.get(job)))


@post(
    _ONE + "/retry",
    operation_id="retryJob",
    tags=_TAGS,
    guards=_GUARDS,
    summary="Let a job that failed or was stopped be done again",
    status_code=200,
    responses=problems(404, 409),
)
async def retry_job(desk: FromDesk, job: JobId) -> JobView:
    def retried() -> Job:
        with changing(desk, "retry_job", id=job):
            return desk.tenancy.records.jobs.retry(job)

    return job_view(await desk.run(retried))


@post(
    _PATH + "/retry",
    operation_id="retryJobs",
    tags=_TAGS,
    guards=_GUARDS,
    summary="Let every job that failed or was stopped be done again",
    status_code=200,
    responses=problems(),
)
async def retry_jobs(desk: FromDesk) -> Retried:
    def retried() -> int:
        with changing(desk, "retry_jobs"):
            return desk.tenancy.records.jobs.retry_all()

    return Retried(await desk.run(retried))


@post(
    _ONE + "/run",
    operation_id="runJob",
    tags=_TAGS,
    guards=_GUARDS,
    summary="Do a job now, and wait for its end",
    status_code=200,
    responses=problems(404, 409),
)
async def run_job(desk: FromDesk, job: JobId) -> JobView:
    def done() -> Job:
        with changing(desk, "run_job", id=job):
            return run_now(desk.front.sync, desk.tenancy.records.jobs, job)

    return job_view(await desk.run(done))


ROUTES = strict(list_jobs, get_job, retry_job, retry_jobs, run_job)


def job_view(job: Job) -> JobView:
    """A job as it stands."""
    return JobView(**msgspec.structs.asdict(job))
