"""Envelopes of a real Sentry SDK: kept in memory, or received by an ingest server on the loopback interface."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.dedupe import DedupeIntegration
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport


class Ingest(Transport):
    """Transport that keeps what it is given."""

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        super().__init__(options)
        self.events: list[dict[str, Any]] = []
        self.transactions: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        for kind, payload in parse_envelope(envelope.serialize()):
            if kind == "event":
                self.events.append(payload)
            elif kind == "transaction":
                self.transactions.append(payload)


def parse_envelope(data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the types and payloads of the items of an envelope."""
    lines = iter(data.split(b"\n"))
    next(lines)
    for header in lines:
        if header:
            yield json.loads(header)["type"], json.loads(next(lines))


@contextlib.contextmanager
def sentry_in_memory(**options: Any) -> Iterator[Ingest]:
    """Start the SDK with a transport in memory. Other integrations would patch libraries for all later tests."""
    ingest = Ingest()
    sentry_sdk.init(
        dsn="http://key@127.0.0.1:9/1",
        transport=ingest,
        default_integrations=False,
        auto_enabling_integrations=False,
        integrations=[LoggingIntegration(), DedupeIntegration()],
        **options,
    )
    try:
        yield ingest
    finally:
        sentry_sdk.get_client().close()
        sentry_sdk.get_global_scope().set_client(None)
        sentry_sdk.get_isolation_scope().clear()


class _Handler(BaseHTTPRequestHandler):
    server: IngestServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.items += parse_envelope(body)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        """Write no line per request."""


class IngestServer(ThreadingHTTPServer):
    """Server that receives envelopes as Sentry does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.items: list[tuple[str, dict[str, Any]]] = []

    @property
    def dsn(self) -> str:
        return f"http://key@127.0.0.1:{self.server_port}/1"


@contextlib.contextmanager
def ingest_server() -> Iterator[IngestServer]:
    with IngestServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
