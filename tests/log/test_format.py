"""docs/format.md against the code: what it shows decodes, what it names exists, and nothing is left out."""

from __future__ import annotations

import re
import typing
import zlib
from pathlib import Path

import msgspec
import pytest

from stratalog import osfiles
from stratalog.errors import NewerFormat
from stratalog.keys import dir_name, session_key, session_paths
from stratalog.log import archive, codec, sqlite, writer
from stratalog.log.jsonl import JsonlStore
from stratalog.types import AnyEntry, Blob, Part, TurnStart, Unknown, Usage, User

PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
SAMPLE = [line.encode() for line in re.search(r"```jsonl\n(.*?)```", PAGE, re.S)[1].splitlines()]  # type: ignore[index] - it is there


def _section(title: str) -> str:
    """The text under a heading, up to the next."""
    return re.split(r"^#+ ", PAGE.split(f"# {title}\n", 1)[1], maxsplit=1, flags=re.M)[0]


def _row(section: str, name: str) -> set[str]:
    """What the table's row for `name` names, in code marks, besides the names of the row."""
    for line in section.splitlines():
        cells = line.split("|")
        if len(cells) > 2 and f"`{name}`" in cells[1]:
            return set(re.findall(r"`([^`]+)`", cells[2]))
    raise AssertionError(f"no row for {name}")


def test_the_sample_decodes() -> None:
    """The header and every entry of the example, with their checksums as the page computes them."""
    header = codec.decode_header(SAMPLE[0])
    entries = [codec.decode(line) for line in SAMPLE[1:]]
    assert header.format == codec.FORMAT
    assert [entry.seq for entry in entries] == list(range(header.base, header.base + len(entries)))
    assert not any(isinstance(entry, Unknown) for entry in entries)
    assert [codec.goes_on(line) for line in SAMPLE[1:]] == [False, False, True, False, False, False, False]
    (start,) = [entry for entry in entries if isinstance(entry, TurnStart)]
    assert start.fence == header.fence + 1
    for line in SAMPLE:
        assert line[8:16] == b"%08x" % zlib.crc32(b"{" + line[18:])
    assert codec.header_line(header) == SAMPLE[0] + b"\n"


def test_the_sample_is_a_log(tmp_path: Path) -> None:
    """Put in its place, the example is read, verified but for what lies before it, and appended to."""
    key = session_key("helper", "telegram", "chat 42")
    paths = session_paths(tmp_path, key)
    osfiles.make_dir(paths.log.parent)
    paths.log.write_bytes(b"\n".join(SAMPLE) + b"\n")
    store = JsonlStore(tmp_path)
    assert [entry.seq for entry in store.read(key, after=2, blobs=False)] == list(range(3, 10))
    assert store.append(key, [User(content="next")])[0].seq == 10
    reasons = [problem.reason for problem in store.verify(key).problems]
    assert reasons[0] == "segment 1 is missing"
    assert len(reasons) == 3  # and entry 3 comes without 1 and 2, and the payload is not there
    store.close()


def test_every_member_of_the_header_is_named() -> None:
    """The table has the header's members, no more and no fewer."""
    rows = re.findall(r"^\| `(\w+)` \|", _section("The header"), re.M)
    assert rows == list(codec.Header.__struct_fields__)


@pytest.mark.parametrize("entry", typing.get_args(AnyEntry), ids=lambda entry: entry.__name__)
def test_every_entry_and_member_is_named(entry: type[msgspec.Struct]) -> None:
    """Each type has its row, and in it every member that is not every entry's."""
    section = _section("Entries").split("Parts of a content")[0]
    common = {"seq", "id", "ts", "turn", "meta"}
    for name in common:
        assert f"`{name}`" in section
    if entry is Unknown:
        assert "`Unknown`" in section
        return
    assert _row(section, str(entry.__struct_config__.tag)) >= set(entry.__struct_fields__) - common


@pytest.mark.parametrize("part", typing.get_args(Part), ids=lambda part: part.__name__)
def test_every_part_and_member_is_named(part: type[msgspec.Struct]) -> None:
    """Each kind of part has its row with all its members."""
    section = _section("Entries").split("Parts of a content")[1]
    assert _row(section, str(part.__struct_config__.tag)) == set(part.__struct_fields__)


def test_choices_references_and_usage_are_named() -> None:
    """The values of members that have few, the members of a reference and of a usage."""
    for entry in typing.get_args(AnyEntry):
        for field in msgspec.structs.fields(entry):
            if typing.get_origin(field.type) is typing.Literal:
                for value in typing.get_args(field.type):
                    assert f"`{value}`" in PAGE
    for name in (*Blob.__struct_fields__, *Usage.__struct_fields__):
        assert f"`{name}`" in PAGE


def test_figures_are_those_of_the_code() -> None:
    """Thresholds, sizes and marks that the page states."""
    assert f"{codec.BLOB_THRESHOLD:,} bytes (`blob_threshold`)" in PAGE
    assert f"its first {codec._PREVIEW:,} characters" in PAGE
    assert f"at most {archive.PIECE:,} bytes" in PAGE
    assert f"`{writer.DELETED}` marker" in PAGE
    assert f"`{osfiles.TEMPORARY}`" in PAGE
    assert f"format **{codec.FORMAT}**" in PAGE
    assert f"`application_id` {sqlite._APPLICATION:#x}, `user_version` {sqlite._VERSION}" in PAGE
    assert "`log.sqlite3`" in PAGE or sqlite.FILE in PAGE
    assert archive.piece_path(Path("a"), 3, 17).name == "00000003-17.jsonl"
    assert re.search(rf"^\| {codec.FORMAT} \|", _section("Versions"), re.M)


def test_names_are_as_stated() -> None:
    """The table of names is what the code makes, and the suffixes are those of the files."""
    for value, name in re.findall(r"^\| `(.+)` \| `(.+)` \|", _section("Names"), re.M):
        assert dir_name(value) == name
    paths = session_paths(Path(), session_key("a", "telegram", "Chat 42"))
    assert paths.log.name == "telegram~=43hat=2042.jsonl"
    for path in paths:
        assert f"<stem>{path.name[path.name.index('.') :]}" in PAGE


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    """The example with the next format number is left untouched."""
    key = session_key("helper", "telegram", "chat 42")
    paths = session_paths(tmp_path, key)
    osfiles.make_dir(paths.log.parent)
    newer = msgspec.structs.replace(codec.decode_header(SAMPLE[0]), format=codec.FORMAT + 1)
    paths.log.write_bytes(codec.header_line(newer) + b"\n".join(SAMPLE[1:]) + b"\n")
    before = paths.log.read_bytes()
    store = JsonlStore(tmp_path)
    with pytest.raises(NewerFormat):
        store.append(key, [User(content="a")])
    assert paths.log.read_bytes() == before
