"""Streams of jobs as responses of Flask."""

from __future__ import annotations

from typing import Any

from flask import Response, request

from windlass.sdk.handle import JobHandle
from windlass.sdk.streams.server_sent_events import HEADERS, MEDIA_TYPE, EventSourceStream


def stream_response(job: JobHandle[Any]) -> Response:
    """Return the stream of a job as server-sent events, from its start or after the client's Last-Event-ID.

    A job that does not exist is answered with 404, one that is no longer stored with 410, and a browser that reconnects
    after the end with 204. Each open stream occupies a thread of the server; all of them share the reads of one
    thread of the application."""
    stream = EventSourceStream(job, request.headers.get("Last-Event-ID", ""))
    refused = stream.check_sync()
    if refused is not None:
        return Response(refused.text, refused.status, mimetype="text/plain")
    return Response(stream.frames_sync(), mimetype=MEDIA_TYPE, headers=HEADERS)
