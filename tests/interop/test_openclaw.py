"""OpenClaw's sessions: pi's form, told apart, with mirrors and prompts that no person wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interop.samples import grows, ids, jsonl, of, outline, read
from interop.test_pi import HEADER, TREE, entry, message, words
from stratalog.interop.detect import detect
from stratalog.types import Assistant, User

SNAPSHOT = entry("custom", 0, id="s", parentId=None, customType="model-snapshot", data={"modelId": "m"})
SESSION: list[Any] = [
    HEADER,
    SNAPSHOT,
    message(1, "user", words("[Telegram Ana] hello"), "a", "s"),
    message(2, "assistant", words("hi"), "b", "a", model="m"),
    message(3, "assistant", words("sent: hi"), "c", "b", model="delivery-mirror", provider="openclaw"),
    message(4, "user", words("Read HEARTBEAT.md if it exists. Reply HEARTBEAT_OK."), "d", "c"),
    message(5, "assistant", words("HEARTBEAT_OK"), "e", "d", model="m"),
]


def test_session() -> None:
    """Mirrors are the assistant's without a model, heartbeats are injected, the rest is as pi has it."""
    (session,) = read("openclaw", jsonl(*SESSION)).sessions
    assert (session.agent, session.chat) == ("openclaw", "p1")
    assert outline(session)[1:] == [
        ("user", "[Telegram Ana] hello"),
        ("assistant", "hi"),
        ("assistant", "sent: hi"),
        ("user", "Read HEARTBEAT.md if it exists. Reply HEARTBEAT_OK."),
        ("assistant", "HEARTBEAT_OK"),
        ("turn_end", "answered"),
    ]
    assert [(one.model, (one.meta or {}).get("kind")) for one in of(Assistant, session)] == [
        ("m", None),
        ("", "delivery-mirror"),
        ("m", None),
    ]
    assert (of(User, session)[1].meta or {})["injected"] is True
    grows("openclaw", SESSION)


def test_told_from_pi(tmp_path: Path) -> None:
    """A file of pi's own form is OpenClaw's by its folder, and pi's elsewhere; its entries have other ids."""
    inside = tmp_path / "agents" / "main" / "sessions" / "a.jsonl"
    inside.parent.mkdir(parents=True)
    for path in (inside, tmp_path / "a.jsonl"):
        path.write_bytes(jsonl(*TREE))
    assert (detect(inside), detect(tmp_path / "a.jsonl")) == ("openclaw", "pi")
    assert not ids(read("openclaw", jsonl(*TREE))) & ids(read("pi", jsonl(*TREE)))
