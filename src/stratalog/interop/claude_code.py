"""Claude Code's session files: a tree of records, one JSON object a line, or `{"loglines": [...]}`.

A file may hold several sessions, and within one the main conversation, sidechains (sub-agents) and branches
left behind by rewinds. Each becomes a session of its own: a branch is `<session>:branch-<its first
record>`, a sidechain `<session>:<agent id>` or `<session>:sidechain-<n>`, with a note in its parent. The
main line is the chain from the newest user or assistant record, or from the record an explicit leaf marker
names; results of parallel calls and passive records beside the chain belong to it. A parent that is missing
is bridged to the record before, which is where the writer was when it lost one.

`summary` records name a conversation by its leaf. They are titles of the session that has that leaf, and
notes when no session here has it, because the writer also stores other conversations' names. What the model
reads in place of its history is `isCompactSummary`, and that is the compaction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stratalog.errors import ImportFailed
from stratalog.interop.anthropic import pieces, put_user, result_ids, usage
from stratalog.interop.build import Builder, chat_id, count, items, table, text
from stratalog.interop.content import content, injected
from stratalog.interop.contract import ImportedSession, Importer, Source, Transcript
from stratalog.interop.records import Record, Tally, document, records, utc_ms
from stratalog.interop.tree import unravel
from stratalog.types import Compaction, Note, text_of

AGENT = "claude-code"
_FIELDS = re.compile(rb'"(parentUuid|isSidechain|leafUuid|isSnapshotUpdate|loglines|isMeta)"\s*:')
_OWN = re.compile(rb'"type"\s*:\s*"(file-history-snapshot|queue-operation|compact_boundary)"')
_SIMPLE = re.compile(rb'"type"\s*:\s*"(user|assistant)"[^\n]*"message"\s*:\s*\{')
_SKIPPED = {
    "file-history-snapshot": "backups of files, no part of the conversation",
    "progress": "shown while something ran; what came of it is in other records",
}
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle"}
_STOPPED = "[Request interrupted by user"


class _Node(NamedTuple):
    """A record in its session and thread ("" is the main one)."""

    record: Record
    uuid: str
    session: str
    thread: str

    @property
    def kind(self) -> str:
        return text(self.record.value.get("type"))

    @property
    def message(self) -> dict[str, Any]:
        return table(self.record.value.get("message"))

    @property
    def speaks(self) -> bool:
        return self.kind in ("user", "assistant")

    @property
    def loose(self) -> bool:
        """Whether it is outside of the tree, as titles and snapshots are."""
        return not self.speaks and not text(self.record.value.get("uuid"))

    @property
    def prompts(self) -> bool:
        """Whether a person's own words are in it."""
        value, said = self.record.value, self.message.get("content")
        if self.kind != "user" or value.get("isMeta") is True or value.get("isCompactSummary") is True:
            return False
        return not result_ids(said) and not injected(content(said))


class _File:
    """All nodes of a file, sorted into threads."""

    def __init__(self, source: Source, tally: Tally) -> None:
        self.source, self.tally = source, tally
        self.threads: dict[tuple[str, str], list[_Node]] = {}
        self.places: dict[str, _Node] = {}
        self.leaves: dict[str, str] = {}
        self.named: set[str] = set()  # the sessions that a record names
        self._session = ""

    def read(self, found: Iterable[Record]) -> None:
        waiting: list[Record] = []
        for record in found:
            reason = _refusal(record.value)
            if reason:
                self.tally.skip(record, reason)
                continue
            speaks = record.value["type"] in ("user", "assistant")
            named = text(record.value.get("sessionId"))
            if named:
                self.named.add(named)
            self._session = named or self._session or (self.source.path.stem if speaks else "")
            waiting.append(record)
            # What comes before the first word of a session, such as a summary, belongs to that session.
            if self._session:
                for early in waiting:
                    self._add(early)
                waiting = []
        for early in waiting:
            self.tally.skip(early, "the file names no session for it")

    def _add(self, record: Record) -> None:
        value = record.value
        uuid = text(value.get("uuid")) or record.key()
        earlier = self.places.get(uuid)
        if earlier is not None:
            if _same(earlier.record.value, value):
                self.tally.skip(record, f"the same record again, first on line {earlier.record.line}")
                return
            self.tally.note(f"line {record.line}: the id {uuid} is taken by another record; both are kept")
            uuid = f"{uuid}{record.key()}"
        session = self._session
        marked = text(value.get("leafUuid"))
        if value.get("type") == "summary" and marked in self.places:
            session = self.places[marked].session
        elif marked:
            self.leaves[session] = marked
        node = _Node(record, uuid, session, self._thread(record, session))
        self.places[uuid] = node
        self.threads.setdefault((session, node.thread), []).append(node)

    def _thread(self, record: Record, session: str) -> str:
        value = record.value
        if value.get("isSidechain") is not True:
            return ""
        if text(value.get("agentId")):
            return text(value["agentId"])
        parent = text(value.get("parentUuid"))
        known = [thread for owner, thread in self.threads if owner == session and thread]
        if parent in self.places and self.places[parent].thread:
            return self.places[parent].thread
        if parent and parent not in self.places and known:
            return known[-1]
        return f"sidechain-{len(known) + 1}"


def _refusal(value: dict[str, Any]) -> str:
    """Why nothing can be made of a record, "" when something can."""
    kind = value.get("type")
    if not isinstance(kind, str):
        return "it has no type"
    if kind in ("user", "assistant") and "content" not in table(value.get("message")):
        return "its message has no content"
    return ""


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two records say the same; a repetition may have newer tokens and marks beside it."""
    said = [(value.get("type"), table(value.get("message")).get("content")) for value in (one, other)]
    return said[0] == said[1] and one.get("content") == other.get("content")


def _sessions(file: _File) -> Iterator[ImportedSession | None]:
    made: dict[str, str] = {}
    for (session, thread), nodes in file.threads.items():
        base = chat_id(session) + (f":{chat_id(thread)}" if thread else "")
        parents = _parents(file, base, nodes)
        lines = unravel(parents, _leaf(file, session, thread, nodes, parents), _joiner(nodes, parents))
        for number, line in enumerate(lines):
            members = [nodes[position] for position in line.members]
            left = file.places.get(_link(members[0])) if line.fork is None else nodes[line.fork]
            chat = f"{base}:branch-{chat_id(members[0].uuid)}" if number else base
            unnamed = session not in file.named
            builder = Builder(file.tally, file.source, AGENT, session, chat, named_by_file=unnamed)
            if thread:
                builder.meta["parent"] = chat_id(session)
            if number or (left is not None and left.session != session):
                _put_origin(builder, members[0], left, base, made)
            _put_line(builder, file, members, made, aside=not thread and not number)
            done = builder.finish()
            if done is not None and number:
                file.tally.note(f"{base}: line {members[0].record.line} begins a branch, kept as {chat}")
            yield done


def _put_origin(builder: Builder, first: _Node, left: _Node | None, base: str, made: dict[str, str]) -> None:
    """Says where a branch, or a session that goes on from another in the file, begins."""
    parent = chat_id(left.session) if left is not None and left.session != first.session else base
    builder.branches(parent, made.get(left.uuid, "") if left is not None else "")


def _put_line(
    builder: Builder, file: _File, members: list[_Node], made: dict[str, str], *, aside: bool
) -> None:
    """Puts the members of a line, and where `aside` a note at the place where each sidechain begins."""
    session = members[0].session
    chains = [
        nodes[0] for (owner, thread), nodes in file.threads.items() if aside and owner == session and thread
    ]
    for node in sorted([*members, *chains], key=lambda node: node.record.ordinal):
        if aside and node.thread:
            chat = f"{chat_id(session)}:{chat_id(node.thread)}"
            builder.at(node.record, f"sidechain:{node.thread}", utc_ms(node.record.value.get("timestamp")))
            builder.put(Note(kind="sidechain", text=f"a sidechain began: {chat}", data={"chat": chat}))
        else:
            _put(builder, file, node, made)
            made[node.uuid] = builder.last_id


def _put(builder: Builder, file: _File, node: _Node, made: dict[str, str]) -> None:
    value, kind = node.record.value, node.kind
    said = node.message.get("content")
    builder.at(
        node.record,
        text(value.get("uuid")) and node.uuid,
        utc_ms(value.get("timestamp")),
        cwd=value.get("cwd"),
        git_branch=value.get("gitBranch"),
        version=value.get("version"),
    )
    if kind == "assistant":
        _put_assistant(builder, node, said)
    elif kind == "user" and value.get("isCompactSummary") is True:
        _put_compaction(builder, file, node, made)
    elif kind == "user":
        agent = text(table(value.get("toolUseResult")).get("agentId"))
        chain = {"sidechain": f"{chat_id(node.session)}:{chat_id(agent)}"} if agent else None
        put_user(builder, said, by_program=value.get("isMeta") is True, result_meta=chain)
        if text_of(content(said)).startswith(_STOPPED):
            builder.interrupt("by the user")
    elif kind == "summary":
        leaf = file.places.get(text(value.get("leafUuid")))
        if leaf is not None and leaf.session == node.session:
            builder.title(text(value.get("summary")))
        else:
            builder.put(Note(kind="summary", text=text(value.get("summary")), data=_rest(value)))
    elif kind in _TITLES:
        builder.title(text(value.get(_TITLES[kind])), by_person=kind == "custom-title")
    elif kind in _SKIPPED:
        file.tally.skip(node.record, _SKIPPED[kind])
    elif kind == "attachment" and table(value.get("attachment")).get("type") == "queued_command":
        builder.user(content(value["attachment"].get("prompt")))
    else:
        name = ":".join(filter(None, (kind, text(value.get("subtype")))))
        builder.put(Note(kind=name, text=text(value.get("content")), data=_rest(value)))


def _put_assistant(builder: Builder, node: _Node, said: Any) -> None:
    message = node.message
    model = text(message.get("model"))
    marks = {
        "synthetic": model == "<synthetic>",
        "api_error": node.record.value.get("isApiErrorMessage") is True,
    }
    builder.output(
        pieces(said),
        model="" if marks["synthetic"] else model,
        response=text(message.get("id")),
        usage=usage(message.get("usage")),
        meta={name: True for name, holds in marks.items() if holds} or None,
    )


def _put_compaction(builder: Builder, file: _File, node: _Node, made: dict[str, str]) -> None:
    boundary = file.places.get(_link(node))
    facts = table(boundary.record.value.get("compactMetadata")) if boundary is not None else {}
    builder.put(
        Compaction(
            summary=text_of(content(node.message.get("content"))),
            first_kept=made.get(text(table(facts.get("preservedSegment")).get("headUuid")), ""),
            covers=(builder.first_id, builder.last_id),
            tokens_before=count(facts.get("preTokens")),
        )
    )


def _link(node: _Node) -> str:
    """The id of the record that a record follows: a compaction cuts the parent but keeps the logical one."""
    return text(node.record.value.get("parentUuid")) or text(node.record.value.get("logicalParentUuid"))


def _parents(file: _File, chat: str, nodes: list[_Node]) -> list[int | None]:
    places = {node.uuid: place for place, node in enumerate(nodes)}
    tree = any(_link(node) in places for node in nodes)
    parents: list[int | None] = []
    missing: list[_Node] = []
    before: int | None = None
    for place, node in enumerate(nodes):
        link = _link(node)
        target = file.places.get(link)
        if link in places:
            parents.append(places[link])
        elif target is not None and target.session != node.session:
            parents.append(None)
        elif not link and (node.loose or (tree and node.prompts and not node.thread)):
            # A title is of the whole conversation. In a file whose records have parents, a prompt without
            # one began the conversation anew.
            parents.append(None)
        else:
            parents.append(before)
            if link:
                missing.append(node)
        before = before if node.loose else place
    if missing:
        first = missing[0]
        file.tally.note(
            f"{chat}: {len(missing)} records follow one that is not there, and now the record before them; "
            f"the first is line {first.record.line}, after {_link(first)}"
        )
    return parents


def _leaf(
    file: _File, session: str, thread: str, nodes: list[_Node], parents: Sequence[int | None]
) -> Callable[[Sequence[int]], int]:
    marked = "" if thread else file.leaves.get(session, "")

    def leaf(members: Sequence[int]) -> int:
        within = {place for place in members if marked and nodes[place].uuid == marked}
        for place in members:
            if parents[place] in within:
                within.add(place)
        able = [place for place in members if nodes[place].speaks and (not within or place in within)]
        return (able or sorted(within) or members)[-1]

    return leaf


def _joiner(nodes: list[_Node], parents: Sequence[int | None]) -> Callable[[int, set[int]], bool]:
    calls: dict[str, int] = {}
    responses: dict[str, list[int]] = {}
    for place, node in enumerate(nodes):
        if node.kind == "assistant":
            responses.setdefault(text(node.message.get("id")), []).append(place)
            for block in items(node.message.get("content")):
                calls.setdefault(text(table(block).get("id")), place)

    def joins(place: int, line: set[int]) -> bool:
        node, up = nodes[place], parents[place]
        if not node.speaks:
            return up is None or up in line
        if node.kind == "assistant":
            response = text(node.message.get("id"))
            return bool(response) and any(other in line for other in responses[response])
        answered = result_ids(node.message.get("content"))
        return bool(answered) and all(calls.get(call) in line for call in answered)

    return joins


_ENVELOPE = re.compile(
    "parentUuid|isSidechain|userType|cwd|sessionId|version|gitBranch|slug|type|subtype|uuid|timestamp"
    "|content|summary|isMeta|entrypoint|agentId"
)


def _rest(value: dict[str, Any]) -> dict[str, Any] | None:
    return {name: item for name, item in value.items() if not _ENVELOPE.fullmatch(name)} or None


def _found(source: Source, tally: Tally) -> Iterator[Record]:
    if source.path.suffix.lower() != ".json":
        yield from records(source, tally)
        return
    value = document(source)
    lines = value.get("loglines") if isinstance(value, dict) else value
    if not isinstance(lines, list):
        raise ImportFailed(
            "there are no loglines in this file", path=source.path, hint="expected {loglines: [...]}"
        )
    for line in lines:
        if isinstance(line, dict):
            yield tally.record(line)
        else:
            tally.damage(f"a {type(line).__name__}, not an object")


def _matches(head: bytes, path: Path) -> bool:
    return any(marks.search(head) for marks in (_FIELDS, _OWN, _SIMPLE))


def _read(source: Source) -> Transcript:
    tally = Tally("claude_code", source)
    file = _File(source, tally)
    file.read(_found(source, tally))
    return tally.transcript(_sessions(file))


CLAUDE_CODE = Importer("claude_code", _matches, _read)
