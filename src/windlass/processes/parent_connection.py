"""Connection of a supervised process to its supervisor: sends lines, and receives orders to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable

from .supervision_policy import StopOrder


class ParentConnection:
    """The process's end of the pair of sockets that its supervisor passed on (`supervised_process.py`)."""

    def __init__(self, descriptor: int, log: logging.Logger, noun: str) -> None:
        self._socket = inherited_socket(descriptor)
        self._log = log
        self._noun = noun
        self._unread = b""

    def send(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # `listen` notices a supervisor that is gone
            self._socket.sendall(line + b"\n")

    def listen(self, stop: Callable[[], None], now: Callable[[], None]) -> None:
        """Call `stop` or `now` by the supervisor's order, and `stop` when the supervisor is gone. The calls come from
        the running event loop."""
        loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        actions = {StopOrder.STOP.value: stop, StopOrder.NOW.value: now}
        loop.add_reader(self._socket, self._receive, loop, actions)

    def _receive(self, loop: asyncio.AbstractEventLoop, actions: dict[bytes, Callable[[], None]]) -> None:
        try:
            received = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            loop.remove_reader(self._socket)
            self._log.warning("The parent of this %s is gone; the process stops.", self._noun)
            actions[StopOrder.STOP.value]()
        *words, self._unread = (self._unread + received).split(b"\n")
        for word in words:
            actions.get(word, lambda: None)()


def inherited_socket(descriptor: int) -> socket.socket:
    """Return the socket of an inherited descriptor. Processes started from here do not inherit it."""
    inherited = socket.socket(fileno=descriptor)
    inherited.set_inheritable(False)
    return inherited
