"""HTTP session without an event loop. Each connection is used by one thread at a time."""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import ssl
import threading
from collections.abc import Iterator

from .address import ServerAddress
from .async_session import CONNECT_S, untrusted_certificate
from .request import ApiRequest, ApiResponse, answer_lost, build_headers, server_unreachable

IDLE_MAX = 16  # idle connections that are kept


class SyncHttpSession:
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

    def send(self, request: ApiRequest) -> ApiResponse:
        """Send a request once, without retries."""
        with self.open_response(request, timeout_s=request.timeout_s) as response:
            media = response.getheader("content-type", "")
            return ApiResponse(response.status, media, response.read())

    @contextlib.contextmanager
    def open_response(
        self, request: ApiRequest, more: dict[str, str] | None = None, *, timeout_s: float
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request and yield its response; read the body within the block. `timeout_s`: how long the server may
        be silent."""
        connection = self._connect()
        is_reusable = False
        try:
            if connection.sock is not None:
                connection.sock.settimeout(timeout_s)
            content = request.content
            headers = {**build_headers(self._token, content_type=request.content_type), **(more or {})}
            connection.request(request.method, f"{self._address.prefix}{request.target}", content, headers)
            response = connection.getresponse()
            yield response
            is_reusable = response.isclosed() and not response.will_close
        except (OSError, http.client.HTTPException) as error:
            raise answer_lost(self._address, _why(error)) from error
        finally:
            self._put_back(connection) if is_reusable else connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection = self._idle.pop()
            if _is_open(connection.sock):
                return connection
            connection.close()
        connection = self._new_connection()
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise untrusted_certificate(self._address, error.verify_message) from error
        except OSError as error:
            connection.close()
            raise server_unreachable(self._address, _why(error)) from error
        return connection

    def _new_connection(self) -> http.client.HTTPConnection:
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


def _is_open(sock: socket.socket | None) -> bool:
    """Check an idle connection. If it is readable, the server has closed it."""
    if sock is None:
        return False
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return not poll.poll(0)


def _why(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error or "timeout")
