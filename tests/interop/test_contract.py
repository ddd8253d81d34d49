"""The values an importer returns."""

from __future__ import annotations

import msgspec
import pytest

from interop.samples import jsonl, read
from stratalog.interop.contract import Report, Transcript


def test_transcript_is_a_value() -> None:
    """A transcript can be written as JSON and read back, and cannot be changed."""
    transcript = read("openai", jsonl({"role": "user", "content": "hi"}, {"odd": 1}))
    raw = msgspec.json.encode(transcript)
    assert msgspec.json.decode(raw, type=Transcript) == transcript
    with pytest.raises(AttributeError):
        transcript.report.read = 0  # type: ignore[misc]


def test_report_adds_up() -> None:
    """The report's counts are the records that were read."""
    report: Report = read("openai", jsonl({"role": "user", "content": "hi"}, {"odd": 1})).report
    assert (report.read, report.used, report.merged, len(report.skipped)) == (2, 1, {}, 1)
    assert report.kept == {"user": 1, "turn_end": 1}
