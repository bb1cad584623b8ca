"""Entries of the stream of a job, for `jobs stream`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from windlass.core.durable import StreamItem
from windlass.core.states import State
from windlass.core.text.codecs import as_json
from windlass.sdk.deployment import AnyStore, make_service
from windlass.service import Service

from .output import print_json_line, print_note, print_text
from .records import to_record


def read(service: Service, job_id: bytes, after: int) -> Iterator[StreamItem]:
    """Yield the entries that are stored now."""
    while items := service.read_stream(job_id, after=after).wait().items:
        yield from items
        after = items[-1].position


def follow(service: Service, job_id: bytes, after: int, show_item: Callable[[StreamItem], None]) -> State:
    """Show entries until the job ends, and return its final state."""
    store: AnyStore = service.store.clone()
    return asyncio.run(_follow(store, job_id, after, show_item))


async def _follow(store: AnyStore, job_id: bytes, after: int, show_item: Callable[[StreamItem], None]) -> State:
    async with store, make_service(store).follow_stream(job_id, after=after) as follower:
        async for item in follower:
            show_item(item)
        return follower.state


def show(item: StreamItem) -> None:
    """Print a value in one line. The mark of a new attempt goes to stderr."""
    if item.value is None:
        print_note(f"Attempt {item.attempt} begins here.")
        return
    json_text = as_json(item.value)
    print_text(item.value.data.decode(errors="backslashreplace") if json_text is None else bytes(json_text).decode())


def show_record(item: StreamItem) -> None:
    record: dict[str, Any] = to_record(item)
    print_json_line(record | {"is_new_attempt": item.is_new_attempt})
