"""A real server delivers the callbacks that were pending in the source, and downloads what was queued there."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.migration.source_redis import SourceRedis
from tests.migration.test_downloader import BASE, move, save
from tests.support.server_process import ServerProcess, store_options
from windlass.downloads.worker.order import QUEUE
from windlass.service import Service

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

LIMIT_S = 30.0


class Receiver(ThreadingHTTPServer):
    def __init__(self) -> None:
        self.bodies: list[Any] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def wait_for(self, count: int) -> None:
        until = time.monotonic() + LIMIT_S
        while len(self.bodies) < count:
            assert time.monotonic() < until, self.bodies
            time.sleep(0.02)


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "4")
        self.end_headers()
        self.wfile.write(b"file")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def is_pending(service: Service, *ids: str) -> bool:
    """Tell whether jobs of these downloads or their callbacks are left: the server settles a callback last."""
    has_jobs = any(service.holder(QUEUE, download_id).wait() for download_id in ids)
    return has_jobs or service.callbacks().wait().callbacks != []


def test_each_callback_is_delivered_once(
    service: Service, old: SourceRedis, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> None:
    to = {
        "CallbackDst": f"{receiver.url}/done",
        "URL": f"{receiver.url}/a.txt",
        "MimeType": "",
        "ExtractImageSize": "0",
    }
    ended = save(old, ID="ended-1", DownloadState="Success", CallbackState="Pending", ResponseCode="200", **to)
    old.call("ZADD", "CallbackQueue", 1_700_000_000, ended)
    old.call("ZADD", "jobs:beststore", 1_700_000_000, save(old, ID="queued-1", DownloadState="Pending", **to))
    assert move(service, old).moved == 2
    options = {"allow_private_addresses": "yes", "download_dir": str(tmp_path_factory.mktemp("files"))}
    with ServerProcess(store_options(service.store), **options) as server:
        receiver.wait_for(2)
        first, second = sorted(receiver.bodies, key=lambda body: body["job_id"])
        assert (first["job_id"], first["download_url"]) == ("ended-1", f"{BASE}/end/ended-1")
        assert (second["job_id"], second["success"]) == ("queued-1", True)
        assert second["download_url"].startswith(server.url)
        until = time.monotonic() + LIMIT_S
        while is_pending(service, "ended-1", "queued-1"):
            assert time.monotonic() < until
            time.sleep(0.02)
        assert move(service, old).moved == 0
    assert len(receiver.bodies) == 2
