"""The model that situates chunks, for the length of a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stratalog import Stratalog
from stratalog.engine.agents import configured
from stratalog.engine.describing import describer
from stratalog.engine.knowing import Describe
from stratalog.engine.remembering import Records
from stratalog.surfaces.cli.choosing import chosen


@contextmanager
def described_by(memory: Stratalog, spec: str) -> Iterator[Describe]:
    """What asks the model that is named, within the tenant's budget. Raises `InvalidConfig`."""
    settings = chosen(memory.settings_of(), spec, "")
    with Records(memory) as records:
        yield describer(records, configured(settings.model, settings))
