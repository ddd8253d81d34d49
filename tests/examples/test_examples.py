"""Every program in examples/ runs by itself and prints what it says it does."""

from __future__ import annotations

import ast
import sys
import textwrap
from pathlib import Path

import pytest

from docs.blocks import ROOT, run

EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_says(example: Path, tmp_path: Path) -> None:
    """What stands under "Prints:" is all that the example prints, in an empty directory and without a key."""
    told = str(ast.get_docstring(ast.parse(example.read_text("utf-8"))))
    promised = textwrap.dedent(told.partition("\nPrints:\n\n")[2])
    done = run([sys.executable, str(example), str(tmp_path / "data")], tmp_path, OPENAI_API_KEY="")
    assert done.returncode == 0, done.stderr
    assert promised
    assert done.stdout.rstrip("\n") == promised.rstrip("\n")
    assert "Traceback" not in done.stderr


def test_the_table_names_each_example() -> None:
    """There are twelve, numbered from 01 without a gap, and examples/README.md has a row for each."""
    table = (ROOT / "examples" / "README.md").read_text("utf-8")
    assert [path.name[:2] for path in EXAMPLES] == [f"{number:02}" for number in range(1, 13)]
    assert [name for name in (path.name for path in EXAMPLES) if f"| [{name}]({name}) |" not in table] == []
