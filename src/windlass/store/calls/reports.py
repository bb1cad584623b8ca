"""What the holder of a lease reports: accept, extend, update, finish, fail, release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ...core.errors import Refusal
from ...core.requests import Extended, Fail, Failed, Finish, Finished, Held, Update, Updated
from ..record import pack_blob
from .call import Argument, ItemsCall, answering, text


def finish_item(request: Finish) -> tuple[Argument, ...]:
    return request.id, request.token, pack_blob(request.result)


def fail_item(request: Fail) -> tuple[Argument, ...]:
    return (
        request.id,
        request.token,
        request.then,
        request.delay_ms,
        request.reason,
        pack_blob(request.error),
    )


def failed_as(reply: Any) -> Failed:
    return cast(Failed, text(reply))


def finished_as(reply: Any) -> Finished:
    return None if reply == b"ok" else cast(Finished, text(reply))


def finish(requests: Sequence[Finish], partition: int) -> ItemsCall[Finished | Refusal]:
    items = [finish_item(request) for request in requests]
    return ItemsCall("finish", (), items, answering(finished_as), partition=partition)


def fail(requests: Sequence[Fail], partition: int) -> ItemsCall[Failed | Refusal]:
    items = [fail_item(request) for request in requests]
    return ItemsCall("fail", (), items, answering(failed_as), partition=partition)


def release(requests: Sequence[Held], partition: int) -> ItemsCall[str | Refusal]:
    items = [(request.id, request.token) for request in requests]
    return ItemsCall("release", (), items, answering(text), partition=partition)


def accept(requests: Sequence[Held], lease_ms: int, partition: int) -> ItemsCall[int | Refusal | None]:
    items = [(request.id, request.token) for request in requests]
    return ItemsCall("accept", (lease_ms,), items, answering(lambda reply: int(reply) or None), partition=partition)


def _read_extended(reply: Any) -> Extended:
    deadline, is_asked_to_stop = reply
    return Extended(deadline or None, bool(is_asked_to_stop))


def extend(requests: Sequence[Held], lease_ms: int, partition: int) -> ItemsCall[Extended | Refusal]:
    items = [(request.id, request.token) for request in requests]
    return ItemsCall("extend", (lease_ms,), items, answering(_read_extended), partition=partition)


def _update_item(request: Update) -> tuple[Argument, ...]:
    progress = "" if request.progress is None else round(request.progress * 1_000_000)
    if request.payload is None:
        return request.id, request.token, progress, "", 0, b""
    return request.id, request.token, progress, "1", int(request.payload.codec), request.payload.data


def update(requests: Sequence[Update], partition: int) -> ItemsCall[Updated | Refusal]:
    items = [_update_item(request) for request in requests]
    return ItemsCall(
        "update", (), items, answering(lambda reply: Updated(reply[0], bool(reply[1]))), partition=partition
    )
