"""Jobs in the states that tests of the native API look at, made through the service beside the server; and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.support.api_client import Api
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import format_id
from windlass.core.job import Blob, Job, NewJob
from windlass.core.operations import Fail, Finish, Take
from windlass.service import Service

ABSENT = "01890a5d-ac96-7000-8000-b5c1d0b7a3f2"
# Nothing of this is an id, whatever is done about its percent signs.
HOSTILE = (
    "nope", "%00", "a%00b", "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd", "a%2Fb", "%F0%9F%92%A9", "%E2%80%AE", "%ff", "%0d%0aX:y",
    "%7B%7D", "0", "01890a5d-ac96-7000-8000-b5c1d0b7a3f", "01890a5d-ac96-7000-8000-b5c1d0b7a3f2%00", "*",
)  # fmt: skip


async def put(service: Service, queue: str = "q", name: str = "n", **more: Any) -> bytes:
    return (await service.enqueue([NewJob(queue=queue, name=name, **more)]).one()).id


async def take(service: Service, queue: str = "q") -> Job:
    [job] = (await service.take(Take(queues=(queue,)))).jobs
    return job


async def running(service: Service, **more: Any) -> Job:
    await put(service, **more)
    return await take(service, more.get("queue", "q"))


async def finished(service: Service, result: Blob | None = None, **more: Any) -> bytes:
    job = await running(service, **more)
    await service.finish([Finish(job.id, job.lease_token, result)]).one()
    return job.id


async def failed(service: Service, reason: str = "broken", error: Blob | None = None, **more: Any) -> bytes:
    job = await running(service, **more)
    await service.fail([Fail(id=job.id, token=job.lease_token, reason=reason, error=error)]).one()
    return job.id


async def bearer(service: Service, *roles: str, queues: tuple[str, ...] = ()) -> dict[str, str]:
    """The header of a new token."""
    name = " ".join((*roles, *queues))
    made = await service.create_token(NewToken(name=name, roles=frozenset(map(Role, roles)), queues=queues))
    return {"authorization": f"Bearer {made.text}"}


async def state_of(service: Service, job_id: bytes) -> str:
    return (await service.job([job_id]).one()).job.state.label


async def until(is_so: Callable[[], Any]) -> None:
    """What is awaited happens in another task or in the engine, and tells nobody."""
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def path(job_id: bytes | str, rest: str = "") -> str:
    return f"/api/v1/jobs/{job_id if isinstance(job_id, str) else format_id(job_id)}{rest}"


async def wait_for_end(api: Api, action_id: str) -> dict[str, Any]:
    """Wait until a bulk action has ended."""
    async with asyncio.timeout(30):
        while True:
            found: dict[str, Any] = (await api.get(f"/api/v1/actions/{action_id}")).body
            if found["state"] not in ("queued", "running"):
                return found
            await asyncio.sleep(0.02)
