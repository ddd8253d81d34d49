"""A log store for the length of a test, which checks its own promises when the test is done.

    def test_mine(tmp_path):
        with temporary_store(JsonlStore(tmp_path)) as store:
            store.append(key, [User(content="hello")])

When the block ends without an error, every session is read again from the disk and verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from stratalog.keys import SessionKey
from stratalog.log.contract import LogStore, Problem, Verification


class VerifiedStore(LogStore, Protocol):
    """A store that can be verified and closed, as all that Stratalog ships can."""

    def verify(self, key: SessionKey) -> Verification: ...

    def close(self) -> None: ...


_S = TypeVar("_S", bound=VerifiedStore)


@contextmanager
def temporary_store(store: _S) -> Iterator[_S]:
    """The store for a `with` block; then every session is verified, and the store closed.

    Raises `AssertionError` with every problem that was found.
    """
    try:
        yield store
        problems = unsound(store)
        assert not problems, "\n".join(str(problem) for problem in problems)
    finally:
        store.close()


def unsound(store: VerifiedStore) -> list[Problem]:
    """What verifying every session of the store finds wrong."""
    return [problem for key in list(store.sessions()) for problem in store.verify(key).problems]
