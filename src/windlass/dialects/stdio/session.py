"""Session of one processor, from its first line to the end of its input.

Input is read only as fast as messages are handled."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine
from typing import Any

from windlass.core.errors import Refusal
from windlass.core.operations import LeaseRef
from windlass.service import Service

from .envelope import Identity
from .lines import LineBuffer, TooLong
from .message_router import MessageRouter
from .messages import Message, MessageReader, ProcessorOptions, WorkerMessage
from .pipes import InputPipe, OutputPipe

log = logging.getLogger("windlass.processor")

FLUSH_S = 5.0  # to finish messages and output after `stop`
QUOTED_BYTES = 200  # of a bad line, in the log


class ProcessorSession:
    """Runs with `run` until the end of its input. `stop` has the same effect as the end of the input."""

    def __init__(
        self, service: Service, identity: Identity, options: ProcessorOptions, *, stdin: int = 0, stdout: int = 1
    ) -> None:
        self._reader = MessageReader(identity, options)
        self._lines = LineBuffer()
        self._input_fd = stdin
        self._output: OutputPipe[LeaseRef] = OutputPipe(stdout)
        self._router = MessageRouter(service, identity, options, self._output)
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        self._stopped.set()

    async def run(self) -> bool:
        """Run the session. Return False if stdout is not read any more."""
        watching = asyncio.create_task(self._router.watch.run(), name="windlass-processor-watch")
        reading = asyncio.create_task(self._read(), name="windlass-processor-read")
        ends = [asyncio.create_task(end) for end in (_wait_for(self._stopped), self._output.wait_until_broken())]
        try:
            await asyncio.wait({reading, watching, *ends}, return_when=asyncio.FIRST_COMPLETED)
            for task in (reading, watching):
                if task.done():
                    task.result()
        finally:
            for task in (reading, watching, *ends):
                task.cancel()
            await asyncio.wait({reading, watching, *ends})
            await self._output.flush(FLUSH_S if self._stopped.is_set() else None)
            await self._router.release_unwritten()
        if self._output.is_broken:
            log.error("stdout is closed by its reader. Start the processor again together with a reader.")
        return not self._output.is_broken

    async def _read(self) -> None:
        pipe = InputPipe(self._input_fd)
        while chunks := await pipe.chunks():
            await self._handle_lines(self._lines.feed(b"".join(chunks)))
        await self._handle_lines(self._lines.close())

    async def _handle_lines(self, lines: list[bytes | TooLong]) -> None:
        if not lines:
            return
        now_ms = time.time_ns() // 1_000_000
        messages = [self._message(line, now_ms) for line in lines]
        # Messages that were read are handled even if the session is stopped.
        await _finish_despite_cancel(self._router.handle([message for message in messages if message is not None]))

    def _message(self, line: bytes | TooLong, now_ms: int) -> Message | None:
        if isinstance(line, TooLong):
            log.error("%s", line)
            return None
        try:
            message = self._reader.read(line, now_ms)
        except Refusal as error:
            log.error("%s The line was ignored: %s", error, line[:QUOTED_BYTES].decode(errors="backslashreplace"))
            return None
        if isinstance(message, WorkerMessage) and message.warning:
            log.warning("%s", message.warning)
        return message


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()


async def _finish_despite_cancel(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                await task
        raise
