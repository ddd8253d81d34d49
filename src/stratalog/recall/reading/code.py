"""Source code by its structure: Python by its syntax tree, any other language by blank lines and indentation.

A class or a function is what a heading is elsewhere. In other languages a part begins after a blank line, at
the margin; where its first lines declare something by one of the words that most languages use, that is its
name. Nothing is told from braces, which stand in strings and comments too.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Final, TypeAlias

from stratalog.recall.reading.contract import Block, Parsed, line_starts, paragraphs

_Definition: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_DEEPEST: Final = 5
_DECLARED: Final = re.compile(
    r"(?:(?:export|default|declare|pub(?:\([\w:]+\))?|public|private|protected|internal|static|abstract|final"
    r"|sealed|open|data|async|unsafe|extern|inline|virtual|override) +)*"
    r"(function\*?|class|interface|trait|impl|enum|struct|union|type|func|fun|fn|def|module|namespace|sub"
    r"|procedure|macro_rules!|const|let|var|record|object|protocol|extension)\b"
    r"(?: +\([^)]*\))? *([\w$.:]+)"
)
_COMMENTS: Final = ("#", "//", "/*", "*", "--", ";", "%", "@", "[", '"""', "'''")
_HEAD: Final = 200


def read_code(text: str, *, python: bool) -> Parsed:
    """The text in blocks under what it defines. Python that does not parse is read as another language is."""
    blocks = _python(text) if python else None
    return Parsed(title="", text=text, blocks=tuple(_any(text) if blocks is None else blocks))


def _python(text: str) -> list[Block] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is odd in the code, which is nobody's here
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: nested too deeply
        return None
    starts = line_starts(text)
    return _within(text, starts, tree.body, (), 1, len(starts) - 1)


def _within(
    text: str, starts: list[int], body: list[ast.stmt], path: tuple[str, ...], first: int, last: int
) -> list[Block]:
    """The blocks of the lines `first` to `last`, which are the statements of `body` and what is between."""
    blocks: list[Block] = []
    for node in body:
        if not isinstance(node, _Definition) or len(path) >= _DEEPEST:
            continue
        begin = min(node.lineno, *(each.lineno for each in node.decorator_list), node.lineno)
        while begin > first and text[starts[begin - 2] : starts[begin - 1]].lstrip().startswith("#"):
            begin -= 1
        end = node.end_lineno or node.lineno
        blocks += _lines(text, starts, path, first, begin - 1)
        blocks += _definition(text, starts, node, path, begin, end)
        first = end + 1
    return blocks + _lines(text, starts, path, first, last)


def _definition(
    text: str, starts: list[int], node: _Definition, path: tuple[str, ...], begin: int, end: int
) -> list[Block]:
    inner = node.body[0]
    decorators = getattr(inner, "decorator_list", [])
    body = min([inner.lineno, *(each.lineno for each in decorators)])
    body = body if body > node.lineno else end + 1  # all on one line
    path = (*path, f"{'class' if isinstance(node, ast.ClassDef) else 'def'} {node.name}")
    head = Block("heading", path, starts[begin - 1], starts[body - 1], opens=True)
    if isinstance(node, ast.ClassDef):
        return [head, *_within(text, starts, node.body, path, body, end)]
    return [head, *_lines(text, starts, path, body, end)]


def _lines(text: str, starts: list[int], path: tuple[str, ...], first: int, last: int) -> list[Block]:
    if last < first:
        return []
    spans = paragraphs(text, starts[first - 1], starts[last])
    return [Block("code", path, start, stop) for start, stop in spans]


def _any(text: str) -> list[Block]:
    blocks: list[Block] = []
    path: tuple[str, ...] = ()
    for start, stop in paragraphs(text, 0, len(text)):
        opens = False
        if not text[start].isspace() and text[start] not in "})]":
            name = _declared(text, start, stop)
            path, opens = ((name,), True) if name else ((), False)
        blocks.append(Block("code", path, start, stop, opens=opens))
    return blocks


def _declared(text: str, start: int, stop: int) -> str:
    """What the first line that is no comment declares; "" for nothing that we know."""
    while start < stop:
        end = text.find("\n", start, stop)
        end = stop if end < 0 else end + 1
        line = text[start : min(end, start + _HEAD)].strip()
        if not line.startswith(_COMMENTS):
            found = _DECLARED.match(line)
            return " ".join(found.groups()) if found else ""
        start = end
    return ""
