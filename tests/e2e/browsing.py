"""The console in a browser: the service as its users start it, and a scripted model behind it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stratalog.testing.model_server import ModelServer, Received
from stratalog.testing.scripted import Gate, Reply

CHROMIUM = Path("/usr/bin/chromium")
PATIENCE = 30_000  # milliseconds; a busy machine may need them
REPLY = (
    "好的，行程是：\n\n1. 周六早上七点从虹桥出发；\n2. 沿西湖骑行。\n\n"
    "```text\n虹桥 07:03 → 杭州东 08:02\n```\n要列出相机清单吗？"
)
_URL = re.compile(r"at (http://\S+)")
# What the browser would report of a page that its policy keeps from something.
WATCH = """
window.broken = [];
addEventListener("securitypolicyviolation", (event) => {
  broken.push(event.violatedDirective + " " + event.blockedURI);
});
"""


class Model:
    """What the model says next in a turn: `REPLY`, or what a test has put into `next`. What is drawn from a
    turn afterwards is asked without tools, and takes no step."""

    def __init__(self) -> None:
        self.next: list[Any] = []

    def __call__(self, received: Received) -> Any:
        if self.next and received.body.get("tools"):
            return self.next.pop(0)
        return Reply(text=REPLY, reasoning="先看行程。", pieces=12)


def held(gate: Gate, text: str = REPLY) -> Reply:
    """A reply whose last words wait at the gate."""
    return Reply(text=text, pieces=6, late_gate=gate)


class Served:
    """`stratalog serve` over a data directory."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stratalog", "--data", str(data), "serve", "--no-background", *options],
            env={**os.environ, "OPENAI_API_KEY": "test", "NO_COLOR": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.url = self._address()

    def _address(self) -> str:
        said = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            said.append(line)
            found = _URL.search(line)
            if found:
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return found[1]
        raise AssertionError("".join(said))

    @property
    def port(self) -> str:
        return self.url.rpartition(":")[2]

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Ends it. The second time does nothing."""
        if self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(60)


@contextmanager
def model_server() -> Iterator[tuple[ModelServer, Model]]:
    """A server of a model that says what its `Model` is told."""
    model = Model()
    with ModelServer(model, keep=4) as server:
        yield server, model
