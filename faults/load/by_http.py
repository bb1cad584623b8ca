"""The native HTTP API, as a program without the SDK would speak it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp
import msgspec

from ..history import Seen
from .life import Refused, Unanswered
from .wishes import Wish
from .working import Conduct, Manner

TIMEOUT_S = 10.0
# Codes with a status of 500 or more that are refusals nevertheless: nothing was done.
_NOTHING_DONE = frozenset(("engine_full", "queue_full", "limits_changed", "unsettled", "partition_stopped"))


class Http:
    """A client of one server; connections are made anew when they break."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Any:
        status, content = await self.send("POST", path, msgspec.json.encode(body), headers or {})
        answer = decoded(content)
        if 200 <= status < 300:
            return answer
        raise refusal(status, answer)

    async def send(self, method: str, path: str, content: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        given = {"content-type": "application/json", "accept": "application/json"} | headers
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))
        try:
            async with self._session.request(method, self._url + path, data=content, headers=given) as response:
                return response.status, await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise Unanswered(f"{type(error).__name__}: {error}") from error

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()


def decoded(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content) if content else None
    except msgspec.DecodeError as error:
        raise Unanswered("an answer that was cut") from error


def refusal(status: int, answer: Any) -> Refused | Unanswered:
    code = str(answer.get("code", status)) if isinstance(answer, dict) else str(status)
    if status >= 500 and code not in _NOTHING_DONE:
        return Unanswered(f"{status} {code}")
    return Refused(code)


class HttpCounter:
    is_repeatable = True

    def __init__(self, http: Http) -> None:
        self._http = http

    async def enqueue(self, wishes: Sequence[Wish]) -> list[Seen]:
        """The key of the first is that of the whole list."""
        headers = {"idempotency-key": wishes[0].key}
        if len(wishes) == 1:
            return [_enqueued(await self._http.post("/api/v1/jobs", _job(wishes[0]), headers))]
        body = {"items": [_job(wish) for wish in wishes]}
        answer = await self._http.post("/api/v1/jobs:batch", body, headers)
        return [
            _enqueued(one["ok"]) if "ok" in one else Seen(code=str(one["error"]["code"])) for one in answer["results"]
        ]


def _job(wish: Wish) -> dict[str, Any]:
    found = {
        "queue": wish.queue, "name": wish.name, "lane": wish.lane, "priority": wish.priority, "payload": wish.payload,
        "delay_ms": wish.delay_ms, "retry": {"tries": wish.tries, "base_ms": 10},
    }  # fmt: skip
    return found | ({"callback": {"url": wish.callback}} if wish.callback else {})


def _enqueued(answer: Any) -> Seen:
    return Seen(id=answer["id"], outcome=answer["status"], is_durable=answer["is_durable"])


class HttpBench:
    manners: frozenset[Manner] = frozenset(("finish", "extend", "retry", "give_up", "release", "sleep", "abandon"))
    link = ""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def ready(self) -> None:
        """Connections are made by the calls."""

    async def take(self, conduct: Conduct) -> list[Seen]:
        body = {
            "queues": list(conduct.queues), "most": conduct.most, "lease_ms": conduct.lease_ms,
            "wait_ms": conduct.wait_ms,
        }  # fmt: skip
        return [_lease_of(job) for job in (await self._http.post("/api/v1/take", body))["jobs"]]

    async def finish(self, held: Seen) -> Seen:
        return await self._report("finish", held)

    async def fail(self, held: Seen, *, final: bool, delay_ms: int) -> Seen:
        return await self._report("fail", held, then="final" if final else "retry", delay_ms=delay_ms)

    async def release(self, held: Seen) -> Seen:
        answer = await self._http.post(f"/api/v1/jobs/{held.id}/release", {"token": held.token})
        return Seen(outcome=answer["state"])

    async def extend(self, held: Seen, lease_ms: int) -> Seen:
        body = {"token": held.token, "lease_ms": lease_ms}
        answer = await self._http.post(f"/api/v1/jobs/{held.id}/extend", body)
        return Seen(lease_until_ms=answer["deadline_at_ms"] or 0, lease_ms=lease_ms)

    async def _report(self, verb: str, held: Seen, **fields: Any) -> Seen:
        answer = await self._http.post(f"/api/v1/jobs/{held.id}/{verb}", {"token": held.token} | fields)
        return Seen(outcome=answer["outcome"])


def _lease_of(job: Any) -> Seen:
    leased_at_ms, until_ms = job["started_at_ms"] or 0, job["lease_deadline_at_ms"] or 0
    payload = job.get("payload")
    known = payload if isinstance(payload, dict) else {}
    return Seen(
        key=str(known.get("key", "")), id=job["id"], queue=job["queue"], name=job["name"], lane=job["lane"],
        priority=job["priority"], tries=job["retry"].get("tries", 3), token=job["lease_token"], attempt=job["attempt"],
        leased_at_ms=leased_at_ms, lease_until_ms=until_ms, lease_ms=until_ms - leased_at_ms if until_ms else 0,
        limit_keys=tuple(known.get("limit_keys", ())), schedule=job["schedule"],
        planned_at_ms=job["planned_at_ms"] or 0,
    )  # fmt: skip
