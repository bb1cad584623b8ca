"""A proxy in front of a real server that changes its answers, and a server with answers of a test's own."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import msgspec

MSGPACK = "application/msgpack"
HOP_HEADERS = ("transfer-encoding", "connection", "content-length")
Lie = Callable[[Any], Any]


class Handler(BaseHTTPRequestHandler):
    """One request. Its body is read before `respond` is called."""

    protocol_version = "HTTP/1.1"
    content = b""

    def respond(self) -> None:
        raise NotImplementedError

    def _handle(self) -> None:
        self.content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with contextlib.suppress(ConnectionError):  # the client may have seen enough
            self.respond()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 (names of the library)

    def send_body(self, status: int, media: str, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": media, "Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def hostile_server(handler: type[Handler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def lying_proxy(url: str, lie: Lie) -> contextlib.AbstractContextManager[str]:
    """Forward requests to a server, and change each value of its answers."""
    address = urlsplit(url).netloc

    class Liar(Handler):
        def respond(self) -> None:
            client = http.client.HTTPConnection(address, timeout=20)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_HEADERS}
            client.request(self.command, self.path, self.content or None, headers)
            with client.getresponse() as answer:
                media, body = answer.getheader("Content-Type", ""), answer.read()
            client.close()
            if media == MSGPACK and not self.path.endswith("/info"):
                body = msgspec.msgpack.encode(lie(msgspec.msgpack.decode(body)))
            self.send_body(answer.status, media, body)

    return hostile_server(Liar)


def change_leaves(value: Any, change: Lie) -> Any:
    """Apply a change to each text, number and truth value of a document. Names of fields stay."""
    if isinstance(value, dict):
        return {name: change_leaves(item, change) for name, item in value.items()}
    if isinstance(value, list):
        return [change_leaves(item, change) for item in value]
    return change(value)
