"""What `stratalog watch` costs while nothing happens: its share of one processor over files that do not
change, beside a Python process that only sleeps.

    .venv/bin/python benchmarks/watch_idle.py [FILES] [SECONDS]

The files are of no known format and lie in folders of 50, so that all that is left to do is to look. What is
measured is the processes' own time on the processor, which other load on the machine does not change much.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_TOGETHER = 50


def spent(process: subprocess.Popen[bytes]) -> float:
    """Seconds on the processor so far, its own and the system's for it."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def settled(process: subprocess.Popen[bytes]) -> None:
    """Waits until the process has done nothing to speak of for a while."""
    before = -1.0
    while spent(process) - before > 0.05:
        before = spent(process)
        time.sleep(5)


def main(files: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for number in range(files):
            folder = root / "sessions" / str(number // _TOGETHER)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.jsonl").write_text("{}\n")
        stratalog = [sys.executable, "-m", "stratalog", "--data", str(root / "data")]
        watch = subprocess.Popen([*stratalog, "watch", str(root / "sessions")], stderr=subprocess.DEVNULL)
        floor = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(86_400)"])
        try:
            settled(watch)
            before = [(each, spent(each)) for each in (watch, floor)]
            began = time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - began
            shares = [(spent(each) - at) / took * 100 for each, at in before]
        finally:
            for each in (watch, floor):
                each.terminate()
                each.wait()
    print(f"{files:,} files, {took:.0f} s: watch {shares[0]:.2f} %, a sleeping process {shares[1]:.2f} %")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]) if given else 10_000, float(given[1]) if len(given) > 1 else 30.0)
