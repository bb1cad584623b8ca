"""Streamed response of server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import Any

from windlass.web.listener.messages import StreamedResponse
from windlass.wire.sse import EVENT_STREAM

_HEADERS = (("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"))  # proxies must not buffer events


class FrameStream:
    """Frames and the subscription that they come from. Closing ends both, even if no frame was read."""

    def __init__(self, frames: AsyncGenerator[bytes, None], source: AbstractAsyncContextManager[Any] | None) -> None:
        self._frames = frames
        self._source = source

    def __aiter__(self) -> FrameStream:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._frames)

    async def aclose(self) -> None:
        source, self._source = self._source, None
        try:
            await self._frames.aclose()
        finally:
            if source is not None:
                await source.__aexit__(None, None, None)


def event_stream(
    frames: AsyncGenerator[bytes, None], source: AbstractAsyncContextManager[Any] | None = None
) -> StreamedResponse:
    return StreamedResponse(200, FrameStream(frames, source), _HEADERS, EVENT_STREAM)
