"""`kb`: documents, added, listed, shown, searched and removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from stratalog import Stratalog
from stratalog.engine.knowing import (
    DEFAULT,
    Chunk,
    Describe,
    Document,
    Format,
    Knowledge,
    Passage,
    Put,
    Shelf,
    knowledge_of,
)
from stratalog.errors import InvalidInput, StorageFailed, StratalogError
from stratalog.surfaces.cli.documents import Named, Passed, content, looked_up
from stratalog.surfaces.cli.failures import WRONG
from stratalog.surfaces.cli.loading import describing, passages
from stratalog.surfaces.cli.output import Output, plain_table
from stratalog.surfaces.cli.plain import counted, unicode_text, utf8
from stratalog.surfaces.cli.state import State
from stratalog.surfaces.cli.times import minute

_NAMED = 20  # of what is passed over, told by name

CollectionOption = Annotated[
    str | None, typer.Option("--collection", "-c", metavar="NAME", help="Only in this collection.")
]
DocumentArgument = Annotated[
    str, typer.Argument(metavar="DOC", help="The document: its id or its name.", show_default=False)
]


class Added(msgspec.Struct):
    """What became of the files."""

    puts: list[Put]
    skipped: list[Passed]
    failed: list[tuple[str, StratalogError]]


def add_command(
    state: State,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Documents, and directories of them.")
    ],
    collection: Annotated[
        str,
        typer.Option("--collection", "-c", metavar="NAME", help="The collection; made when new."),
    ] = DEFAULT,
    format: Annotated[
        Format | None, typer.Option("--format", help="What they are, where name and content say otherwise.")
    ] = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", metavar="", help="Directories within directories too.")
    ] = False,
    glob: Annotated[
        str, typer.Option("--glob", metavar="PATTERN", help="Of directories, only files named like this.")
    ] = "",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="What to call the one document. Else its path.")
    ] = "",
    describe: Annotated[
        str,
        typer.Option("--describe", metavar="MODEL", help="A model that situates each chunk in a sentence."),
    ] = "",
) -> None:
    """Add documents, or bring those that are there up to date. Exit code 1 when some could not be read."""
    if name and (len(paths) != 1 or paths[0].is_dir()):
        raise InvalidInput("a name is for one document", hint="give one file, or leave --name out")
    out = state.output
    added = Added([], [], [])
    with state.memory() as memory, knowledge_of(memory) as knowledge, _model(memory, describe) as ask:
        found = list(looked_up(paths, recursive=recursive, glob=utf8(glob)))
        with out.progress(f"adding {counted(len(found), 'document')}") as told:
            for done, each in enumerate(found, 1):
                _add(knowledge, added, each, utf8(collection), format, utf8(name), ask)
                if told is not None:
                    told(done, len(found))
        if any(put.removed for put in added.puts):
            knowledge.scrub()
    _tell_added(out, added)
    state.finish(_added_value(collection, added))
    if added.failed:
        raise typer.Exit(WRONG)


def list_command(state: State, collection: CollectionOption = None) -> None:
    """List the documents, by collection and name."""
    out = state.output
    with _opened(state) as knowledge:
        documents = knowledge.documents(None if collection is None else utf8(collection))
        shelves = [each for each in knowledge.collections() if collection in (None, each.name)]
    if not out.json:
        _print_documents(out, documents)
        _tell_shelves(out, shelves)
    state.finish(
        {
            "documents": [_document_value(each) for each in documents],
            "collections": [msgspec.structs.asdict(each) for each in shelves],
        }
    )


def show_command(state: State, document: DocumentArgument, collection: CollectionOption = None) -> None:
    """Show a document, chunk by chunk."""
    out = state.output
    with _opened(state) as knowledge:
        found = knowledge.find(utf8(document), collection)
        chunks = knowledge.chunks(found.id)
    if not out.json:
        _print_document(out, found)
        for chunk in chunks:
            out.print()
            out.print(Text(out.line(_heading(found, chunk)), "bold cyan"))
            if chunk.sentence:
                out.print(Text(out.line(chunk.sentence), "dim"))
            out.print(out.wrap(out.text(chunk.text)))
    state.finish(_document_value(found) | {"chunks": [msgspec.structs.asdict(each) for each in chunks]})


def search_command(
    state: State,
    query: Annotated[list[str], typer.Argument(metavar="QUERY...", help="Words, in any language.")],
    collection: Annotated[
        list[str] | None,
        typer.Option(
            "--collection", "-c", metavar="NAME", help="Only in this collection; may be said again."
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=100, help="How many.")] = 10,
    neighbours: Annotated[
        int, typer.Option("--context", metavar="N", min=0, max=20, help="With so many chunks around each.")
    ] = 0,
    words_only: Annotated[
        bool, typer.Option("--words", metavar="", help="By words alone, also where there are vectors.")
    ] = False,
) -> None:
    """Search the documents, the best passage first. Exit code 1 when nothing is found."""
    out = state.output
    words = utf8(" ".join(query))
    narrowed = None if not collection else [utf8(each) for each in collection]
    with state.memory() as memory:
        found = passages(
            memory, words, limit, meaning=not words_only, collections=narrowed, neighbours=neighbours
        )
    if not out.json:
        for passage in found:
            _print_passage(out, passage)
        if not found:
            out.tell("nothing is found")
    state.finish({"hits": [_passage_value(each) for each in found]})
    if not found:
        raise typer.Exit(WRONG)


def remove_command(
    state: State,
    document: Annotated[
        str,
        typer.Argument(
            metavar="DOC",
            help="The document: its id or its name. Else a whole --collection.",
            show_default=False,
        ),
    ] = "",
    collection: Annotated[
        str | None,
        typer.Option("--collection", "-c", metavar="NAME", help="Where it is; without DOC, all of it."),
    ] = None,
) -> None:
    """Remove a document, or a collection, with all that was made of it."""
    if not document and collection is None:
        raise InvalidInput("say what to remove", hint="a document, or --collection")
    with _opened(state) as knowledge:
        if document:
            gone = knowledge.remove(knowledge.find(utf8(document), collection).id)
            removed = {"documents": 1, "chunks": gone.chunks}
        else:
            shelf = knowledge.remove_collection(utf8(collection or ""))
            removed = {"documents": shelf.documents, "chunks": shelf.chunks}
        knowledge.scrub()
    state.output.tell(
        f"removed {counted(removed['documents'], 'document')}, {counted(removed['chunks'], 'chunk')}"
    )
    state.finish({"removed": removed})


ABOUT = "Documents: what there is to read up, beside what was said. Without a command, the list."
COMMANDS = (
    ("add", add_command),
    ("list", list_command),
    ("show", show_command),
    ("search", search_command),
    ("remove", remove_command),
)


# --- doing ---


@contextmanager
def _opened(state: State) -> Iterator[Knowledge]:
    with state.memory() as memory, knowledge_of(memory) as knowledge:
        yield knowledge


@contextmanager
def _model(memory: Stratalog, spec: str) -> Iterator[Describe | None]:
    with ExitStack() as stack:
        yield stack.enter_context(describing(memory, spec)) if spec else None


def _add(
    knowledge: Knowledge,
    added: Added,
    each: Named | Passed | InvalidInput,
    collection: str,
    format: Format | None,
    name: str,
    describe: Describe | None,
) -> None:
    """Adds one file; what is wrong with it is noted, and what is wrong with the store is raised."""
    if isinstance(each, Passed):
        added.skipped.append(each)
        return
    if isinstance(each, InvalidInput):
        added.failed.append((str(each.where.get("path", "")), each))
        return
    try:
        data = content(each)
    except (InvalidInput, StorageFailed) as error:
        added.failed.append((str(each.path), error))
        return
    if isinstance(data, Passed):
        added.skipped.append(data)
        return
    try:
        put = knowledge.put(
            collection, name or utf8(each.path.as_posix()), data, format=format, describe=describe
        )
    except InvalidInput as error:
        added.failed.append((str(each.path), error))
        return
    added.puts.append(put)


# --- telling ---


def _added_value(collection: str, added: Added) -> dict[str, Any]:
    outcomes = ("added", "updated", "unchanged")
    return {"collection": unicode_text(collection)} | {
        **{name: sum(put.outcome == name for put in added.puts) for name in outcomes},
        "documents": [
            {"id": put.document.id, "name": put.document.name, "format": put.document.format}
            | {"outcome": put.outcome, "chunks": put.document.chunks, "chunks_added": put.added}
            | {"chunks_kept": put.kept, "chunks_removed": put.removed, "truncated": put.document.truncated}
            | {"notes": list(put.notes)}
            for put in added.puts
        ],
        "skipped": [{"path": unicode_text(each.path), "reason": each.reason} for each in added.skipped],
        "failed": [
            {"path": unicode_text(path), "error": unicode_text(error.what), "hint": unicode_text(error.hint)}
            for path, error in added.failed
        ],
    }


def _tell_added(out: Output, added: Added) -> None:
    if out.json:
        return
    for put in added.puts:
        if put.outcome != "unchanged":
            chunks = f"{put.added:,} new, {put.kept:,} kept, {put.removed:,} removed"
            out.print(Text.assemble(f"{put.outcome} ", (out.line(put.document.name), "cyan"), f"  {chunks}"))
        for note in put.notes:
            out.warn(f"{put.document.name}: {note}")
    for passed in added.skipped[:_NAMED]:
        out.tell(f"passed over {out.line(str(passed.path))}: {passed.reason}")
    if len(added.skipped) > _NAMED:
        out.tell(f"passed over {len(added.skipped) - _NAMED:,} more; --json has each")
    for path, error in added.failed:
        hint = f". {error.hint}" if error.hint else ""
        out.tell(Text.assemble(("not added: ", "bold red"), out.line(f"{path}: {error.what}{hint}")))
    said = [
        f"{number:,} {name}"
        for name in ("added", "updated", "unchanged")
        if (number := sum(put.outcome == name for put in added.puts))
    ]
    out.tell(", ".join(said) if said else "nothing was added")


def _tell_shelves(out: Output, shelves: Sequence[Shelf]) -> None:
    for each in shelves:
        counts = f"{counted(each.documents, 'document')}, {counted(each.chunks, 'chunk')}"
        out.tell(f"{out.line(each.name)}: {counts}, {each.bytes:,} bytes")
    if not shelves:
        out.tell("no documents yet: `stratalog kb add PATH`")


def _print_documents(out: Output, documents: Sequence[Document]) -> None:
    if not documents:
        return
    table = plain_table("id", "collection", "name")
    for heading in ("chunks", "bytes"):
        table.add_column(heading, justify="right")
    table.add_column("updated")
    for each in documents:
        table.add_row(
            Text(each.id, "cyan"),
            Text(out.line(each.collection)),
            Text(out.line(each.name), overflow="fold"),
            f"{each.chunks:,}",
            f"{each.bytes:,}",
            minute(each.updated_at),
        )
    out.table(table)


def _print_document(out: Output, document: Document) -> None:
    facts = [
        *(("id", document.id), ("collection", document.collection), ("name", document.name)),
        *(("title", document.title), ("type", document.media_type), ("sha256", document.sha256)),
        *(("bytes", f"{document.bytes:,}"), ("chunks", f"{document.chunks:,}")),
        *(("added", minute(document.added_at)), ("updated", minute(document.updated_at))),
    ]
    for name, value in facts:
        if value:
            out.print(Text.assemble((f"{name:<12}", "dim"), out.line(value)))


def _print_passage(out: Output, passage: Passage) -> None:
    where = _place(passage.document, passage.chunk)
    name = out.line(passage.document.name) + (f", {where}" if where else "")
    score = f"  {passage.score:.2f}" if passage.score else "  by meaning"
    out.print(Text.assemble((name, "bold cyan"), score))
    if passage.chunk.prefix:
        out.print(Text(out.line(passage.chunk.prefix), "dim"), indent=2)
    if passage.before or passage.after:
        for each in (*passage.before, passage.chunk, *passage.after):
            out.print(out.wrap(out.text(each.text), 2), indent=2)
    else:
        out.print(out.line(passage.snippet), indent=2)


def _heading(document: Document, chunk: Chunk) -> str:
    where = _place(document, chunk)
    return f"{chunk.ordinal + 1}. {chunk.prefix}" + (f" ({where})" if where else "")


def _place(document: Document, chunk: Chunk) -> str:
    """Where in the document it stands, in words."""
    if not document.unit or not chunk.first:
        return ""
    if chunk.first == chunk.last:
        return f"{document.unit} {chunk.first:,}"
    return f"{document.unit}s {chunk.first:,}-{chunk.last:,}"


def _document_value(document: Document) -> dict[str, Any]:
    return msgspec.structs.asdict(document)


def _passage_value(passage: Passage) -> dict[str, Any]:
    return {
        "score": passage.score,
        "snippet": passage.snippet,
        "terms": list(passage.terms),
        "document": _document_value(passage.document),
        "chunk": msgspec.structs.asdict(passage.chunk),
        "before": [msgspec.structs.asdict(each) for each in passage.before],
        "after": [msgspec.structs.asdict(each) for each in passage.after],
    }
