"""The library's front door: what it names is there and told, and coming in costs little."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

import stratalog

ROOT = Path(__file__).resolve().parents[1]
HEAVY = (
    "asyncio",
    "typer",
    "rich",
    "numpy",
    "click",
    "httpx",
    "openai",
    "anthropic",
    "litestar",
    "uvicorn",
    "mcp",
    "psycopg",
)


@pytest.mark.parametrize("name", stratalog.__all__)
def test_a_public_name_is_there_and_documented(name: str) -> None:
    """Each name in `__all__` exists and says what it is for."""
    found = getattr(stratalog, name)
    assert inspect.getdoc(found)
    assert found.__module__.startswith("stratalog.")


@pytest.mark.parametrize("name", stratalog.__all__)
def test_what_a_public_class_offers_is_documented(name: str) -> None:
    """Each method that a user may call says what it does; an asyncio twin refers to the one it runs."""
    found = getattr(stratalog, name)
    if not inspect.isclass(found) or not found.__module__.startswith("stratalog.engine"):
        return
    twin = name.startswith("Async")
    for method, what in vars(found).items():
        if not method.startswith("_") and (inspect.isfunction(what) or isinstance(what, property)):
            assert inspect.getdoc(what) or twin, method


def test_everything_public_is_sorted_and_named_once() -> None:
    """`__all__` is in order and has no name twice."""
    assert stratalog.__all__ == sorted(set(stratalog.__all__))


def optional_packages() -> set[str]:
    """The import names of the packages that only an extra installs, as far as they are the same."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = {requirement for name, listed in extras.items() if name != "dev" for requirement in listed}
    names = {"".join(char if char.isalnum() else " " for char in each).split()[0] for each in wanted}
    return {name.lower() for name in names} - {"stratalog"}


def test_importing_loads_nothing_that_is_not_needed() -> None:
    """`import stratalog` loads neither the command line's packages nor any optional one, nor a surface."""
    code = "import sys, stratalog; print('\\n'.join(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = {name.split(".")[0] for name in out.split()}
    assert loaded & {*HEAVY, *optional_packages()} == set()
    assert not [name for name in out.split() if name.startswith(("stratalog.surfaces", "stratalog.interop"))]


def test_importing_makes_and_reads_nothing(tmp_path: Path) -> None:
    """Importing has no effect: no file is made, whatever the directory and the environment say."""
    code = "import stratalog"
    environment = {
        "STRATALOG_DATA": str(tmp_path / "data"),
        "HOME": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert list(tmp_path.iterdir()) == []


def test_the_first_lines_of_the_docs_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example in the package's own docstring runs and finds what it says."""
    monkeypatch.chdir(tmp_path)
    example = textwrap.dedent(str(stratalog.__doc__).split("\n\n", 1)[1])
    shown: list[object] = []
    exec(compile(example, "example", "exec"), {"print": shown.append})
    assert "Ana" in str(shown[0])
    assert shown[1] == [
        {"role": "user", "content": "My sister Ana lives in Lisbon."},
        {"role": "assistant", "content": "Noted: Ana, Lisbon."},
    ]


def test_the_version_is_the_packages() -> None:
    """`__version__` is a version."""
    assert stratalog.__version__.count(".") == 2
