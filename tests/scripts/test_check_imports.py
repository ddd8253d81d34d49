"""scripts/check_imports.py: each rule of the layer table catches its fault, and only that."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_imports

ROOT = Path(__file__).resolve().parents[2]

GOOD = {
    "__init__.py": "from stratalog.engine.core import Engine\nfrom stratalog.types import Text\n",
    "types.py": "import msgspec\n",
    "errors.py": "",
    "keys.py": "from stratalog.errors import InvalidKey\n",
    "ids.py": "",
    "log/__init__.py": "",
    "log/contract.py": "from stratalog.types import Entry\n",
    "log/jsonl.py": "from stratalog.log.contract import Log\n",
    "sessions/manager.py": "from stratalog.log.contract import Log\n",
    "tokens/rough.py": "",
    "models/contract.py": "",
    "models/openai.py": "from stratalog.models.contract import Model\n",
    "context/view.py": "from stratalog import types\nfrom stratalog.tokens.rough import count\n",
    "recall/lexical.py": "from stratalog.tokens.rough import count\n",
    "engine/core.py": "from stratalog.log import jsonl\nimport stratalog.recall.lexical\n",
    "interop/codex.py": "from stratalog.engine.core import Engine\n",
    "surfaces/http/app.py": "from stratalog import __version__\nfrom stratalog.engine.core import Engine\n",
    "surfaces/cli/app.py": "from stratalog.surfaces.http import app\nfrom stratalog.interop import codex\n",
    "testing/engine.py": "from stratalog.conformance.log import suite\n",
    "conformance/log.py": "from stratalog.log.jsonl import Jsonl\n",
    "demo/__init__.py": "",
}


def tree(root: Path, files: dict[str, str]) -> list[str]:
    """The faults of a package of these files over the good ones."""
    for name, text in {**GOOD, **files}.items():
        file = root / "src" / "stratalog" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return [str(fault) for fault in check_imports.check(root)]


def test_a_good_tree_has_no_fault(tmp_path: Path) -> None:
    """Every arrow that the table allows passes."""
    assert tree(tmp_path, {}) == []


@pytest.mark.parametrize(
    ("file", "line", "target"),
    [
        ("types.py", "from stratalog.recall import lexical", "stratalog.recall.lexical"),
        ("log/codec.py", "from stratalog.engine.core import Engine", "stratalog.engine.core"),
        ("log/codec.py", "import stratalog.tokens.rough", "stratalog.tokens.rough"),
        ("log/codec.py", "from stratalog import __version__", "stratalog"),
        ("sessions/lock.py", "from stratalog.log.jsonl import Jsonl", "stratalog.log.jsonl"),
        ("context/compact.py", "from stratalog.models.openai import Model", "stratalog.models.openai"),
        ("context/compact.py", "from ..log import jsonl", "stratalog.log.jsonl"),
        ("recall/gate.py", "from stratalog.context.view import fold", "stratalog.context.view"),
        ("engine/work.py", "from stratalog.interop import codex", "stratalog.interop.codex"),
        ("interop/pi.py", "from stratalog.log.jsonl import Jsonl", "stratalog.log.jsonl"),
        (
            "surfaces/mcp/app.py",
            "from stratalog.surfaces.http.app import serve",
            "stratalog.surfaces.http.app",
        ),
        ("engine/work.py", "from stratalog.testing.engine import Temporary", "stratalog.testing.engine"),
        ("surfaces/cli/demo.py", "from stratalog.conformance.log import suite", "stratalog.conformance.log"),
        ("__init__.py", "from stratalog.log.jsonl import Jsonl", "stratalog.log.jsonl"),
    ],
)
def test_an_arrow_that_the_table_does_not_allow(tmp_path: Path, file: str, line: str, target: str) -> None:
    """A room importing one after it, or a part of one that is not for it, is told with file and line."""
    faults = tree(tmp_path, {file: f'"""A module."""\n\n{line}\n'})
    assert len(faults) == 1
    assert faults[0].startswith(f"src/stratalog/{file}:3: ")
    assert faults[0].endswith(f"may not import {target}")


def test_an_arrow_for_types_only_counts_too(tmp_path: Path) -> None:
    """`if TYPE_CHECKING` does not excuse a wrong direction."""
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from stratalog.engine import core\n"
    assert tree(tmp_path, {"log/codec.py": text}) == [
        "src/stratalog/log/codec.py:3: stratalog.log.codec may not import stratalog.engine.core"
    ]


def test_a_cycle_within_a_room(tmp_path: Path) -> None:
    """Modules that import one another in a ring are one fault that names the ring."""
    files = {
        "log/a.py": "from stratalog.log.b import x\n",
        "log/b.py": "\nfrom stratalog.log import c\n",
        "log/c.py": "import stratalog.log.a\n",
    }
    assert tree(tmp_path, files) == [
        "src/stratalog/log/a.py:1: import cycle: "
        "stratalog.log.a → stratalog.log.b → stratalog.log.c → stratalog.log.a"
    ]


def test_an_import_inside_a_function(tmp_path: Path) -> None:
    """Imports stand at the top; a method or a nested function is no place for one."""
    text = "class A:\n    def f(self):\n        import json\n"
    faults = tree(tmp_path, {"log/codec.py": text})
    assert faults == ["src/stratalog/log/codec.py:3: import inside the function f; only an adapter file may"]


def test_an_adapter_file_may_import_inside_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file on the list keeps its optional package away until it is used."""
    monkeypatch.setitem(check_imports.ADAPTERS, "src/stratalog/models/openai.py", "the openai package")
    assert tree(tmp_path, {"models/openai.py": "def f():\n    import openai\n"}) == []


@pytest.mark.parametrize(
    ("handler", "name"),
    [
        ("except:", "everything"),
        ("except Exception:", "Exception"),
        ("except BaseException as error:", "BaseException"),
        ("except (OSError, Exception):", "Exception"),
    ],
)
def test_a_handler_that_catches_everything(tmp_path: Path, handler: str, name: str) -> None:
    """A broad handler is a fault wherever it stands."""
    faults = tree(tmp_path, {"engine/work.py": f"try:\n    pass\n{handler}\n    raise\n"})
    assert faults == [f"src/stratalog/engine/work.py:3: a handler catches {name}; name what can happen"]


def test_a_named_handler_is_no_fault(tmp_path: Path) -> None:
    """Catching what can happen is fine."""
    assert (
        tree(tmp_path, {"engine/work.py": "try:\n    pass\nexcept (OSError, ValueError):\n    pass\n"}) == []
    )


def test_a_room_that_the_table_does_not_know(tmp_path: Path) -> None:
    """A new room needs its line in the table first."""
    assert tree(tmp_path, {"attic/box.py": ""}) == [
        "src/stratalog/attic/box.py:1: the layer table does not know stratalog.attic.box"
    ]


def test_a_file_that_does_not_parse(tmp_path: Path) -> None:
    """A syntax error is a fault with its place, not a traceback."""
    faults = tree(tmp_path, {"log/codec.py": "x = 1\ndef f(:\n"})
    assert len(faults) == 1
    assert faults[0].startswith("src/stratalog/log/codec.py:2: does not parse")


def test_the_command_prints_faults_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1 and each fault is a line; a clean tree prints nothing and exits 0."""
    tree(tmp_path, {})
    assert check_imports.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""
    tree(tmp_path, {"types.py": "import stratalog.log.jsonl\n"})
    assert check_imports.main([str(tmp_path)]) == 1
    assert "src/stratalog/types.py:1: " in capsys.readouterr().out


def test_every_exception_names_a_file_and_a_reason() -> None:
    """The lists of excused files hold no stale name and no empty reason."""
    for table in (check_imports.ADAPTERS, check_imports.CATCHALLS):
        for name, reason in table.items():
            assert (ROOT / name).is_file()
            assert reason


def test_this_project_keeps_its_own_table() -> None:
    """The real tree has no fault."""
    assert [str(fault) for fault in check_imports.check(ROOT)] == []
