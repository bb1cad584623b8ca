"""The native HTTP API, as a program without the SDK uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp
import msgspec

from ...history import JobFacts
from ..context import CallRefused, CallUnanswered
from ..job_generator import JobRequest
from ..worker import JobAction, WorkerProfile

TIMEOUT_S = 10.0
# Codes with a status of 500 or more that are definite refusals.
_DEFINITE_REFUSALS = frozenset(("engine_full", "queue_full", "limits_changed", "unsettled", "partition_stopped"))


class HttpClient:
    """A client of one server. It replaces broken connections."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Any:
        status, content = await self.send("POST", path, msgspec.json.encode(body), headers or {})
        answer = decode_body(content)
        if 200 <= status < 300:
            return answer
        raise error_for(status, answer)

    async def send(self, method: str, path: str, content: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        all_headers = {"content-type": "application/json", "accept": "application/json"} | headers
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))
        try:
            async with self._session.request(method, self._url + path, data=content, headers=all_headers) as response:
                return response.status, await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise CallUnanswered(f"{type(error).__name__}: {error}") from error

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()


async def post_once(http: HttpClient, path: str, body: object) -> dict[str, str]:
    """Post to a front end that answers 201, or refuses in plain text."""
    status, content = await http.send("POST", path, msgspec.json.encode(body), {})
    if status != 201:
        raise error_for(status, None)
    answer: dict[str, str] = decode_body(content)
    return answer


def decode_body(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content) if content else None
    except msgspec.DecodeError as error:
        raise CallUnanswered("the answer was cut off") from error


def error_for(status: int, answer: Any) -> CallRefused | CallUnanswered:
    code = str(answer.get("code", status)) if isinstance(answer, dict) else str(status)
    if status >= 500 and code not in _DEFINITE_REFUSALS:
        return CallUnanswered(f"{status} {code}")
    return CallRefused(code)


class HttpProducer:
    is_repeatable = True

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def enqueue(self, requests: Sequence[JobRequest]) -> list[JobFacts]:
        """Enqueue with the key of the first job as the idempotency key of the whole request."""
        headers = {"idempotency-key": requests[0].key}
        if len(requests) == 1:
            return [_enqueued_facts(await self._http.post("/api/v1/jobs", _job_body(requests[0]), headers))]
        body = {"items": [_job_body(request) for request in requests]}
        answer = await self._http.post("/api/v1/jobs:batch", body, headers)
        return [
            _enqueued_facts(result["ok"]) if "ok" in result else JobFacts(code=str(result["error"]["code"]))
            for result in answer["results"]
        ]


def _job_body(request: JobRequest) -> dict[str, Any]:
    body = {
        "queue": request.queue, "name": request.name, "lane": request.lane, "priority": request.priority,
        "payload": request.payload, "delay_ms": request.delay_ms, "retry": {"tries": request.tries, "base_ms": 10},
    }  # fmt: skip
    return body | ({"callback": {"url": request.callback}} if request.callback else {})


def _enqueued_facts(answer: Any) -> JobFacts:
    return JobFacts(id=answer["id"], outcome=answer["status"], is_durable=answer["is_durable"])


class HttpWorker:
    actions: frozenset[JobAction] = frozenset(("finish", "extend", "retry", "give_up", "release", "sleep", "abandon"))
    connection = ""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def ready(self) -> None:
        """Do nothing: the calls connect."""

    async def take(self, profile: WorkerProfile) -> list[JobFacts]:
        body = {
            "queues": list(profile.queues), "most": profile.most, "lease_ms": profile.lease_ms,
            "wait_ms": profile.wait_ms,
        }  # fmt: skip
        return [_lease_facts(job) for job in (await self._http.post("/api/v1/take", body))["jobs"]]

    async def finish(self, lease: JobFacts) -> JobFacts:
        return await self._report("finish", lease)

    async def fail(self, lease: JobFacts, *, final: bool, delay_ms: int) -> JobFacts:
        return await self._report("fail", lease, then="final" if final else "retry", delay_ms=delay_ms)

    async def release(self, lease: JobFacts) -> JobFacts:
        answer = await self._http.post(f"/api/v1/jobs/{lease.id}/release", {"token": lease.token})
        return JobFacts(outcome=answer["state"])

    async def extend(self, lease: JobFacts, lease_ms: int) -> JobFacts:
        body = {"token": lease.token, "lease_ms": lease_ms}
        answer = await self._http.post(f"/api/v1/jobs/{lease.id}/extend", body)
        return JobFacts(lease_until_ms=answer["deadline_at_ms"] or 0, lease_ms=answer.get("fixed_for_ms", lease_ms))

    async def _report(self, verb: str, lease: JobFacts, **fields: Any) -> JobFacts:
        answer = await self._http.post(f"/api/v1/jobs/{lease.id}/{verb}", {"token": lease.token} | fields)
        return JobFacts(outcome=answer["outcome"])


def _lease_facts(job: Any) -> JobFacts:
    leased_at_ms, until_ms = job["started_at_ms"] or 0, job["lease_deadline_at_ms"] or 0
    payload = job.get("payload")
    fields = payload if isinstance(payload, dict) else {}
    return JobFacts(
        key=str(fields.get("key", "")), id=job["id"], queue=job["queue"], name=job["name"], lane=job["lane"],
        priority=job["priority"], tries=job["retry"].get("tries", 3), token=job["lease_token"], attempt=job["attempt"],
        leased_at_ms=leased_at_ms, lease_until_ms=until_ms, lease_ms=until_ms - leased_at_ms if until_ms else 0,
        limit_keys=tuple(fields.get("limit_keys", ())), schedule=job["schedule"],
        planned_at_ms=job["planned_at_ms"] or 0,
    )  # fmt: skip
