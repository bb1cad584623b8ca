"""LightJQ client with MessagePack bodies, and a helper that leases jobs to a worker."""

from __future__ import annotations

from typing import Any, NamedTuple

import httpx
import msgspec

from windlass.core.ids import parse_id
from windlass.core.job import Job
from windlass.core.operations import Take
from windlass.service import Service

NOTHING = object()
QUEUE = "lightjq"


class LightJqReply(NamedTuple):
    status: int
    body: Any

    @property
    def error(self) -> str:
        assert set(self.body) == {"error", "message"}, self
        return str(self.body["error"])


class LightJqClient:
    """Client for paths below /lightjq."""

    def __init__(self, client: httpx.AsyncClient, token: str = "") -> None:
        self.client = client
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    def with_token(self, token: str) -> LightJqClient:
        return LightJqClient(self.client, token)

    async def __call__(self, method: str, path: str, body: Any = NOTHING, worker: str = "") -> LightJqReply:
        content = None if body is NOTHING else msgspec.msgpack.encode(body)
        return await self.raw(method, path, content, {"worker-id": worker} if worker else {})

    async def raw(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str] | None = None
    ) -> LightJqReply:
        """Send exactly these bytes."""
        given = {"content-type": "application/msgpack"} | self._headers | (headers or {})
        found = await self.client.request(method, f"/lightjq{path}", content=content, headers=given)
        if found.content:
            assert found.headers["content-type"] == "application/msgpack", found
        return LightJqReply(found.status_code, msgspec.msgpack.decode(found.content) if found.content else None)

    async def push(self, name: str = "n", argument: Any = None, **fields: Any) -> str:
        response = await self("POST", "/job", {"name": name, "argument": argument or {}} | fields)
        assert response.status == 201, response
        assert list(response.body) == ["job_id"]
        return str(response.body["job_id"])

    async def status(self, job_id: str) -> dict[str, Any]:
        response = await self("GET", f"/job/{job_id}")
        assert response.status == 200, response
        return dict(response.body)

    async def register(self, **fields: Any) -> str:
        response = await self("POST", "/worker", {"name": "w", "max_jobs": 5} | fields)
        assert response.status == 201, response
        return str(response.body["worker_id"])

    async def succeed(self, worker: str, job_id: str, **fields: Any) -> LightJqReply:
        return await self("POST", "/done", {"job_id": job_id, "type": "success"} | fields, worker)

    async def fail(self, worker: str, job_id: str, **fields: Any) -> LightJqReply:
        body = {"job_id": job_id, "type": "failure", "reason": "other", "should_retry": True, "message": "no"}
        return await self("POST", "/done", body | fields, worker)

    async def constrain(self, **fields: Any) -> str:
        response = await self("POST", "/constraint", fields)
        assert response.status == 201, response
        return str(response.body["constraint_id"])


async def hold(service: Service, worker: str, *, accept_ms: int = 0) -> Job | None:
    """Lease the next job to a worker, as the dispatcher does. With `accept_ms` it is not accepted yet."""
    taken = await service.take(Take(queues=(QUEUE,), worker=parse_id(worker), accept_ms=accept_ms))
    return taken.jobs[0] if taken.jobs else None
