"""A checkpointer of LangGraph: the state of graphs, durable when a call returns, in the data directory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, cast

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from stratalog.engine.graphs import Draft, Found, Head, Known, Space, Stored, Write, checkpoints_of
from stratalog.errors import InvalidInput
from stratalog.interop.langgraph.mirror import Follower
from stratalog.interop.langgraph.sharing import Sealing, drafted, loaded
from stratalog.interop.waiting import Memory, engine_of

_PAGE: Final = 50
_USERS: Final = ("user_id", "langgraph_auth_user_id")
_COUNTERS: Final = "counters_since_delta_snapshot"


class StratalogSaver(BaseCheckpointSaver[int]):
    """Checkpoints in the tenant's directory of a `Stratalog`, which must stay open as long.

        with Stratalog("data") as memory, StratalogSaver(memory) as saver:
            graph = builder.compile(checkpointer=saver)

    A version of a channel costs what changed in it. Any number of threads and processes may use the same
    directory; each call is one transaction. Methods whose names begin with `a` are the others in a thread.

    With `messages`, the LangChain messages in the channels of these names, of the outermost graph, are also
    appended to the session `agent:langgraph:<thread>`, each once by its id.

    Calls raise `StoreBusy`, `StorageFull`, `StorageFailed`, `DamagedLog`, `NewerFormat` and `ForeignFile`, as
    `memory.database.Database` does, and what the serializer raises.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        serde: SerializerProtocol | None = None,
        messages: Sequence[str] = (),
        agent: str = "agent",
    ) -> None:
        super().__init__(serde=serde)
        opened = engine_of(memory)
        self._tables = checkpoints_of(opened)
        self._messages = (messages,) if isinstance(messages, str) else tuple(messages)
        self._follower = Follower(opened, self._tables, agent)

    def close(self) -> None:
        """Closes the file. The saver may be used again."""
        self._tables.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    # --- writing ---

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Stores a checkpoint, under the one that `config` names; its config."""
        space, parent = _place(config), get_checkpoint_id(config) or None
        told = get_checkpoint_metadata(config, metadata)
        values = checkpoint["channel_values"]
        head = Head(
            id=checkpoint["id"],
            parent=parent,
            run=_text(told.get("run_id")),
            state=self.serde.dumps_typed({k: v for k, v in checkpoint.items() if k != "channel_values"}),
            metadata=self.serde.dumps_typed(told),
        )
        users = {text for name in _USERS if (text := _text(told.get(name)))}
        while True:
            known = self._tables.known(space, parent, _near(space.name))
            kept, drafts = self._planned(checkpoint["channel_versions"], values, new_versions, known)
            if self._tables.put(space, head, kept, drafts, users):
                break
        if not space.name:
            for channel in self._messages:
                if channel in new_versions and isinstance(value := values.get(channel), list):
                    self._follower.follow(space.thread, value, users)
        return _config(space, checkpoint["id"])

    def _planned(
        self, versions: ChannelVersions, values: Mapping[str, Any], new: ChannelVersions, known: Known
    ) -> tuple[list[int], list[Draft]]:
        """The contents that the checkpoint has from its parent, and those that are to be stored.

        A channel that has not changed has what its parent has of the same version. Where there is none, what
        is given is stored all the same: a copied checkpoint has another parent than the one that it is of.
        """
        sealing = Sealing(self.serde)
        kept, drafts = [], []
        for channel in dict.fromkeys((*versions, *values)):
            version = _version(versions.get(channel))
            held = known.held.get(channel)
            if channel not in new and held is not None and held.version == version:
                kept.append(held.row)
            elif channel in values:
                base = held or known.near.get(channel)
                drafts.append(
                    drafted(sealing, channel, version, values[channel], base, self._tables.pieces_of)
                )
        return kept, drafts

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Stores what a task wrote. What it wrote before stays, but for errors, interrupts and the like."""
        id = get_checkpoint_id(config)
        if not id:
            raise InvalidInput("writes are of a checkpoint, which the config does not name")
        numbered = [
            Write(task_path, task_id, WRITES_IDX_MAP.get(channel, at), channel, self.serde.dumps_typed(value))
            for at, (channel, value) in enumerate(writes)
        ]
        self._tables.put_writes(_place(config), id, numbered)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """One more. Of a thread that another saver began, whose versions are text, the form is kept."""
        if isinstance(current, str):
            number = current.partition(".")[0]
            return f"{int(number) + 1:0{len(number)}}.{0:016}"
        return int(current or 0) + 1

    # --- reading ---

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names, or the last of its thread and namespace."""
        id = get_checkpoint_id(config)
        stored = self._tables.get(_place(config), id or None)
        if stored is None:
            return None
        made = self._tuple(stored)
        return made._replace(config=config) if id else made

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, the newest first: of a thread, and of a namespace if it is named; of all threads
        without a config. Those whose metadata has what `filter` says, and older than `before`."""
        asked: dict[str, Any] = dict(config["configurable"]) if config else {}
        left = limit
        after: tuple[str, int] | None = None
        while left is None or left > 0:
            page = self._tables.find(
                str(asked["thread_id"]) if config else None,
                asked.get("checkpoint_ns"),
                id=asked.get("checkpoint_id") or None,
                before=(get_checkpoint_id(before) or None) if before else None,
                after=after,
                limit=_PAGE if left is None or filter else min(left, _PAGE),
            )
            for found in page:
                stored = self._tables.at(found.row) if self._fits(found, filter) else None
                if stored is not None and (left is None or left > 0):
                    left = None if left is None else left - 1
                    yield self._tuple(stored)
            if not page:
                return
            after = (page[-1].id, page[-1].row)

    def _fits(self, found: Found, filter: dict[str, Any] | None) -> bool:
        if not filter:
            return True
        metadata = self.serde.loads_typed(found.metadata)
        return all(metadata.get(key) == value for key, value in filter.items())

    def _tuple(self, stored: Stored) -> CheckpointTuple:
        head = stored.head
        state = self.serde.loads_typed(head.state)
        contents = {each.channel: each for each in stored.contents}
        order = (channel for channel in (*state["channel_versions"], *contents) if channel in contents)
        values = {channel: loaded(self.serde, contents[channel]) for channel in dict.fromkeys(order)}
        return CheckpointTuple(
            config=_config(stored.space, head.id),
            checkpoint=cast(Checkpoint, {**state, "channel_values": values}),
            metadata=self.serde.loads_typed(head.metadata),
            parent_config=_config(stored.space, head.parent) if head.parent else None,
            pending_writes=[self._pending(write) for write in stored.writes],
        )

    def _pending(self, write: Write) -> PendingWrite:
        return write.task, write.channel, self.serde.loads_typed(write.value)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What a `DeltaChannel` is rebuilt from; see the base class."""
        made: dict[str, DeltaChannelHistory] = {}
        history = self._tables.history(_place(config), get_checkpoint_id(config) or None, channels)
        for channel, (writes, seed) in history.items():
            made[channel] = {"writes": [self._pending(write) for write in writes]}
            if seed is not None:
                made[channel]["seed"] = loaded(self.serde, seed)
        return made

    # --- destroying and copying ---

    def delete_thread(self, thread_id: str) -> None:
        """Deletes a thread, with all its namespaces. A session that followed it stays."""
        self._tables.delete_thread(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints whose metadata names one of these runs as `run_id`, with their writes."""
        self._tables.delete_runs([str(each) for each in run_ids])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies a thread. Raises `Conflict` when the target has checkpoints."""
        self._tables.copy(str(source_thread_id), str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keeps the last checkpoint of each namespace, and what its delta channels are rebuilt from; or with
        the strategy `delete` nothing. Raises `InvalidInput` for another strategy."""
        if strategy not in ("keep_latest", "delete"):
            raise InvalidInput("a strategy is `keep_latest` or `delete`", given=ascii(strategy))
        for thread in map(str, thread_ids):
            if strategy == "delete":
                self._tables.delete_thread(thread)
            else:
                lasts = {
                    name: (head.id, set(self.serde.loads_typed(head.metadata).get(_COUNTERS) or ()))
                    for name, head in self._tables.lasts(thread).items()
                }
                self._tables.prune(thread, lasts)

    # --- the same for asyncio ---

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (each := await asyncio.to_thread(next, found, None)) is not None:
            yield each

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await asyncio.to_thread(self.get_delta_channel_history, config=config, channels=channels)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)


def _place(config: RunnableConfig) -> Space:
    asked = config["configurable"]
    return Space(str(asked["thread_id"]), asked.get("checkpoint_ns") or "")


def _config(space: Space, id: str) -> RunnableConfig:
    return {
        "configurable": {"thread_id": space.thread, "checkpoint_ns": space.name, "checkpoint_id": id},
    }


def _near(space: str) -> list[str]:
    """The namespace, and those that it is in, the nearest first: a graph within another begins with values
    that the other has."""
    names = [space]
    while names[-1]:
        names.append(names[-1].rpartition("|")[0])
    return names


def _version(version: str | float | None) -> str:
    return msgspec.json.encode(version).decode()


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)
