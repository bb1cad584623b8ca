"""HTTP listener."""

from __future__ import annotations

from collections.abc import Callable

from .bounds import Bounds
from .connection import HttpConnection
from .messages import Application, Client, Head
from .socket_server import SocketServer

OnAnswer = Callable[[Head | None, int, int, float, Client], None]


class HttpListener(SocketServer[HttpConnection]):
    """Listening sockets of HTTP and their connections."""

    def __init__(
        self, application: Application, bounds: Bounds | None = None, on_answer: OnAnswer | None = None
    ) -> None:
        super().__init__(bounds or Bounds())
        self.application = application
        self.on_answer = on_answer  # head, status, bytes of the body, duration in seconds, client
        self.answered = [0] * 6  # by the first digit of the status

    def _connection(self) -> HttpConnection:
        return HttpConnection(self)
