"""Streams of jobs as responses of Starlette and FastAPI."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from windlass.sdk.handle import JobHandle
from windlass.sdk.streams.server_sent_events import HEADERS, MEDIA_TYPE, EventSourceStream


async def stream_response(request: Request, job: JobHandle[Any]) -> Response:
    """Return the stream of a job as server-sent events, from its start or after the client's Last-Event-ID.

    A job that does not exist is answered with 404, one that is no longer stored with 410, and a browser that reconnects
    after the end with 204."""
    stream = EventSourceStream(job, request.headers.get("last-event-id", ""))
    refused = await stream.check()
    if refused is not None:
        return PlainTextResponse(refused.text, refused.status) if refused.text else Response(status_code=refused.status)
    return StreamingResponse(stream.frames(), media_type=MEDIA_TYPE, headers=HEADERS)
