"""The console's files: what is vendored is as it was published, what is ours has no way to run what it shows,
and all that is said is said in Chinese too."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from stratalog.surfaces.console import asset, policy

STATIC = Path(str(files("stratalog.surfaces.console"))) / "static"
OURS = sorted([*STATIC.glob("*.js"), *STATIC.glob("views/*.js")])
VENDORED = {
    "preact.mjs": "bdcbd9abdf2c77c5c45326eab42191e949222d479d0d5f69467387a77040cb55",
    "preact-hooks.mjs": "e862ab2973aa6455eaa0f77c5d832d2157d6be59a17c8ba546550a575b58c6b4",
    "htm.mjs": "ab33dd3f38059b9be4d5f5350128eefb2356639c4e0bbe9d9e8b3ba75847e9e4",
    "preact.LICENSE.txt": "1fe6958409c8c257a70c587a18b6f7f412b179b456630790d30b2ec9a8e4b7d4",
    "htm.LICENSE.txt": "740725f7252e750af735d0028cc534970772f513331e9f68150fede8fb3ce00f",
}


@pytest.mark.parametrize("name", VENDORED)
def test_what_is_vendored_is_as_published(name: str) -> None:
    """Byte for byte; the README beside it names the modules' hashes too."""
    folder = STATIC / "vendor"
    assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == VENDORED[name]
    assert name.endswith(".txt") or VENDORED[name] in (folder / "README.md").read_text()


def test_nothing_else_is_vendored() -> None:
    """Every file there is named here or is the README."""
    assert {each.name for each in (STATIC / "vendor").iterdir()} == {*VENDORED, "README.md"}


def test_a_path_names_a_file_of_the_console_or_nothing() -> None:
    """The page, its modules and its style, each as what it is; no path leads elsewhere."""
    page = asset("")
    assert page is not None
    assert page.media_type == "text/html"
    assert page == asset("index.html")
    script = asset("views/memory.js")
    assert script is not None
    assert script.media_type == "text/javascript"
    for path in (
        "../__init__.py",
        "..",
        "views",
        "views/",
        "/etc/passwd",
        "./app.js",
        "views/../app.js",
        "nope.js",
    ):
        assert asset(path) is None, path


def test_the_policy_allows_the_page_its_own_files_alone() -> None:
    """Nothing inline but the import map, by its hash; no eval, no frame, no form, no foreign address."""
    told = dict(each.strip().split(" ", 1) for each in policy().split(";"))
    page = asset("")
    assert page is not None
    scripts = re.findall(rb"<script(.*?)>(.*?)</script>", page.content, re.DOTALL)
    (inline,) = [body for head, body in scripts if b"src=" not in head]
    hashed = base64.b64encode(hashlib.sha256(inline).digest()).decode()
    assert told == {
        "default-src": "'none'",
        "script-src": f"'self' 'sha256-{hashed}'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self' data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    imports = json.loads(inline)["imports"]
    assert all(asset(where.removeprefix("/console/")) for where in imports.values())


def test_every_module_that_is_imported_is_there() -> None:
    """Relative imports of our modules and what the page names."""
    for module in OURS:
        for name in re.findall(r'from "(\.[^"]+)"', module.read_text()):
            assert (module.parent / name).resolve().is_file(), (module.name, name)
    page = (STATIC / "index.html").read_text()
    for name in re.findall(r'(?:src|href)="/console/([^"]+)"', page):
        assert asset(name) is not None, name


@pytest.mark.parametrize("module", OURS, ids=lambda path: path.name)
def test_our_modules_write_text_alone(module: Path) -> None:
    """No markup out of strings, no code out of strings, no inline style or handler, no cookie."""
    found = re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|dangerouslySet"
        r"|\.cookie\b|\sstyle=|setAttribute|srcdoc|postMessage|javascript:",
        module.read_text(),
    )
    assert found is None, found


def test_the_token_is_kept_in_the_tab_alone() -> None:
    """Only `api.js` touches the storage that goes with the tab, and nothing secret goes into the other."""
    kept = {module.name for module in OURS if "sessionStorage" in module.read_text()}
    assert kept == {"api.js"}
    named = set(re.findall(r'"(stratalog\.\w+)"', "".join(module.read_text() for module in OURS)))
    assert named == {"stratalog.token", "stratalog.user", "stratalog.language"}


def test_all_that_is_said_is_said_in_chinese() -> None:
    """Every literal that `t` is given has its Chinese words, with the same values to be put in."""
    words = (STATIC / "words.js").read_text()
    entry = re.compile(r'^  (?:"((?:[^"\\]|\\.)*)"|([A-Za-z]\w*)):\s*"((?:[^"\\]|\\.)*)",$', re.MULTILINE)
    known = {quoted or bare: told for quoted, bare, told in entry.findall(words)}
    asked = set()
    for module in OURS:
        if module.name not in ("words.js", "i18n.js"):
            asked |= set(re.findall(r'\bt\("((?:[^"\\]|\\.)*)"', module.read_text()))
    assert len(asked) > 150
    assert asked - known.keys() == set()
    for english, chinese in known.items():
        values = set(re.findall(r"\{(\w+)\}", english))
        assert set(re.findall(r"\{(\w+)\}", chinese)) == values, english


def test_every_call_in_the_audit_has_its_words() -> None:
    """What the service writes lines of by itself, and the records' service, is said in both languages."""
    zh, _, en = (STATIC / "words.js").read_text().partition("export const en")
    http = Path(str(files("stratalog.surfaces.http")))
    routes = "".join(each.read_text() for each in http.glob("routes_*.py"))
    calls = set(re.findall(r'changing\(\s*desk, (?:page, )?"(\w+)"', routes))
    assert len(calls) > 12
    calls |= {"release", "reject", "remember", "recall", "get", "list", "history", "purge"}
    calls |= {"forget", "forget_source", "export", "import"}
    for call in calls:
        assert f'"call {call}": ' in zh, call
        assert f'"call {call}": ' in en, call
