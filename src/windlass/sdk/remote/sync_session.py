"""HTTP session without an event loop. Each connection is used by one thread at a time."""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator

from .address import ServerAddress
from .async_session import CONNECT_S, untrusted_certificate
from .request import (
    ApiRequest,
    ApiResponse,
    answer_lost,
    build_headers,
    response_max,
    response_too_large,
    server_unreachable,
)

IDLE_MAX = 16  # idle connections that are kept
READ_AT_ONCE = 64 * 1024


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
            return self.read_response(response, timeout_s=request.timeout_s)

    def read_response(self, response: http.client.HTTPResponse, *, timeout_s: float) -> ApiResponse:
        """Read the whole body. Raise EngineUnsuitable if it is larger than any answer of a Windlass server."""
        most, parts, give_up_at_s = response_max(response.status), bytearray(), time.monotonic() + timeout_s
        while part := response.read1(READ_AT_ONCE):
            parts += part
            if len(parts) > most:
                raise response_too_large(self._address, most)
            if time.monotonic() > give_up_at_s:
                raise answer_lost(self._address, f"it sent no whole response within {timeout_s:g} s")
        if response.length:  # `read1` does not report that the connection was closed before the end
            raise http.client.IncompleteRead(bytes(parts), response.length)
        response.close()  # the connection stays open; `read1` does not notice the end of every body
        return ApiResponse(response.status, response.getheader("content-type", ""), bytes(parts))

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
            with connection.getresponse() as response:  # it may hold the socket when the connection no longer does
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
