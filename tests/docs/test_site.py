"""The pages as a site: every page is in it, every link and every name of the reference leads somewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.blocks import ROOT

pytest.importorskip("mkdocs", reason="mkdocs is not installed")


def test_it_builds_without_a_warning(tmp_path: Path) -> None:
    """`mkdocs build --strict` fails for a page that is nowhere listed, a link to nothing, an anchor that is
    not there, and a name of the library that it does not find."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    # Its theme tells of its makers' plans, which is no warning of the site's.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr + done.stdout
    page = (tmp_path / "site" / "reference" / "library" / "index.html").read_text("utf-8")
    assert "stratalog.engine.core.Stratalog.search" in page
    assert 'src="http' not in page  # a reader's browser asks nobody else
    assert 'rel="stylesheet" href="http' not in page
