"""Test application behind a real listener, and a client that sends raw bytes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import pytest

from windlass.web.listener.bounds import Bounds
from windlass.web.listener.deferred import DeferredAnswer
from windlass.web.listener.listener import HttpListener
from windlass.web.listener.messages import Head, Plan, Request, Response, StreamedResponse


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


class Application:
    """Application whose methods are named after the paths that they answer."""

    def __init__(self) -> None:
        self.listener: HttpListener
        self.heads: list[Head] = []
        self.notes: list[str] = []
        self.entered = asyncio.Event()
        self.release = asyncio.Event()
        self.ended = asyncio.Event()
        self.future: asyncio.Future[bytes] | None = None  # of the last deferred reply
        self.body_max = 1000

    def plan(self, head: Head) -> Plan | Response:
        self.heads.append(head)
        name = head.path.strip("/").replace("*", "echo") or "echo"
        if name == "unplanned":
            raise RuntimeError("no plan")
        if name == "forbidden":
            return Response(401, b"no", content_type="text/plain")
        if name == "split_refusal":
            return Response(401, headers=(("X-Bad", "a\r\nSet-Cookie: b"),))
        return Plan(
            getattr(self, name),
            body_max=self.body_max,
            streams_body=name in ("count", "early", "duplex", "careless"),
            waits=name in ("poll", "feed"),
        )

    def refuse(self, status: int, detail: str, head: Head | None) -> Response:
        return Response(status, detail.encode(), content_type="text/plain")

    async def echo(self, request: Request) -> Response:
        head = request.head
        words = f"{head.method} {head.path} {head.query} ".encode()
        return Response(200, words + request.body, content_type="text/plain")

    async def sized(self, request: Request) -> Response:
        return Response(200, b"x" * int(request.head.query))

    async def nothing(self, request: Request) -> Response:
        return Response(204)

    async def fail(self, request: Request) -> Response:
        raise RuntimeError("broken")

    def at_once(self, request: Request) -> Response:
        return Response(200, b"at once", content_type="text/plain")

    def fail_at_once(self, request: Request) -> Response:
        raise RuntimeError("broken at once")

    def deferred(self, request: Request) -> DeferredAnswer[bytes, Response]:
        self.future = asyncio.get_running_loop().create_future()
        self.entered.set()
        return DeferredAnswer(self.future, lambda done: Response(200, done.result(), content_type="text/plain"))

    async def given_up(self, request: Request) -> Response:
        raise asyncio.CancelledError

    async def split_header(self, request: Request) -> Response:
        return Response(200, b"body", headers=(("X-Bad", "a\r\nSet-Cookie: b"),))

    async def slow(self, request: Request) -> Response:
        self.entered.set()
        try:
            await self.release.wait()
            self.notes.append(f"slow {request.client.is_gone}")
        except asyncio.CancelledError:
            self.notes.append("slow cancelled")
            raise
        finally:
            self.ended.set()
        return Response(200, b"slow")

    async def poll(self, request: Request) -> Response:
        self.entered.set()
        try:
            await self.listener.stopping.wait()
            return Response(200, b"stopped")
        except asyncio.CancelledError:
            self.notes.append(f"poll cancelled {request.client.is_gone}")
            raise
        finally:
            self.ended.set()

    async def parts(self, request: Request) -> StreamedResponse:
        async def chunks() -> AsyncIterator[bytes]:
            try:
                for word in (b"one", b"", b"two"):
                    yield word
            finally:
                self.notes.append("parts closed")

        return StreamedResponse(200, chunks(), content_type="text/plain")

    async def broken_parts(self, request: Request) -> StreamedResponse:
        async def chunks() -> AsyncIterator[bytes]:
            yield b"one"
            raise RuntimeError("broken")

        return StreamedResponse(200, chunks())

    async def flood(self, request: Request) -> StreamedResponse:
        """Answer with more bytes than any buffer holds, even if the client does not read them."""

        async def chunks() -> AsyncIterator[bytes]:
            self.entered.set()
            for _ in range(64):
                yield b"x" * 1024 * 1024
                self.notes.append("sent")
            self.ended.set()

        return StreamedResponse(200, chunks())

    async def feed(self, request: Request) -> StreamedResponse:
        async def chunks() -> AsyncIterator[bytes]:
            try:
                yield b"first"
                self.entered.set()
                await asyncio.Event().wait()
            finally:
                self.notes.append("feed closed")
                self.ended.set()

        return StreamedResponse(200, chunks())

    async def count(self, request: Request) -> Response:
        total = 0
        assert request.chunks is not None
        async for piece in request.chunks:
            total += len(piece)
            self.entered.set()
            if request.head.query == "paused":
                await self.release.wait()
        return Response(200, str(total).encode())

    async def careless(self, request: Request) -> Response:
        """Read the body after it has arrived, and note the exception of an incomplete body."""
        self.entered.set()
        assert request.chunks is not None
        try:
            async for _ in request.chunks:
                pass
        except Exception as error:
            self.notes.append(type(error).__name__)
            raise
        finally:
            self.ended.set()
        return Response(200)

    async def early(self, request: Request) -> Response:
        return Response(200, b"early")

    async def duplex(self, request: Request) -> StreamedResponse:
        chunks = request.chunks
        assert chunks is not None

        async def answer() -> AsyncIterator[bytes]:
            async for piece in chunks:
                yield piece.upper()

        return StreamedResponse(200, answer())


@contextlib.asynccontextmanager
async def run_application(tls: ssl.SSLContext | None = None, **bounds: Any) -> AsyncIterator[Application]:
    application = Application()
    listener = HttpListener(application, Bounds(**bounds))
    application.listener = listener
    await listener.start("127.0.0.1", 0, ssl=tls)
    try:
        yield application
    finally:
        application.release.set()
        await listener.stop(grace_s=5)
        assert listener.open == listener.handlers_running == listener.buffered_bytes == 0


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class RawClient:
    """Client connection that sends raw bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, *, to_head: bool = False) -> Answer:
        async with asyncio.timeout(20):
            head = await self.reader.readuntil(b"\r\n\r\n")
            status, headers = read_head(head)
            return Answer(status, headers, b"" if to_head else await self._body(status, headers))

    async def _body(self, status: int, headers: dict[str, str]) -> bytes:
        if status in (100, 204, 304):
            return b""
        if headers.get("transfer-encoding") == "chunked":
            return b"".join([piece async for piece in self.chunks()])
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        return await self.reader.read()

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.readline(), 16):
            yield await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
        assert await self.reader.readexactly(2) == b"\r\n"

    async def round_trip(self, data: bytes) -> Answer:
        await self.send(data)
        return await self.answer()

    def reset(self) -> None:
        """Reset the connection, as the end of a client's process may. A plain close looks like a half-closed
        connection."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def is_closed(self) -> bool:
        """Whether the server closed the connection without more data."""
        async with asyncio.timeout(20):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True


def read_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split(" ")[1]), {name.lower(): value for name, value in headers.items()}


@contextlib.asynccontextmanager
async def connect(application: Application, **options: Any) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection(*application.listener.address, **options)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()
        with contextlib.suppress(Exception):
            await writer.wait_closed()


def request(path: str, body: bytes | None = None, method: str = "", version: str = "1.1", **headers: str) -> bytes:
    method = method or ("GET" if body is None else "POST")
    lines = [f"{method} {path} HTTP/{version}", "Host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def chunked(path: str, pieces: list[bytes]) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


async def until(condition: Any) -> None:
    """Poll a condition of the server that no event reports."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class MemoryTransport(asyncio.Transport):
    """Transport without a socket that keeps written data."""

    def __init__(self, **extra_info: Any) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), **extra_info})
        self.written = bytearray()
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:  # type: ignore[override]
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None:
        self._is_closing = True

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def parse_answers(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Parse the statuses and bodies of answers with a Content-Length."""
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        status, headers = read_head(head)
        size = int(headers["content-length"])
        yield status, data[:size]
        data = data[size:]
