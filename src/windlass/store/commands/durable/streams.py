"""Commands about the streams of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.durable import (
    StreamPage,
    StreamWrite,
)
from windlass.core.errors import Refusal
from windlass.core.states import State
from windlass.store.commands.command import (
    Argument,
    BatchCommand,
    Command,
    parse_read_reply,
    reply_parser,
)
from windlass.store.records.attempt import pack_blob
from windlass.store.records.durable_state import unpack_stream_item


def _stream_item(request: StreamWrite) -> tuple[Argument, ...]:
    packed = [pack_blob(value) for value in request.values]
    values = b"".join(part for value in packed for part in (len(value).to_bytes(4, "big"), value))
    return request.id, request.token, request.sequence, "" if request.outside is None else request.outside, values


def write_stream(requests: Sequence[StreamWrite], partition: int) -> BatchCommand[int | Refusal]:
    items = [_stream_item(request) for request in requests]
    return BatchCommand("write_stream", (), items, reply_parser(int), partition=partition)


def _read_stream_page(reply: Any, after: int) -> StreamPage:
    code, last, found = reply
    state = State(code)
    items = [unpack_stream_item(found[at], found[at + 1]) for at in range(0, len(found), 2)]
    position = items[-1].position if items else after
    return StreamPage(items, state.is_ended and position >= last, last, state)


def read_stream(job_id: bytes, after: int, most: int, partition: int) -> Command[StreamPage | Refusal]:
    def read(reply: Any) -> StreamPage | Refusal:
        return parse_read_reply(reply, lambda parts: _read_stream_page(parts, after))

    return Command("read_stream", (job_id, after, most), read, partition=partition)
