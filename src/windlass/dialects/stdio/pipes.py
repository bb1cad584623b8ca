"""Input and output through file descriptors: pipes, files or terminals, each with a thread that may block.

Both use bounded memory, so a slow reader slows the writer down."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
CHUNK_BYTES = 64 * 1024  # usual capacity of a pipe
CHUNKS_AHEAD = 16
PENDING_BYTES = 1024 * 1024


class InputPipe:
    """Reads a file descriptor in a thread. `chunks` returns all data read so far, and nothing at the end."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(CHUNKS_AHEAD)
        self._is_over = False
        threading.Thread(target=self._read, name="windlass-input", daemon=True).start()

    def _read(self) -> None:
        data = b"x"
        while data:
            self._room.acquire()
            try:
                data = os.read(self._fd, CHUNK_BYTES)
            except OSError:
                data = b""
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._ready.put_nowait, data)

    async def chunks(self) -> list[bytes]:
        if self._is_over:
            return []
        chunks = [await self._ready.get()]
        while not self._ready.empty():
            chunks.append(self._ready.get_nowait())
        self._room.release(len(chunks))
        self._is_over = not chunks[-1]
        return [data for data in chunks if data]


class OutputPipe(Generic[T]):
    """Writes lines in a thread, in order. `take_unwritten` returns the items of lines that were not written."""

    def __init__(self, fd: int, *, most: int = PENDING_BYTES) -> None:
        self._fd = fd
        self._most = most
        self._pending: deque[tuple[bytes, T | None]] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._is_broken = False
        self._is_closed = False
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        threading.Thread(target=self._write, name=f"windlass-output-{fd}", daemon=True).start()

    @property
    def is_broken(self) -> bool:
        """Whether the reader is gone."""
        return self._is_broken

    @property
    def has_room(self) -> bool:
        return self._bytes < self._most

    def put(self, line: bytes, item: T | None = None) -> None:
        """Add a line. Await `wait_for_room` before: this method has no bound."""
        with self._changed:
            self._pending.append((line, item))
            self._bytes += len(line)
            self._changed.notify()

    async def wait_for_room(self) -> None:
        """Wait until there is room for a line, or the pipe is broken."""
        await self._wait_until(lambda: self.has_room or self._is_broken)

    async def flush(self, within_s: float | None = None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._wait_until(lambda: not self._pending or self._is_broken)

    async def wait_until_broken(self) -> None:
        await self._wait_until(lambda: self._is_broken)

    def take_unwritten(self) -> list[T]:
        """Stop writing, and return the items of the lines that were not written."""
        with self._changed:
            self._is_closed = True
            items = [item for _, item in self._pending if item is not None]
            self._pending.clear()
            self._changed.notify()
        return items

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        event = asyncio.Event()
        waiting = (asyncio.get_running_loop(), event)
        with self._changed:
            self._waiting.add(waiting)
        try:
            while not condition():
                await event.wait()
                event.clear()
        finally:
            with self._changed:
                self._waiting.discard(waiting)

    def _write(self) -> None:
        while True:
            with self._changed:
                while not self._pending and not self._is_closed:
                    self._changed.wait()
                if self._is_closed:
                    return
                lines = [line for line, _ in self._pending]
            try:
                _write_all(self._fd, b"".join(lines))
            except OSError:
                self._is_broken = True
                self._notify_waiters()
                return
            self._remove_written(len(lines), sum(map(len, lines)))
            self._notify_waiters()

    def _remove_written(self, count: int, size: int) -> None:
        with self._changed:
            for _ in range(min(count, len(self._pending))):
                self._pending.popleft()
            self._bytes -= size

    def _notify_waiters(self) -> None:
        with self._changed:
            waiting = list(self._waiting)
        for loop, event in waiting:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                loop.call_soon_threadsafe(event.set)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
