"""The worker's side of supervision: it tells its supervisor how it is, and stops when reported to, or when nobody is left
to tell it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable

from windlass.sdk.worker.worker import Worker

from .protocol import STOP, STOP_NOW, Message, WorkingMessage, encode

log = logging.getLogger("windlass.worker")
REPORT_EVERY_S = 1.0


class SupervisorConnection:
    """Made of `ID:FD`, as the supervisor wrote it: the worker's id, and its end of a pair of sockets."""

    def __init__(self, address: str) -> None:
        worker_id, _, descriptor = address.partition(":")
        self.worker_id = bytes.fromhex(worker_id)
        self._socket = socket.socket(fileno=int(descriptor))
        self._socket.set_inheritable(False)
        self._buffer = b""

    def send(self, message: Message) -> None:
        with contextlib.suppress(OSError):  # a supervisor that is gone is noticed by listening
            self._socket.sendall(encode(message))

    def listen(self, stop: Callable[[], None], now: Callable[[], None]) -> None:
        """Calls `stop` or `now` when reported to, on the running event loop."""
        loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        loop.add_reader(self._socket, self._receive, loop, stop, now)

    def _receive(self, loop: asyncio.AbstractEventLoop, stop: Callable[[], None], now: Callable[[], None]) -> None:
        try:
            received = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            loop.remove_reader(self._socket)
            log.warning("The supervisor is gone; this worker stops.")
            stop()
        *words, self._buffer = (self._buffer + received).split(b"\n")
        for word in words:
            {STOP: stop, STOP_NOW: now}.get(word, lambda: None)()

    async def report_running(self, worker: Worker) -> None:
        """Until cancelled. Silent while nothing is done."""
        reported = (0, 0)
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            state = (worker.running, worker.done)
            if state != reported or worker.running:
                reported = state
                self.send(WorkingMessage(worker.running))
