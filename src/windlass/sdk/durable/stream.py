"""Stream of a running job: values that its code writes, kept in order with the job."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from windlass.core.durable import STREAM_VALUE_MAX, StreamWrite
from windlass.core.errors import BadInput, Refusal, TooLarge
from windlass.core.job import Blob
from windlass.sdk.tasks.codec import encode

from . import effects
from .effects import Effects, GetService, current_step
from .storage import ask

if TYPE_CHECKING:
    from windlass.sdk.context import Context

VALUES_AT_ONCE = 500
BYTES_AT_ONCE = 1024 * 1024


class _Write:
    """Call of `write`: done when all its values are stored."""

    __slots__ = ("error", "left")

    def __init__(self, count: int) -> None:
        self.left = count
        self.error: Refusal | None = None


class _Value:
    __slots__ = ("blob", "is_outside", "write")

    def __init__(self, blob: Blob, is_outside: bool, write: _Write) -> None:
        self.blob = blob
        self.is_outside = is_outside  # of steps
        self.write = write


class StreamWriter:
    """Writes values to the stream of the job: `await ctx.stream.write(value)`. Sync tasks call it without `await`.

    Values are stored in the order of the calls. Calls that come while another is under way are sent together."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._waiting: deque[_Value] = deque()
        self._order = threading.Lock()  # values of one call stay together
        self._turn = threading.Lock()  # of sending, in sync tasks
        self._async_turn = asyncio.Lock()
        self._sent = 0  # values of this run
        self._sent_outside = 0

    def write(self, value: Any, *more: Any) -> Coroutine[Any, Any, None]:
        """Store values. They are kept as long as the result; readers get them in order, from any position.

        A run that is repeated writes the values outside of steps only once. A step that is repeated writes its values
        again, behind the mark of a new attempt. Raises StreamFull beyond 50,000 values or 16 MiB."""
        context, values = self._context, [_encode(item) for item in (value, *more)]
        is_async = context.task.is_async
        if context.durable is not None:
            context.durable.refuse_if_suspended()
        if context.is_inline:
            return _nothing() if is_async else None  # type: ignore[return-value]
        if is_async:
            _require_loop()
            return self._flush(self._add(values))
        self._flush_sync(self._add(values))
        return None  # type: ignore[return-value]

    def _add(self, values: list[Blob]) -> _Write:
        is_outside, write = not current_step.get(), _Write(len(values))
        with self._order:
            self._waiting.extend([_Value(blob, is_outside, write) for blob in values])
        return write

    async def _flush(self, write: _Write) -> None:
        async with self._async_turn:
            while write.left:
                await effects.run(self._send())
        _raise(write)

    def _flush_sync(self, write: _Write) -> None:
        with self._turn:
            while write.left:
                effects.run_sync(self._send())
        _raise(write)

    def _send(self) -> Effects[None]:
        """Send the next values. They stay at the head until the engine has answered: a cancelled call that was sent is
        sent again by the next one, and the engine knows its number."""
        batch, error = self._next_batch(), None
        service = yield GetService(self._context.app)
        try:
            yield from ask(service.write_stream([self._make_request(batch)]).one())
        except Refusal as refusal:
            error = refusal
        self._sent += len(batch)
        self._sent_outside += len(batch) if batch[0].is_outside else 0
        for value in batch:
            self._waiting.popleft()
            value.write.left -= 1
            value.write.error = error or value.write.error

    def _next_batch(self) -> list[_Value]:
        """Return the values at the head that can be sent together."""
        batch: list[_Value] = []
        size = 0
        with self._order:
            for value in self._waiting:
                size += len(value.blob.data)
                is_full = len(batch) >= VALUES_AT_ONCE or size > BYTES_AT_ONCE
                if batch and (is_full or value.is_outside is not batch[0].is_outside):
                    break
                batch.append(value)
        return batch

    def _make_request(self, batch: list[_Value]) -> StreamWrite:
        job = self._context.job
        return StreamWrite(
            id=job.id,
            token=job.lease_token,
            values=tuple(value.blob for value in batch),
            sequence=self._sent,
            outside=self._sent_outside if batch[0].is_outside else None,
        )


if TYPE_CHECKING:

    class SyncStreamWriter(StreamWriter):
        """Stream of a sync task. Only its types differ."""

        def write(self, value: Any, *more: Any) -> None: ...  # type: ignore[override]


def _encode(value: Any) -> Blob:
    blob = encode(value)
    if len(blob.data) > STREAM_VALUE_MAX:
        raise TooLarge(
            f"A value of a stream has at most {STREAM_VALUE_MAX} bytes, and this one has {len(blob.data)}. Write it in "
            "parts, or store it elsewhere and write a reference."
        )
    return blob


def _raise(write: _Write) -> None:
    if write.error is not None:
        raise write.error


def _require_loop() -> None:
    """Refuse a write from a thread of an async task: its coroutine would not be awaited, and the value be lost."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise BadInput(
            "This thread belongs to an async task, whose event loop writes the stream. Hand the values to the loop, "
            "for example through a queue, or make the task a plain function."
        ) from None


async def _nothing() -> None:
    """Write nothing: a task that is called inline has no job."""
