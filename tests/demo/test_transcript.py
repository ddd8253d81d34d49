"""The shipped transcript is what the demo says of it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from stratalog import Stratalog
from stratalog.demo import transcript_path
from stratalog.interop.detect import read_transcript
from stratalog.interop.ingest import import_files
from stratalog.types import Compaction, ToolCall, ToolResult, User


def test_it_is_a_whole_transcript() -> None:
    """Every line is a record whose parent is before it, in order of time."""
    records = [json.loads(line) for line in transcript_path().read_bytes().splitlines()]
    seen: set[str] = set()
    for record in records:
        if record.get("uuid"):
            parent = record["parentUuid"]
            assert parent is None or parent in seen or record.get("logicalParentUuid")
            seen.add(record["uuid"])
    times = [record["timestamp"] for record in records if "timestamp" in record]
    assert times == sorted(times)


def test_it_has_what_the_demo_shows() -> None:
    """At least 300 entries with answered tool calls, one compaction, and prompts in English and Chinese."""
    (session,) = read_transcript(transcript_path()).sessions
    kinds = Counter(type(entry) for entry in session.entries)
    assert len(session.entries) >= 300
    assert kinds[Compaction] == 1
    assert kinds[ToolCall] >= 100
    assert {e.call_id for e in session.entries if isinstance(e, ToolCall)} == {
        e.call_id for e in session.entries if isinstance(e, ToolResult)
    }
    prompts = [e.text for e in session.entries if isinstance(e, User) and not (e.meta or {}).get("injected")]
    chinese = [text for text in prompts if any("\u4e00" <= char <= "\u9fff" for char in text)]
    assert len(prompts) >= 25
    assert 8 <= len(chinese) < len(prompts)


def test_questions_find_their_answers(tmp_path: Path) -> None:
    """Questions in both languages bring the turn that answers them among the first three."""
    questions = {
        "When is the launch for Nordlys and the code freeze?": "9 October 2026",
        "Why did rc1 fail its health check on staging?": "REDIS_URL",
        "Which place had the wrong zone, Atlantic/Azores?": "Lisboa",
        "谁对花生过敏？": "花生",
        "林悦什么时候请假去成都？": "下周三",
        "顺丰的事件晚了几个小时？": "8 个小时",
    }
    with Stratalog(tmp_path) as memory:
        assert [result.error for result in import_files(memory, [transcript_path()])] == [None]
        for question, answer in questions.items():
            texts = []
            for found in memory.search(question, limit=3):
                session = memory.session(found.hit.session)
                seq = found.hit.seq
                (entry,) = session.entries(after=seq - 1, before=seq + 1, generations="all")
                texts.append(getattr(entry, "text", "") or str(getattr(entry, "summary", "")))
            assert any(answer in text for text in texts), (question, texts)
