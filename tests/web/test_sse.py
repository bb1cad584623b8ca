"""Tests of server-sent events: frames, and the source of a stream."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from windlass.web.app.sse import event_stream
from windlass.wire import sse

pytestmark = pytest.mark.anyio


async def test_line_breaks_stay_data() -> None:
    assert sse.encode_frame("k", b"a\r\nb\rc\nd", "1") == b"id: 1\nevent: k\ndata: a\ndata: b\ndata: c\ndata: d\n\n"
    assert sse.encode_frame("k", b"{}") == b"event: k\ndata: {}\n\n"
    assert sse.encode_position("1") == b"id: 1\n\n"
    assert sse.encode_keep_alive("1") == b":\nid: 1\n\n"


@pytest.mark.parametrize("is_read", [True, False])
async def test_closing_a_stream_ends_its_source_even_if_nothing_was_read(is_read: bool) -> None:
    ended: list[str] = []

    @contextlib.asynccontextmanager
    async def source() -> AsyncIterator[None]:
        yield
        ended.append("source")

    async def frames() -> AsyncGenerator[bytes, None]:
        try:
            yield b"one"
        finally:
            ended.append("frames")

    entered = source()
    await entered.__aenter__()
    chunks = event_stream(frames(), entered).chunks
    if is_read:
        assert await anext(chunks) == b"one"
    for _ in range(2):
        await chunks.aclose()  # type: ignore[attr-defined]
    assert ended == (["frames", "source"] if is_read else ["source"])
