"""Runs one benchmark: every system's block once a round, in random order, and what the rounds say."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from lab import Lab
from spec import Block, Row, Spec


class Sample(NamedTuple):
    """What a system's operations cost: the median of each round's block, and p50 and p99 over all rounds."""

    rounds: tuple[float, ...]
    p50: float
    p99: float
    operations: int


class Outcome(NamedTuple):
    """A row with its figure: the median over the rounds, and the quartiles of the rounds as its spread."""

    row: Row
    figure: float
    low: float
    high: float
    met: bool | None


class Result(NamedTuple):
    """A benchmark that was run; `left_out` names systems that could not be measured here."""

    spec: Spec
    samples: dict[str, Sample]
    outcomes: tuple[Outcome, ...]
    left_out: tuple[str, ...]


ENOUGH = 5
"""So many rounds are run however long they take."""


def run(
    spec: Spec, lab: Lab, progress: Callable[[str], None] = lambda text: None, *, seconds: float = math.inf
) -> Result:
    """Runs the benchmark in the lab; `progress` hears what is under way.

    After `seconds` no new round begins.
    """
    chosen = [system for system in spec.systems if lab.peers is not None or not system.peer]
    costs: dict[str, list[Sequence[float]]] = {system.name: [] for system in chosen}
    order = random.Random(spec.name)
    with ExitStack() as stack:
        blocks: dict[str, Block] = {}
        for system in chosen:
            progress(f"{spec.name}: preparing {system.name}")
            blocks[system.name] = stack.enter_context(system.open(lab))
        end = time.monotonic() + seconds
        for number in range(-1, spec.rounds):
            if number >= ENOUGH and time.monotonic() > end:
                break
            progress(f"{spec.name}: round {number + 1} of {spec.rounds}")
            for name in order.sample(list(blocks), len(blocks)):
                cost = blocks[name]()
                if number >= 0:
                    costs[name].append(cost)
    samples = {name: sample_of(blocks) for name, blocks in costs.items()}
    outcomes = tuple(
        outcome_of(row, samples)
        for row in spec.rows
        if row.subject in samples and (not row.beside or row.beside in samples)
    )
    left_out = tuple(system.name for system in spec.systems if system not in chosen)
    return Result(spec, samples, outcomes, left_out)


def sample_of(blocks: Sequence[Sequence[float]]) -> Sample:
    """What the blocks of all rounds say of a system."""
    every = sorted(cost for block in blocks for cost in block)
    return Sample(
        tuple(statistics.median(block) for block in blocks),
        statistics.median(every),
        every[min(len(every) - 1, len(every) * 99 // 100)],
        len(every),
    )


def outcome_of(row: Row, samples: dict[str, Sample]) -> Outcome:
    """The row's figure of each round, and of these the median and the quartiles."""
    subject = samples[row.subject].rounds
    beside = samples[row.beside].rounds if row.beside else subject
    figures = sorted(_figure(row, mine, theirs) for mine, theirs in zip(subject, beside, strict=True))
    quartiles = statistics.quantiles(figures, n=4) if len(figures) > 3 else [figures[0], 0.0, figures[-1]]
    figure = statistics.median(figures)
    met = row.goal.met(figure) if row.goal is not None else None
    return Outcome(row, figure, quartiles[0], quartiles[-1], met)


def _figure(row: Row, mine: float, theirs: float) -> float:
    match row.how:
        case "ratio":
            return mine / theirs
        case "share":
            return theirs / mine
        case "excess":
            return mine - theirs
        case "cost":
            return mine
