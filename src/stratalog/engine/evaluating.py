"""Measuring the search on a data set: each conversation in a data directory of its own, which is gone after,
through the same calls as everything else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from stratalog.config import RecallSettings, Settings
from stratalog.engine.core import Stratalog
from stratalog.engine.embedding import embed
from stratalog.engine.remembering import Records
from stratalog.recall.documents import words_of
from stratalog.recall.evaluating import KS, Row, Sheet, Talk, locomo, squad
from stratalog.tokens.rough import count_text
from stratalog.types import AnyEntry, Assistant, User

__all__ = ["KS", "Measured", "Row", "Talk", "locomo", "measured", "squad"]
_AGENT = "eval:data"
_TOKENS_OF = 10  # hits whose tokens are counted


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The rows, and what it took: seconds to log and index and to embed, milliseconds a search (mean and the
    95th of 100), and the tokens of the words of the first 10 hits (mean, counted roughly)."""

    turns: int
    questions: int
    rows: list[Row]
    index_s: float
    embed_s: float
    search_ms: float
    search_ms_p95: float
    tokens: float


def measured(
    talks: Sequence[Talk], *, embedder: str = "", progress: Callable[[int, int], None] | None = None
) -> Measured:
    """Searches for every question; `embedder` is as in the settings. Raises what the embedder does."""
    settings = Settings(sync="never", recall=RecallSettings(embedder=embedder))
    sheet, took, tokens = Sheet(), list[float](), list[int]()
    index_s = embed_s = 0.0
    for number, talk in enumerate(talks):
        with (
            TemporaryDirectory(prefix="stratalog-eval-") as place,
            Stratalog(Path(place), settings=settings) as memory,
        ):
            began = time.perf_counter()
            ids = _logged(memory, talk)
            memory.bring_up_to_date()
            index_s += time.perf_counter() - began
            if embedder:
                began = time.perf_counter()
                _embedded(memory)
                embed_s += time.perf_counter() - began
            for question in talk.asked:
                began = time.perf_counter()
                found = memory.search(question.text, limit=max(KS))
                took.append((time.perf_counter() - began) * 1000)
                hits = [ids[str(each.hit.session), each.hit.entry_id] for each in found]
                sheet.add(talk, question, [id for id, _ in hits])
                tokens.append(sum(count for _, count in hits[:_TOKENS_OF]))
        if progress is not None:
            progress(number + 1, len(talks))
    took.sort()
    return Measured(
        turns=sum(len(talk.said) for talk in talks),
        questions=len(took),
        rows=sheet.rows(),
        index_s=index_s,
        embed_s=embed_s,
        search_ms=sum(took) / len(took) if took else 0.0,
        search_ms_p95=took[int(len(took) * 0.95)] if took else 0.0,
        tokens=sum(tokens) / len(tokens) if tokens else 0.0,
    )


def _logged(memory: Stratalog, talk: Talk) -> dict[tuple[str, str], tuple[str, int]]:
    """Logs the talk, a session for each of its own; for each entry, the turn that it is and its tokens."""
    sessions: dict[str, list[tuple[str, AnyEntry]]] = {}
    for each in talk.said:
        meta = {"name": each.speaker} if each.speaker else None
        text = f"{each.speaker}: {each.text}" if each.speaker else each.text
        made = (User if each.first else Assistant)(content=text, ts=each.ts, meta=meta)
        sessions.setdefault(each.session, []).append((each.id, made))
    ids: dict[tuple[str, str], tuple[str, int]] = {}
    for name, entries in sessions.items():
        session = memory.session(f"{_AGENT}:{name}")
        stored = session.append(*(entry for _, entry in entries))
        for (id, _), entry in zip(entries, stored, strict=True):
            ids[str(session.key), entry.id] = id, count_text(words_of(entry))
    return ids


def _embedded(memory: Stratalog) -> None:
    with Records(memory) as records:
        while embed(memory, records, charge=lambda texts: None).left:
            pass
