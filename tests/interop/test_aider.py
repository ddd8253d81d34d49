"""Aider's Markdown: sessions, prompts of several lines, commands, what aider says, tokens."""

from __future__ import annotations

from pathlib import Path

from interop.samples import ids, of, outline, read
from stratalog.interop.contract import Transcript
from stratalog.interop.detect import find_transcripts
from stratalog.types import Assistant, Note, Usage, User

HISTORY = """
# aider chat started at 2025-03-01 09:00:00

> Aider v0.75.1  
> Main model: gpt-4o with diff edit format  
> Git repo: .git with 12 files  

#### /add a.py  

> Added a.py to the chat  

#### Say hello  
#### in two lines  

# A heading of the reply

hello

```python
print("hello")
```

> Tokens: 2.1k sent, 1,200 cache write, 800 cache hit, 300 received. Cost: $0.01 message, $0.01 session.  
> Applied edit to a.py  

# aider chat started at 2025-03-02 10:00:00

#### /ask why?  

Because.
"""


def load(text: str = HISTORY) -> Transcript:
    return read("aider", text.encode(), ".aider.chat.history.md")


def test_history() -> None:
    """Each start is a session by its time; headings and code of a reply stay in it."""
    first, second = load().sessions
    assert (first.chat, second.chat) == ("2025-03-01T09:00:00", "2025-03-02T10:00:00")
    assert outline(first) == [
        ("note", "aider"),
        ("user", "/add a.py"),
        ("note", "aider"),
        ("user", "Say hello\nin two lines"),
        ("assistant", '# A heading of the reply\n\nhello\n\n```python\nprint("hello")\n```'),
        ("note", "aider"),
        ("turn_end", "answered"),
    ]
    assert [(one.meta or {}).get("injected") for one in of(User, first)] == [True, None]
    assert [one.text for one in of(Note, first)][1:] == ["Added a.py to the chat", "Applied edit to a.py"]
    (said,) = of(Assistant, first)
    assert (said.model, said.ts) == ("gpt-4o", 1_740_819_600_000)
    assert said.usage == Usage(input=2100, output=300, cache_read=800, cache_write=1200)
    assert first.meta == {"version": "0.75.1", "model": "gpt-4o"}
    assert [text for _, text in outline(second)] == ["/ask why?", "Because.", "answered"]
    assert not (of(User, second)[0].meta or {}).get("injected")


def test_growth() -> None:
    """What aider appends changes no id of what stood there before."""
    whole = ids(load())
    typed = ("#### /add", "#### Say", "# A head", "#### /ask")
    for mark in ("> Main", "> Git", "> Added", "> Tokens", "> Applied", *typed):
        part = HISTORY.partition(mark)[0]
        assert ids(load(part)) <= whole, mark


def test_same_start() -> None:
    """Two sessions of one second are two."""
    text = "# aider chat started at 2025-03-01 09:00:00\n\n#### a  \n\nb\n"
    chats = [session.chat for session in load(text + text).sessions]
    assert chats == ["2025-03-01T09:00:00", "2025-03-01T09:00:00#2"]


def test_folder_takes_no_other_markdown(tmp_path: Path) -> None:
    """Naming a folder finds the history and leaves the other Markdown there is."""
    for name in ("README.md", ".aider.chat.history.md", "docs/a.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(HISTORY)
    assert find_transcripts([tmp_path]) == [tmp_path / ".aider.chat.history.md"]
