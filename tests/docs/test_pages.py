"""The pages say everything that there is, and link to what is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from docs.blocks import ROOT, pages
from docs.option_tables import PAGE, commands, page, parameters
from stratalog import Settings

CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text("utf-8")
_LINK = re.compile(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)")


def test_the_option_tables_are_those_of_the_command_line() -> None:
    """docs/cli.md has the tables that `python tests/docs/option_tables.py` writes."""
    text = PAGE.read_text("utf-8")
    assert text == page(text), "run `python tests/docs/option_tables.py`"


@pytest.mark.parametrize("name", [name for name in commands() if name != "stratalog"])
def test_every_command_is_documented(name: str) -> None:
    """Each command has its section, its table of options, and says what `--json` gives."""
    text = PAGE.read_text("utf-8")
    section = text.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
    assert f"<!-- options: {name} -->" in section
    assert "`--json`: " in section
    for parameter in parameters(name):
        shown = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0]
        assert f"`{shown}`" in section
        assert parameter.help, shown


def settings(kind: type[msgspec.Struct] = Settings, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Each setting, with its table before it, and its default as it is documented."""
    for field in msgspec.structs.fields(kind):
        default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
        if isinstance(default, msgspec.Struct):
            yield from settings(type(default), f"{prefix}{field.name}.")
        else:
            shown = "none" if default is None else msgspec.json.encode(default).decode()
            yield prefix + field.name, shown


@pytest.mark.parametrize(("name", "default"), list(settings()), ids=[name for name, _ in settings()])
def test_every_setting_is_documented_with_its_default(name: str, default: str) -> None:
    """docs/configuration.md has a row for each setting, those in tables too, with the default of today."""
    assert f"| `{name}` | `{default}` | " in CONFIGURATION


def test_no_setting_is_documented_that_is_not_there() -> None:
    """The rows of the tables of settings are the settings, in their order."""
    tables = [part.partition("\n\n")[0] for part in CONFIGURATION.split("| setting |")[1:]]
    rows = [row for table in tables for row in re.findall(r"^\| `([\w.]+)` \|", table, re.MULTILINE)]
    assert rows == [name for name, _ in settings()]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """A link to a file of this repository names one that is there."""
    missing = [link for link in _LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()]
    assert not missing
