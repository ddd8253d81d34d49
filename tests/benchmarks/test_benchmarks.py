"""`make bench`: that it runs and tells what it should. What it measures is never asserted here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab import Lab
from loads import BYTES, LINE, MESSAGE, messages, turns
from measures.records import OWNER, asking, draft, filled, name
from run import MEASURES
from runner import outcome_of, run, sample_of
from sayings import ASKED, WORDS, question, saying, words
from scheme_a import ArrayStore
from spec import Block, Goal, Opener, Row, Spec, System

from stratalog import Stratalog
from stratalog.conformance.log import CASES
from stratalog.conformance.log import Lab as StoreLab
from stratalog.engine.remembering import Records
from stratalog.types import TurnEnd, TurnStart

RUN = Path(__file__).resolve().parents[2] / "benchmarks" / "run.py"


def bench(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    where = ("--data", str(tmp_path / "data"), "--results", str(tmp_path / "results"))
    return subprocess.run(
        [sys.executable, str(RUN), "--tiny", "--no-peers", *where, *options],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "150"},
        check=False,
    )


# --- the yardstick ---


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_scheme_a_keeps_the_contract(case: Callable[[StoreLab], None], tmp_path: Path) -> None:
    """The JSON array that ours is compared with is a whole log store, so the comparison is fair."""
    case(StoreLab(lambda: ArrayStore(tmp_path)))


def test_the_message_is_of_400_bytes() -> None:
    """What every system writes is a dictionary of 400 bytes as compact JSON; bare lines add a newline."""
    assert len(json.dumps(MESSAGE, separators=(",", ":")).encode()) == BYTES == 400
    assert len(LINE) == 401


def test_logs_are_filled_to_the_entry() -> None:
    """A filled log has exactly as many entries as was said, in turns as the engine writes them."""
    assert [len(list(messages(count))) for count in (0, 1, 2, 7)] == [0, 1, 2, 7]
    assert [len(list(turns(count))) for count in (0, 1, 4, 10)] == [0, 1, 4, 10]
    kinds = [type(entry) for entry in turns(4)]
    assert (kinds[1], kinds[3]) == (TurnStart, TurnEnd)
    assert len({entry.turn for entry in turns(8)}) == 2


def test_sayings_are_the_same_in_every_process() -> None:
    """A record's words and a query's follow from their number alone, so that all systems get the same."""
    code = "from sayings import question, saying; print(saying(7)); print(question(7))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=RUN.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [saying(7), question(7)]
    assert (len(saying(7).split()), len(question(7).split())) == (WORDS, ASKED)
    assert saying(7) != saying(8)
    assert {*saying(7).split(), *question(7).split()} <= set(words()[0])


def test_tenants_are_filled_to_the_record(tmp_path: Path) -> None:
    """Each tenant has as many records as was said, in slots of their own, as `remember` would have them; a
    query finds some of them, and more can be remembered."""
    with Lab(tmp_path / "disk", tmp_path / "memory", None) as lab:
        root = filled(lab, lab.disk, 2, 30)
        for number in range(2):
            with Stratalog(root, tenant=name(number)) as memory, Records(memory) as records:
                service, who = records.service, asking(records)
                kept = {each.key: each.text for each in service.list(who, scopes=(OWNER,)).records}
                assert kept == {f"key {at}": saying(at) for at in range(30)}
                assert any(service.recall(who, question(at)).found for at in range(5))
                assert service.remember(who, draft(29)).outcome == "merged"
                assert service.remember(who, draft(30)).outcome == "stored"


# --- the runner ---


def costing(costs: list[float], calls: list[str], name: str) -> Opener:
    """A system whose blocks cost, one after another, what is in `costs`."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        given = iter(costs)

        def block() -> list[float]:
            calls.append(name)
            return [next(given)]

        yield block

    return opened


def test_systems_take_turns(tmp_path: Path) -> None:
    """Every system has one block a round; the first round does not count; ratios are of the same round."""
    calls: list[str] = []
    spec = Spec(
        "made-up",
        "a title",
        "disk",
        3,
        (
            System("a", costing([99, 2, 4, 6], calls, "a")),
            System("b", costing([99, 1, 4, 2], calls, "b")),
            System("c", costing([], calls, "c"), peer=True),
        ),
        (
            Row("a by b", "a", "b", goal=Goal("at most", 1.9)),
            Row("a by c", "a", "c"),
            Row("a", "a", how="cost"),
        ),
    )
    with Lab(tmp_path, tmp_path, None) as lab:
        result = run(spec, lab)
    assert [sorted(calls[at : at + 2]) for at in range(0, 8, 2)] == [["a", "b"]] * 4
    assert result.left_out == ("c",)
    assert [outcome.row.what for outcome in result.outcomes] == ["a by b", "a"]
    by_b, alone = result.outcomes
    assert (by_b.low, by_b.figure, by_b.high, by_b.met) == (1, 2, 3, False)
    assert (alone.figure, alone.met) == (4, None)


@pytest.mark.parametrize(("how", "figure"), [("ratio", 4), ("share", 0.25), ("excess", 6), ("cost", 8)])
def test_figures(how: Any, figure: float) -> None:
    """A row's figure is the ratio of costs, the share of speed, what is added, or the cost."""
    samples = {"mine": sample_of([[8, 8, 9]]), "theirs": sample_of([[2]])}
    assert outcome_of(Row("", "mine", "theirs", how), samples).figure == figure


@pytest.mark.parametrize(
    ("kind", "verdicts"),
    [("at most", [True, True, False]), ("at least", [False, True, True]), ("under", [True, False, False])],
)
def test_goals(kind: Any, verdicts: list[bool]) -> None:
    """A bound itself meets `at most` and `at least`, and not `under`."""
    assert [Goal(kind, 2).met(figure) for figure in (1, 2, 3)] == verdicts


def test_a_lab_cleans_up(tmp_path: Path) -> None:
    """What a lab made is made once, and gone when it closes."""
    with Lab(tmp_path / "disk", tmp_path / "memory", None) as lab:
        made = [lab.once("it", lambda: lab.disk), lab.once("it", lambda: lab.disk)]
        (lab.memory / "file").write_text("x")
        assert made[0] == made[1]
        assert made[0].is_dir()
    assert [path for path in tmp_path.rglob("*") if path.name not in ("disk", "memory")] == []


@pytest.mark.parametrize("size", ["full", "quick", "tiny"])
def test_specs_are_whole(size: Any) -> None:
    """In every size, names are unique, each row's systems exist, and each of the issue's goals has a row."""
    specs = [measure.spec(size) for measure in MEASURES]
    assert len({spec.name for spec in specs}) == len(specs)
    for spec in specs:
        names = [system.name for system in spec.systems]
        assert len(set(names)) == len(names)
        assert spec.rounds > 0
        for row in spec.rows:
            assert row.subject in names
            assert row.beside in ("", *names)
        assert any(row.goal for row in spec.rows)


# --- the command ---


@pytest.mark.long
def test_it_runs(tmp_path: Path) -> None:
    """All benchmarks run, small; the table says every goal and whether it is met; nothing is left behind."""
    done = bench(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    found = json.loads((tmp_path / "results" / "latest.json").read_text())
    assert [benchmark["name"] for benchmark in found["benchmarks"]] == [m.spec("tiny").name for m in MEASURES]
    assert {"machine", "python", "disk", "memory", "sqlite", "when"} <= set(found["facts"])
    for benchmark in found["benchmarks"]:
        assert benchmark["rows"], benchmark["name"]
        for row in benchmark["rows"]:
            assert row["quartiles"][0] <= row["figure"] <= row["quartiles"][1]
            assert (row["met"] is None) == (row["goal"] is None)
        for sample in benchmark["systems"].values():
            assert sample["operations"] > 0
            assert 0 < sample["p50"] <= sample["p99"]
    page = (tmp_path / "results" / "latest.md").read_text()
    assert "e+0" not in page  # no bytes are told as seconds
    for text in (done.stdout, page):
        assert "met" in text
        assert "≤ 25 µs" in text
        for peer in ("SQLiteSession", "SqliteStore.put", "Memory.add", "Chroma", "mem0 with qdrant-client"):
            assert peer in text  # told as not measured
    assert list((tmp_path / "data").iterdir()) == []


def test_one_alone(tmp_path: Path) -> None:
    """`--only` runs one; a name that is none is an error that lists them."""
    done = bench(tmp_path, "--only", "append")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "results" / "latest.json").read_text())
    assert [benchmark["name"] for benchmark in found["benchmarks"]] == ["append"]
    assert found["benchmarks"][0]["left_out"] == ["SQLiteSession", "SQLiteSession, synchronous=FULL"]
    wrong = bench(tmp_path, "--only", "nothing")
    assert wrong.returncode == 2
    assert "there is no benchmark nothing" in wrong.stderr
    assert "software" in wrong.stdout
