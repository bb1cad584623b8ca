"""Streams of jobs as responses of Django."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from windlass.sdk.handle import JobHandle
from windlass.sdk.streams.server_sent_events import HEADERS, MEDIA_TYPE, EventSourceStream, Refused


def stream_response(request: HttpRequest, job: JobHandle[Any]) -> HttpResponseBase:
    """Return the stream of a job as server-sent events, from its start or after the client's Last-Event-ID.

    For sync views behind WSGI. A job that does not exist is answered with 404, one that is no longer stored with 410,
    and a browser that reconnects after the end with 204. Each open stream occupies a thread of the server."""
    stream = _stream_for(request, job)
    refused = stream.check_sync()
    return _refusal(refused) if refused is not None else _streaming(stream.frames_sync())


async def astream_response(request: HttpRequest, job: JobHandle[Any]) -> HttpResponseBase:
    """Return the same for async views behind ASGI, where an open stream occupies no thread."""
    stream = _stream_for(request, job)
    refused = await stream.check()
    return _refusal(refused) if refused is not None else _streaming(stream.frames())


def _stream_for(request: HttpRequest, job: JobHandle[Any]) -> EventSourceStream:
    return EventSourceStream(job, request.headers.get("Last-Event-ID", ""))


def _refusal(refused: Refused) -> HttpResponse:
    return HttpResponse(refused.text, status=refused.status, content_type="text/plain")


def _streaming(frames: Any) -> StreamingHttpResponse:
    return StreamingHttpResponse(frames, content_type=MEDIA_TYPE, headers=HEADERS)
