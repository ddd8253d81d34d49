"""A transcript to try Stratalog on: two days of a bilingual developer's work on a parcel-tracking service."""

from __future__ import annotations

from pathlib import Path


def transcript_path() -> Path:
    """The transcript that ships with the package, in Claude Code's JSONL form."""
    return Path(__file__).with_name("transcript.jsonl")
