"""memory/items.py: namespaces are exact whatever their segments are."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.memory.items import Items, Put, namespace_of, path_of

segments = st.text(st.sampled_from("ab%_.*\0\1\2/é\ud800😀'"), max_size=3)
namespaces = st.lists(segments, max_size=4).map(tuple)


@given(namespaces, namespaces)
def test_a_namespace_is_stored_so_that_it_can_be_told_and_ordered(
    one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    """It is read as it was given, ordered as tuples are, and begins with another if and only if its segments
    do."""
    assert namespace_of(path_of(one)) == one
    assert (path_of(one) < path_of(other)) == (one < other)
    assert path_of(one).startswith(path_of(other)) == (one[: len(other)] == other)


@settings(deadline=None, max_examples=25)
@given(st.sets(namespaces, max_size=12), namespaces)
def test_what_is_below_a_namespace(there: set[tuple[str, ...]], prefix: tuple[str, ...]) -> None:
    """Exactly the namespaces whose first segments are those, in order."""
    with TemporaryDirectory() as directory, closing(Items(Path(directory) / "items.sqlite3")) as items:
        items.write([Put(each, "k", b"{}") for each in sorted(there)], 1)
        wanted = [each for each in sorted(there) if each[: len(prefix)] == prefix]
        assert items.namespaces(prefix) == wanted
        assert [each.namespace for each in items.below(prefix)] == wanted
        assert [each.namespace for each in items.below(prefix, offset=1, limit=2)] == wanted[1:3]


def test_an_item_that_goes_leaves_nothing(tmp_path: Path) -> None:
    """A namespace goes with its last item, and a purge of a user takes what is below the name, not beside."""
    items = Items(tmp_path / "items.sqlite3")
    for namespace in (("users", "ana"), ("users", "anabel"), ("ana", "x"), ("a", "b", "ana", "c")):
        items.write([Put(namespace, "k", b'{"secret":1}', None, (("$", b"1234"),))], 5)
    items.write([Put(("users", "anabel"), "k", None)], 6)
    assert items.namespaces() == [("a", "b", "ana", "c"), ("ana", "x"), ("users", "ana")]
    assert items.purge(users=["ana"], dry_run=True) == {"items": 3}
    assert items.purge(users=["ana"]) == {"items": 3}
    assert items.namespaces() == []
    items.close()
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.iterdir())
