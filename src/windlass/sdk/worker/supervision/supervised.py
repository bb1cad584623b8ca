"""The worker's side of supervision: it tells its supervisor how it is, and stops when told to, or when nobody is left
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
TELL_EVERY_S = 1.0


class SupervisorConnection:
    """Made of `ID:FD`, as the supervisor wrote it: the worker's id, and its end of a pair of sockets."""

    def __init__(self, written: str) -> None:
        worker_id, _, descriptor = written.partition(":")
        self.worker_id = bytes.fromhex(worker_id)
        self._socket = socket.socket(fileno=int(descriptor))
        self._socket.set_inheritable(False)
        self._heard = b""

    def tell(self, notice: Message) -> None:
        with contextlib.suppress(OSError):  # a supervisor that is gone is noticed by listening
            self._socket.sendall(encode(notice))

    def listen(self, stop: Callable[[], None], now: Callable[[], None]) -> None:
        """Calls `stop` or `now` when told to, on the running event loop."""
        loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        loop.add_reader(self._socket, self._hear, loop, stop, now)

    def _hear(self, loop: asyncio.AbstractEventLoop, stop: Callable[[], None], now: Callable[[], None]) -> None:
        try:
            heard = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            heard = b""
        if not heard:
            loop.remove_reader(self._socket)
            log.warning("The supervisor is gone; this worker stops.")
            stop()
        *words, self._heard = (self._heard + heard).split(b"\n")
        for word in words:
            {STOP: stop, STOP_NOW: now}.get(word, lambda: None)()

    async def tell_work(self, worker: Worker) -> None:
        """Until cancelled. Silent while nothing is done."""
        told = (0, 0)
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            state = (worker.running, worker.done)
            if state != told or worker.running:
                told = state
                self.tell(WorkingMessage(worker.running))
