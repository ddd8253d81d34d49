"""`make bench`: measures Stratalog beside bare system calls, a peer and other schemes, in one run.

    python benchmarks/run.py [--quick | --tiny] [--only NAME]... [--data DIR] [--no-peers] [--list]

Prints a table of ratios with their goals, and writes `latest.json` and `latest.md` under benchmarks/results.
The peers get an environment of their own under benchmarks/.peers, made by the first run that needs it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lab import Lab
from measures import (
    append,
    concurrency,
    context,
    hybrid,
    listing,
    opening,
    record_size,
    records,
    schemes,
    search,
    service,
    size,
    software,
    startup,
    vectors,
)
from peers import HERE, Peers, PeersUnavailable
from report import as_json, lines, machine, markdown, table
from rich.console import Console
from runner import Result, run
from spec import Size, Spec

MEASURES = (
    append,
    software,
    concurrency,
    opening,
    context,
    listing,
    size,
    records,
    record_size,
    schemes,
    startup,
    vectors,
    search,
    hybrid,
    service,
)
WIDTH = 150
SECONDS: dict[Size, float] = {"full": 60, "quick": 6, "tiny": 6}
"""After so long a benchmark begins no new round, so that a slow disk does not make it endless."""


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what it made is removed
    chosen = _parser().parse_args(arguments)
    scale: Size = "tiny" if chosen.tiny else "quick" if chosen.quick else "full"
    specs: list[Spec] = [measure.spec(scale) for measure in MEASURES]
    unknown = set(chosen.only or ()) - {spec.name for spec in specs}
    if chosen.list or unknown:
        for spec in specs:
            print(f"{spec.name:11} {spec.title}")
        if unknown:
            print(f"there is no benchmark {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2 if unknown else 0
    specs = [spec for spec in specs if not chosen.only or spec.name in chosen.only]
    show = Console(width=WIDTH) if not sys.stdout.isatty() else Console()
    memory = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
    facts = machine(chosen.data, memory, scale)
    results, seconds = _measure(specs, SECONDS[scale], chosen.data, memory, chosen.no_peers)
    facts["took"] = f"{seconds:.0f} s"
    for name, value in facts.items():
        show.print(f"{name:>10}  {value}", highlight=False)
    show.print(table(results))
    for result in results:
        if result.left_out:
            show.print(f"{result.spec.name}: not measured: {', '.join(result.left_out)}", highlight=False)
    _write(chosen.results, results, facts)
    missed = sum(line.verdict == "NOT MET" for line in lines(results))
    show.print(f"{missed} goals not met; all of it in {chosen.results}/latest.md", highlight=False)
    return 0


def _measure(
    specs: Sequence[Spec], limit: float, disk: Path, memory: Path, no_peers: bool
) -> tuple[list[Result], float]:
    """Runs them one after another, and says for how many seconds; the peers' installation is not counted."""
    say = _progress()
    peers = None
    if not no_peers and any(system.peer for spec in specs for system in spec.systems):
        try:
            peers = Peers(say)
        except PeersUnavailable as error:
            print(f"peers are not measured: {error}", file=sys.stderr)
    start = time.monotonic()
    results = []
    for spec in specs:
        with Lab(disk, memory, peers) as lab:
            results.append(run(spec, lab, say, seconds=limit))
    say("")
    return results, time.monotonic() - start


def _progress() -> Callable[[str], None]:
    """Shows what is under way on one line of a terminal, and nothing where there is none."""
    if not sys.stderr.isatty():
        return lambda text: None
    return lambda text: print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)


def _write(directory: Path, results: Sequence[Result], facts: dict[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "latest.json").write_text(json.dumps(as_json(results, facts), indent=1) + "\n")
    (directory / "latest.md").write_text(markdown(results, facts))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="smaller and fewer, under a minute")
    scale.add_argument("--tiny", action="store_true", help="only to see that it runs")
    parser.add_argument("--only", action="append", metavar="NAME", help="this benchmark; may be repeated")
    parser.add_argument("--data", type=Path, default=HERE / ".data", help="where the disk is measured")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="where the results go")
    parser.add_argument("--no-peers", action="store_true", help="install and measure no peer")
    parser.add_argument("--list", action="store_true", help="name the benchmarks")
    return parser


if __name__ == "__main__":
    sys.exit(main())
