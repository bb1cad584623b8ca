"""Requests without an event loop: connections that are kept, each used by one thread at a time."""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import ssl
import threading
from collections.abc import Iterator

from .address import ServerAddress
from .async_session import CONNECT_S, distrusted
from .request import Request, Response, headers, unanswered, unreachable

IDLE_MAX = 16  # connections kept for the next request


class Connections:
    def __init__(self, address: ServerAddress, token: str) -> None:
        self._address = address
        self._token = token
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def send(self, request: Request) -> Response:
        """Once."""
        with self.answering(request, timeout_s=request.timeout_s) as answer:
            media = answer.getheader("content-type", "")
            return Response(answer.status, media, answer.read())

    @contextlib.contextmanager
    def answering(
        self, request: Request, more: dict[str, str] | None = None, *, timeout_s: float
    ) -> Iterator[http.client.HTTPResponse]:
        """The answer, whose body is read within the block. `timeout_s`: how long it may be silent."""
        connection = self._connected()
        is_whole = False
        try:
            if connection.sock is not None:
                connection.sock.settimeout(timeout_s)
            content = request.content
            sent = {**headers(self._token, has_body=content is not None), **(more or {})}
            connection.request(request.method, f"{self._address.prefix}{request.target}", content, sent)
            answer = connection.getresponse()
            yield answer
            is_whole = answer.isclosed() and not answer.will_close
        except (OSError, http.client.HTTPException) as error:
            raise unanswered(self._address, _why(error)) from error
        finally:
            self._put_back(connection) if is_whole else connection.close()

    def _connected(self) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection = self._idle.pop()
            if _is_quiet(connection.sock):
                return connection
            connection.close()
        connection = self._new()
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise distrusted(self._address, error.verify_message) from error
        except OSError as error:
            connection.close()
            raise unreachable(self._address, _why(error)) from error
        return connection

    def _new(self) -> http.client.HTTPConnection:
        address, context = self._address, self._address.ssl_context()
        if context is None:
            return http.client.HTTPConnection(address.host, address.port, timeout=CONNECT_S)
        return http.client.HTTPSConnection(address.host, address.port, timeout=CONNECT_S, context=context)

    def _put_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            is_kept = len(self._idle) < IDLE_MAX
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()


def _is_quiet(sock: socket.socket | None) -> bool:
    """A kept connection on which something can be read was closed by the server meanwhile."""
    if sock is None:
        return False
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return not poll.poll(0)


def _why(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error or "it took too long")
