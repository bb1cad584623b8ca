"""Jobber's API: one POST per job. The server makes the id, and a repeated request is a second job."""

from __future__ import annotations

from collections.abc import Sequence

from ...history import JobFacts
from ..job_generator import JobRequest
from .native_http import HttpClient, post_once

VISIBILITY_TIMEOUT_S = 2.0


class JobberProducer:
    is_repeatable = False

    def __init__(self, http: HttpClient, kind: str) -> None:
        self._http = http
        self._type = kind
        self.queue = f"job_queue_{kind}"

    async def enqueue(self, requests: Sequence[JobRequest]) -> list[JobFacts]:
        (request,) = requests
        body = {"type": self._type, "payload": request.payload, "visibility_timeout": VISIBILITY_TIMEOUT_S}
        answer = await post_once(self._http, "/jobber/queue", body)
        return [JobFacts(id=answer["job-id"], outcome="queued")]
