"""Origin server on loopback that answers as the test wants, down to the bytes; and a running download worker."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from windlass.core.job import Blob, Ending, NewJob, Timeline
from windlass.downloads.worker import NAME, QUEUE, DownloadOptions, DownloadWorker
from windlass.outbound import Outbound, Policy, parse_policy
from windlass.service import Service

LOCAL = parse_policy("", is_local=True)
BASE = "http://files.example/d"


class ReceivedRequest(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]


Handler = Callable[[ReceivedRequest, asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes = b"", status: str = "200 OK", *, length: int | None = None, **headers: str) -> Handler:
    """Return a handler. `length` overrides the true length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([*lines, "", ""]).encode()

    async def handler(_: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(head + body)
        await writer.drain()
        if length is not None:
            writer.close()

    return handler


def in_turn(*handlers: Handler) -> Handler:
    """Use the handlers in turn, and the last one forever."""
    left = list(handlers)

    async def handler(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(request, writer)

    return handler


class Origin:
    def __init__(self, routes: dict[str, Handler] | Handler) -> None:
        self._routes = routes
        self.requests: list[ReceivedRequest] = []
        self.scheme = "http"
        self.port = 0
        self._serving: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def open(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Origin]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        self.scheme = "https" if tls else "http"
        try:
            yield self
        finally:
            server.close()
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving)

    def url(self, path: str = "/file") -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            while not writer.is_closing():
                request = _read(await reader.readuntil(b"\r\n\r\n"))
                self.requests.append(request)
                await self._handler_of(request.target)(request, writer)
        writer.close()
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()

    def _handler_of(self, target: str) -> Handler:
        if not isinstance(self._routes, dict):
            return self._routes
        return self._routes.get(target.partition("?")[0], answer(b"nothing here", "404 Not Found"))


def _read(head: bytes) -> ReceivedRequest:
    first, *lines = head.decode().rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    pairs = [line.partition(":") for line in lines]
    return ReceivedRequest(method, target, {name.strip().lower(): value.strip() for name, _, value in pairs})


class AtWork:
    """Running download worker, with the queries that tests need."""

    def __init__(self, service: Service, processor: DownloadWorker, directory: Path) -> None:
        self.service = service
        self.worker = processor
        self.directory = directory

    async def put(self, url: str, name: str = "abcdefghijklmn", **fields: Any) -> bytes:
        return await put(self.service, url, name, **fields)

    async def end_of(self, job_id: bytes) -> dict[str, Any]:
        """What the callback would say, and the state."""
        return await end_of(self.service, job_id)

    async def download(self, url: str, name: str = "abcdefghijklmn", **fields: Any) -> dict[str, Any]:
        return await self.end_of(await self.put(url, name, **fields))

    async def until(self, job_id: bytes, is_so: Callable[[Timeline], bool]) -> Timeline:
        """The job, once it is as wanted."""
        while not is_so(read := await self.service.job([job_id]).one()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return read

    def files(self) -> dict[str, bytes]:
        return files_in(self.directory)


def files_in(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def put(service: Service, url: str, name: str = "abcdefghijklmn", **fields: Any) -> bytes:
    payload = {"id": name, "url": url, "aggr_id": "shop", "max_retries": 2} | fields
    job = NewJob(
        queue=QUEUE,
        name=NAME,
        payload=Blob(msgspec.json.encode(payload)),
        unique=name,
        lane=str(payload["aggr_id"]),
        result_ttl_ms=600_000,
    )
    return (await service.enqueue([job]).one()).id


async def end_of(service: Service, job_id: bytes) -> dict[str, Any]:
    ending = await service.result(job_id, wait_ms=30_000)
    assert isinstance(ending, Ending)
    if ending.result is not None:
        return {"state": ending.state.name, **msgspec.json.decode(ending.result.data)}
    last = ending.last_attempt
    error = msgspec.json.decode(last.error.data) if last and last.error else {}
    return {"state": ending.state.name, "attempt": last.attempt if last else 0, **error}


@contextlib.asynccontextmanager
async def at_work(
    service: Service, directory: Path, *, policy: Policy = LOCAL, given: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[AtWork]:
    """Run a download worker. `given` are arguments beside its options."""
    async with Outbound(policy) as outbound:
        wanted = {"directory": directory, "base": BASE, "retry_delay_ms": 1, "slots": 8} | options
        processor = DownloadWorker(outbound, DownloadOptions(**wanted), **(given or {}))
        running = asyncio.create_task(processor.run(service))
        try:
            yield AtWork(service, processor, directory)
        finally:
            running.cancel()
            await asyncio.wait({running})
        if not running.cancelled():
            raise running.exception() or AssertionError("a processor ends by being cancelled")


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + b"\xff\0\0" * width) * height)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
