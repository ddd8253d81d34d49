"""An exported page in Chromium: as wide as its screen, quiet, accessible in light and dark, and foldable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.browsing import CHROMIUM, WATCH
from stratalog.interop.export_formats import exported
from stratalog.keys import session_key
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    Image,
    Note,
    Reasoning,
    System,
    Text,
    ToolCall,
    ToolResult,
    TurnEnd,
    User,
)

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
if not CHROMIUM.exists():
    pytest.skip("Chromium is not installed", allow_module_level=True)

KEY = session_key("claude-code", "import", "7c1f0a52-9d1b-4c1a-8d7e-2f1f9a0b6c11")
GIF = bytes.fromhex("47494638396101000100800000000000ffffff2c00000000010001000002024401003b")
WORDS = """### The fix

1. It refills *lazily*.

| case | before | after | and a column with many words in it that does not fit |
|---|--:|:-:|---|
| burst | 97 refused | 0 refused | `a_very_long_name_that_cannot_be_broken_anywhere_at_all_in_the_table` |

```python
tokens = min(self.rate, self.tokens + (now() - self.at) * self.rate)  # a line that does not fit on a phone
```

[the issue](https://a.example/12) <script>alert(1)</script> ![x](https://a.example/x.png)"""


def talk() -> list[AnyEntry]:
    entries: list[AnyEntry] = [
        System(content="You are careful. " * 20),
        User(content="How is it built?"),
        Assistant(content=(Reasoning(text="Look first."), Text(text="Let me look.")), model="a-model"),
        ToolCall(call_id="1", name="mcp__a_long_name__" + "x" * 60, args={"command": "ls " + "y" * 200}),
        ToolResult(call_id="1", content="z" * 500),
        ToolCall(call_id="2", name="Read", args={"path": "/etc/shadow"}),
        ToolResult(call_id="2", content="denied", error=True),
        Assistant(content=WORDS),
        Compaction(summary="It is a **token bucket**.", by="a-model"),
        User(content=(Text(text="这张图是什么意思？"), Image(media_type="image/gif", data=GIF))),
        Assistant(content="图中是**令牌数**。\n\n- 绿色\n- 蓝色"),
        User(content="ما معنى هذا؟ `ValueError`"),
        Assistant(content="هذا يعني:\n\n1. تحقق\n2. أعد\n\n> اقتباس"),
        User(content="and " + "w" * 300),
        TurnEnd(status="interrupted", detail="no reply"),
        Note(kind="import", text="odd", data={"a": [1]}),
        User(content="last"),
    ]
    return [_stamped(entry, seq) for seq, entry in enumerate(entries, 1)]


def _stamped(entry: Any, seq: int) -> AnyEntry:
    made: AnyEntry = type(entry)(
        **{**{name: getattr(entry, name) for name in entry.__struct_fields__}, "seq": seq, "id": f"i{seq}"}
        | {"ts": 1_736_935_200_000 + seq * 61_000}
    )
    return made


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_bytes(b"".join(exported("html", KEY, "How the rate limiter is built", talk())))
    return path.as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield made
        made.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_the_page(browser: Any, address: str, width: int, scheme: str) -> None:
    """Closed and with all that opens open: nothing sticks out, axe finds nothing, nothing is asked for, and
    the policy had nothing to forbid."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.add_init_script(WATCH)
    tab = context.new_page()
    said: list[str] = []
    tab.on("request", lambda request: said.append(request.url))
    tab.on("console", lambda message: said.append(message.text))
    tab.goto(address)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    tab.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    found = axe.Axe().run(tab)
    assert found.violations_count == 0, found.generate_report()
    assert [each for each in said if not each.startswith("data:")] == [address]
    assert tab.evaluate("window.broken") == []
    context.close()


def test_it_reads_without_script_and_by_its_anchors(browser: Any, address: str) -> None:
    """With scripts off, an anchor within a fold opens it, and Arabic begins at the right."""
    context = browser.new_context(viewport={"width": 800, "height": 900}, java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"{address}#e2")
    tab.locator("#e2").wait_for(state="visible")
    item = tab.locator("li", has_text="تحقق").bounding_box()
    body = tab.locator("#e13 .body").first.bounding_box()
    assert item["x"] + item["width"] < body["x"] + body["width"] - 10
    assert tab.locator("figure img").evaluate("(image) => image.naturalWidth") == 1
    context.close()
