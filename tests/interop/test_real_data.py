"""Every real transcript that is at hand is imported whole. The data lives outside the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.samples import check, ids, of
from stratalog.interop.contract import Source
from stratalog.interop.detect import FORMATS, find_transcripts, read_transcript
from stratalog.interop.export import to_jsonl, to_markdown
from stratalog.interop.native import from_jsonl
from stratalog.keys import session_key
from stratalog.types import ToolCall, ToolResult, User

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "transcripts"
FILES = find_transcripts([FOLDER]) if FOLDER.is_dir() else []

pytestmark = pytest.mark.skipif(not FILES, reason=f"there are no transcripts at {FOLDER}")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_file(path: Path, tmp_path: Path) -> None:
    """A real file is accounted for, gives the same ids again, also when cut, and comes through an export."""
    transcript = read_transcript(path)
    check(transcript)
    report = transcript.report
    assert transcript.sessions
    assert report.read > 0
    assert not any(skip.kind == "damage" and skip.reason.startswith("not JSON") for skip in report.skipped)
    assert read_transcript(path) == transcript

    for session in transcript.sessions:
        calls = {one.call_id for one in of(ToolCall, session)}
        orphans = [one for one in of(ToolResult, session) if one.call_id not in calls]
        told = f"{session.chat}: {len(orphans)} tool results answer no call in this session"
        assert (told in report.notes) == bool(orphans)
        lines = b"".join(to_jsonl(session.entries))
        assert from_jsonl(Source(path, lines, 1)).sessions[0].entries == session.entries
        key = session_key(session.agent, session.channel, session.chat)
        assert all(piece.endswith("\n") for piece in to_markdown(key, session.title, session.entries))

    if path.suffix == ".jsonl":
        data = path.read_bytes()
        lines_there = data.count(b"\n")
        for count in {1, lines_there // 3, lines_there // 2, lines_there - 1} - {0, -1}:
            cut = b"\n".join(data.split(b"\n")[:count]) + b"\n"
            part = FORMATS[report.format].read(Source(path, cut, 5))
            assert ids(part) <= ids(transcript)


def test_prompts_are_real() -> None:
    """No prompt of any real file is something that a program wrote."""
    for path in FILES:
        for prompt in of(User, read_transcript(path)):
            if not (prompt.meta or {}).get("injected"):
                assert not prompt.text.startswith(
                    ("<command", "<system-", "Caveat:", "<environment", "[Request")
                )
