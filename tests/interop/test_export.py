"""Markdown that people can read and that nothing in an entry can break."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from interop.samples import withdrawn_talk
from interop.test_native import ENTRIES
from stratalog.interop.export import to_jsonl, to_markdown
from stratalog.keys import session_key
from stratalog.types import (
    AnyEntry,
    Assistant,
    Blob,
    Compaction,
    File,
    Image,
    Note,
    Reasoning,
    System,
    Text,
    Title,
    ToolCall,
    ToolResult,
    TurnEnd,
    Unknown,
    User,
    WorkingMemory,
)

KEY = session_key("agent", "import", "chat")
TS = 1_736_935_200_123
TIME = "2025-01-15T10:00:00.123Z"


def show(*entries: AnyEntry, title: str = "A talk") -> str:
    return "".join(to_markdown(KEY, title, entries))


def test_whole() -> None:
    """A conversation as it reads."""
    made = show(
        System(ts=TS, content="Be kind."),
        User(ts=TS, content="look"),
        Assistant(ts=TS, model="m", content=(Reasoning(text="hm"), Text(text="looking"))),
        ToolCall(ts=TS, call_id="1", name="look", args={"at": "sky"}),
        ToolResult(ts=TS, call_id="1", name="look", content="blue"),
        TurnEnd(ts=TS, status="answered"),
        Compaction(ts=TS, summary="We looked.\n\nIt was blue."),
        User(ts=TS, content="on", meta={"injected": True}),
        TurnEnd(ts=TS, status="timed_out"),
        Title(ts=TS, title="Sky"),
        Note(ts=TS, kind="import", text="odd"),
        WorkingMemory(ts=TS, op="set", key="k", value=1),
        Unknown(ts=TS, kind="dream"),
    )
    assert (
        made
        == f"""\
# A talk

`local/agent:import:chat`

## System

*{TIME}*

Be kind.

## User

*{TIME}*

look

## Assistant

*{TIME}, `m`*

<details><summary>Reasoning</summary>

hm

</details>

looking

## Call: `look`

*{TIME}*

```json
{{
  "at": "sky"
}}
```

<details><summary>Result of look, {TIME}</summary>

```
blue
```

</details>

> **Summary of what came before**, {TIME}
>
> We looked.
>
> It was blue.

## User (injected)

*{TIME}*

on

*The turn was timed out*

*Titled* Sky

*Note (import), {TIME}*

> odd

*Working memory: set `k`*

```json
1
```

*An entry of the unknown type `dream`*
"""
    )


def test_what_was_withdrawn_says_so() -> None:
    """Each message, call and result that a later note withdraws is whole, and marked; others are not."""
    said = withdrawn_talk()
    made = show(*said)
    for head in ("## System (withdrawn)", "## User (withdrawn)", "## Call: `look` (withdrawn)"):
        assert f"{head}\n" in made
    assert f"Error of look (withdrawn), {TIME}" in made
    assert made.count("(withdrawn)") == 5 + made.count("Note (withdrawn)")
    for words in ("gone rule", "gone words", "gone place", "gone sight", "gone reply", "said again"):
        assert words in made
    assert "(withdrawn)" not in show(*said[:-3]).replace("Note (withdrawn)", "")


@given(st.text(alphabet="`a\n", max_size=30))
def test_fence(words: str) -> None:
    """The fence around a result is longer than any run of ticks inside it."""
    made = show(ToolResult(call_id="1", content=words or "x"))
    fences = re.findall(r"^(`{3,})$", made, re.MULTILINE)
    longest = max((len(run) for run in re.findall("`+", words)), default=0)
    assert len(fences[0]) > longest
    assert fences[0] == fences[-1]


def test_payloads_are_named() -> None:
    """Pictures, files and what is kept out of line are named, not inlined."""
    blob = Blob(sha256="ab", size=5_000)
    made = show(
        User(
            content=(Image(media_type="image/png", data=b"x" * 2_000), File(name="a.pdf", url="https://x/y"))
        ),
        User(content=(Image(url="data:image/png;base64,AAAA"),)),
        Assistant(content="", blob=blob),
        ToolCall(call_id="1", name="f", blob=blob),
        ToolResult(call_id="1", content=(Image(media_type="image/png", blob=blob),)),
    )
    assert "[Image: image/png, 2,000 bytes]" in made
    assert "[File: a.pdf, https://x/y]" in made
    assert "[Image: empty]" in made
    assert "AAAA" not in made
    assert made.count("kept out of line: 5,000 bytes, sha256 ab") == 2
    assert "[Image: image/png, 5,000 bytes]" in made


def test_names_cannot_break_out() -> None:
    """A tool's name or a closing tag in a thought stays inside its place."""
    made = show(
        ToolCall(call_id="1", name="a`b\n# c"),
        ToolResult(call_id="1", name="<b>", content="x"),
        Assistant(content=(Reasoning(text="a </details> b"),)),
        title="two\nlines",
    )
    assert "## Call: `` a`b # c ``" in made
    assert "Result of &lt;b&gt;" in made
    assert made.count("</details>") == 2
    assert made.startswith("# two lines\n")


def test_empty_message_is_left_out() -> None:
    """A message that only carries the tokens of its calls has nothing to show."""
    assert "Assistant" not in show(Assistant(content="", model="m"))


@given(st.lists(ENTRIES, max_size=4))
def test_any_entries(entries: list[AnyEntry]) -> None:
    """Whatever a log holds can be shown and exported."""
    assert show(*entries).startswith("# A talk\n")
    assert len(list(to_jsonl(entries))) == len(entries)
