"""Worker's side of supervision: reports to the supervisor, and stops on its request or when it is gone."""

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
    """Connection to the supervisor, made from `ID:FD`: the worker's id and its end of a pair of sockets."""

    def __init__(self, address: str) -> None:
        worker_id, _, descriptor = address.partition(":")
        self.worker_id = bytes.fromhex(worker_id)
        self._socket = socket.socket(fileno=int(descriptor))
        self._socket.set_inheritable(False)
        self._buffer = b""

    def send(self, message: Message) -> None:
        with contextlib.suppress(OSError):  # `listen` notices a supervisor that is gone
            self._socket.sendall(encode(message))

    def listen(self, stop: Callable[[], None], now: Callable[[], None]) -> None:
        """Call `stop` or `now` on the supervisor's request, on the running event loop."""
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
            log.warning("The supervisor is gone. This worker stops.")
            stop()
        *words, self._buffer = (self._buffer + received).split(b"\n")
        for word in words:
            {STOP: stop, STOP_NOW: now}.get(word, lambda: None)()

    async def report_running(self, worker: Worker) -> None:
        """Send the number of running jobs until cancelled. Sends nothing while the worker is idle."""
        reported = (0, 0)
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            state = (worker.running, worker.done)
            if state != reported or worker.running:
                reported = state
                self.send(WorkingMessage(worker.running))
