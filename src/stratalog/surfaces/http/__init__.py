"""The HTTP service: sessions, turns and memory for many tenants, over the same engine.

| file | has |
|---|---|
| `app` | the application: its routes, its document, how it begins and ends |
| `edge` | what every request passes: host, origin, token, rate; the headers of every response |
| `service` | what the application holds (`Service`), and what a route is given of it (`Desk`) |
| `errors` | every error as problem+json, by one table |
| `routes_*` | the routes, one file for each group |
| `streaming` | events as Server-Sent Events |
| `running` | the server: signals, grace, `stratalog serve` |

How a file of routes is written
-------------------------------

A route reads the request into a struct, makes one call of the engine, and writes its answer as a struct.
What more it would do belongs into `engine/`, for other surfaces need it too.

    # routes_jobs.py
    class JobView(msgspec.Struct, frozen=True, kw_only=True):   # what is in the document; never `dict`
        '''What the document says of it.'''
        id: str
        state: str

    @get(
        "/v1/jobs/{job:str}",
        guards=[needs("admin")],             # 403 for other roles; without it every role that may talk
        responses=problems(404),             # statuses beyond 400 401 403 413 421 429 500 503, which all have
        operation_id="getJob", tags=["jobs"], summary="One job",
    )
    async def get_job(desk: FromDesk, job: FromPath[str]) -> JobView:
        found = await desk.run(lambda: one_job(desk.tenancy, job))     # off the event loop, always
        return JobView(id=found.id, state=found.state)

    ROUTES = (get_job,)                      # and `*routes_jobs.ROUTES` in `app.ROUTES`

- `desk: FromDesk` is a dependency, a `Desk`: it knows who asks (`desk.asker`), and opens the tenant's things
  alone. A tenant is never read from a request. `await desk.session(agent, chat, channel)` is a session in
  the asker's sight or `NotFound`; `await desk.caller(…)` is who asks of the memory records.
- Raise errors of `stratalog.errors`; the table in `errors` answers. Nothing here catches them.
- Blocking calls go through `desk.run`, which has `HttpSettings.threads` threads for the whole service.
- A path from a request never reaches the file system: ids go through `stratalog.keys`, in the engine.
- A body is `data: JSONBody[NewThing]`, whose struct forbids unknown fields; a query field `FromQuery[int]`,
  or one of `fields`. Fields have bounds, for the document promises what is refused.
- Names of query fields are those of the command line, `limit` and `cursor` page a list, times are
  milliseconds UTC.
- `tests/surfaces/http/conftest.py` has the fixture `service`, a real server, and a client for each role;
  `test_schema.py` asks every route what its document allows.
"""
