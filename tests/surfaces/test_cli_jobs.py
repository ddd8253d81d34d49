"""`stratalog jobs`: the list, one of them, and trying again, in words and as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.engine.background import Jobs
from stratalog.ids import now_ms
from stratalog.keys import tenant_path
from stratalog.memory.governor import day_of
from stratalog.memory.jobs import FILE
from surfaces.terminals import cli, cli_json, terminal

HOSTILE = "\x1b[31mred\x1b[0m \u202eevil\u202c \x07end"
FIELDS = {
    "id",
    "kind",
    "key",
    "session",
    "user",
    "environment",
    "args",
    "state",
    "attempts",
    "created_at",
    "updated_at",
    "next_at",
    "error",
    "result",
}


def jobs_in(data: Path, tenant: str = "local") -> Jobs:
    return Jobs(tenant_path(data, tenant) / FILE)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a job in each state, of the kind of its state and with its state for a key."""
    jobs = jobs_in(tmp_path)
    for state in ("done", "failed", "stopped", "running", "waiting"):
        put = jobs.put(state, f"about {state}", args={"n": 1}, session="local/a:b:c", user="ana")
        if state == "waiting":
            break
        job = jobs.claim(put.id, lease_ms=10**9)
        assert job is not None
        match state:
            case "done":
                jobs.done(job, {"merged": 2})
            case "failed":
                jobs.failed(job, "the model cannot be reached", retry_at=job.updated_at + 10**8)
            case "stopped":
                jobs.stopped(job, "it does not converge", until=None)
    jobs.spend("1999-01-01", 5, 5)
    jobs.close()
    return tmp_path


def id_of(data: Path, state: str) -> str:
    (job,) = cli_json("jobs", "list", "--state", state, data=data)["jobs"]
    return str(job["id"])


def test_the_list_says_what_became_of_each(data: Path) -> None:
    """What is not done first: kind, about, state, attempts, when next, why it failed; counts on stderr."""
    shown = cli("jobs", data=data)
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["id", "kind", "about", "state", "tries", "next", "error"]
    states = [line.split()[1] for line in lines[2:]]
    assert states[-1] == "done"
    assert set(states) == {"done", "failed", "stopped", "running", "waiting"}
    failed = next(line for line in lines if " failed " in line)
    assert "about failed" in failed
    assert failed.endswith("the model cannot be reached")
    assert "1 waiting, 1 running, 1 done, 1 failed, 1 stopped" in shown.stderr
    assert cli("jobs", "list", data=data).stdout == shown.stdout


def test_the_list_as_json(data: Path) -> None:
    """Every field of each job, the counts by state, and what models were asked today."""
    value = cli_json("jobs", data=data)
    assert set(value) == {"jobs", "cursor", "counts", "today"}
    assert {frozenset(job) for job in value["jobs"]} == {frozenset(FIELDS)}
    assert value["counts"] == dict.fromkeys(("waiting", "running", "done", "failed", "stopped"), 1)
    assert value["today"] == {"calls": 0, "tokens": 0}
    (failed,) = (job for job in value["jobs"] if job["state"] == "failed")
    assert (failed["attempts"], failed["error"], failed["args"]) == (
        1,
        "the model cannot be reached",
        {"n": 1},
    )
    assert failed["next_at"] > failed["updated_at"]


def test_the_list_is_filtered_and_paged(data: Path) -> None:
    """By state and by kind; the cursor goes on where the page ended, and each job is on one page."""
    assert [job["state"] for job in cli_json("jobs", "list", "--kind", "failed", data=data)["jobs"]] == [
        "failed"
    ]
    none = cli("jobs", "list", "--state", "failed", "--kind", "done", data=data)
    assert (none.exit_code, none.stdout) == (0, "")
    assert "no such jobs" in none.stderr
    found: list[str] = []
    cursor = ""
    for _ in range(5):
        page = cli_json("jobs", "list", "-n", 2, "--cursor", cursor, data=data)
        found += [job["id"] for job in page["jobs"]]
        cursor = page["cursor"]
        if not cursor:
            break
    assert len(found) == len(set(found)) == 5
    assert "--cursor" in cli("jobs", "list", "-n", 2, data=data).stderr
    assert cli("jobs", "list", "--cursor", "x", data=data).exit_code == 2
    assert cli("jobs", "list", "--state", "complete", data=data).exit_code == 2


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    """Where there are no jobs it says so, and leaves no file."""
    data = tmp_path / "data"
    assert "no jobs yet" in cli("jobs", data=data).stderr
    assert cli_json("jobs", data=data)["jobs"] == []
    assert cli_json("jobs", "retry", "--all", data=data) == {"retried": 0}
    assert not data.exists()


def test_each_tenant_has_its_own(data: Path) -> None:
    """The jobs of one are not in another's list, and are not found by their ids."""
    assert cli_json("jobs", "--tenant", "acme", data=data)["jobs"] == []
    assert cli("jobs", "show", id_of(data, "failed"), "--tenant", "acme", data=data).exit_code == 3


def test_a_job_is_shown_with_all_that_is_known(data: Path) -> None:
    """In words and as JSON."""
    id = id_of(data, "failed")
    shown = cli("jobs", "show", id, data=data).stdout
    for words in (id, "about failed", "local/a:b:c", "ana", "the model cannot be reached", '{"n":1}'):
        assert words in shown
    value = cli_json("jobs", "show", id, data=data)
    assert set(value) == FIELDS
    assert value["id"] == id
    assert '{"merged":2}' in cli("jobs", "show", id_of(data, "done"), data=data).stdout


@pytest.mark.parametrize("id", ["01MCC5RRW8WP5W7Q5WT7QG329S", "x", ""])
def test_a_job_that_is_not_there(data: Path, id: str) -> None:
    """Exit code 3."""
    assert cli("jobs", "show", id, data=data).exit_code == 3


def test_one_is_retried(data: Path) -> None:
    """What failed waits again, due now; what is done, or not said, is not."""
    id = id_of(data, "failed")
    assert cli_json("jobs", "retry", id, data=data) == {"retried": 1}
    value = cli_json("jobs", "show", id, data=data)
    assert (value["state"], value["attempts"]) == ("waiting", 0)
    assert cli("jobs", "retry", id, data=data).exit_code == 4
    assert cli("jobs", "retry", id_of(data, "done"), data=data).exit_code == 4
    assert cli("jobs", "retry", data=data).exit_code == 2
    assert cli("jobs", "retry", id, "--all", data=data).exit_code == 2


def test_all_are_retried(data: Path) -> None:
    """What failed and what was stopped; the others stay as they are."""
    assert cli("jobs", "retry", "--all", data=data).stderr == "2 jobs will be done again\n"
    assert cli_json("jobs", data=data)["counts"] == {
        "waiting": 3,
        "running": 1,
        "done": 1,
        "failed": 0,
        "stopped": 0,
    }
    assert "none to retry" in cli("jobs", "retry", "--all", data=data).stderr


def test_what_models_were_asked_today_is_told(data: Path) -> None:
    """The calls and the tokens of the day, once there are any."""
    jobs = jobs_in(data)
    jobs.spend(day_of(now_ms()), 2, 3_456)
    jobs.close()
    # A day may end between the two: then nothing was asked today, and nothing is told.
    told = cli("jobs", data=data).stderr
    assert ("models today (UTC): 2 calls, 3,456 tokens" in told) == bool(jobs_in(data).today().calls)


def test_a_terminal_is_not_harmed_and_every_width_has_the_error(data: Path) -> None:
    """Ids stay whole, what harms a terminal is shown as escapes, and columns go before the error does."""
    jobs = jobs_in(data)
    put = jobs.put("kind", HOSTILE)
    job = jobs.claim(put.id, lease_ms=1)
    assert job is not None
    jobs.failed(job, HOSTILE, retry_at=None)
    jobs.close()
    for columns in (60, 80, 140):
        shown = terminal("--data", data, "jobs", columns=columns)
        assert shown.code == 0
        assert put.id in shown.text
        assert "\u202e" not in shown.sent
        assert "\x07" not in shown.sent
        assert "the mod" in shown.text
        table = shown.text.partition("waiting,")[0].splitlines()
        assert all(len(line.rstrip()) <= columns for line in table[:-1])
    for given in (("jobs",), ("jobs", "show", put.id)):
        assert "\u202e" not in cli(*given, data=data).stdout
