"""Creators: each makes a job in a queue with the client of its dialect, and cancels it before it is taken."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from tests.dialects.stdio.processor_client import message_line

from .crossing_table import HOME_QUEUES, Dialect
from .deployment import Deployment

NAME = "resize"
Create = Callable[[Deployment, str], Awaitable[str]]  # deployment and queue -> the dialect's own id of the job
Cancel = Callable[[Deployment, str, str], Awaitable[None]]  # deployment, queue and that id


def _unless_home(dialect: Dialect, queue: str) -> dict[str, Any]:
    """Name the queue only if it is another one than the dialect's own."""
    return {} if queue == HOME_QUEUES[dialect] else {"queue": queue}


async def create_by_jobber(deployment: Deployment, queue: str) -> str:
    is_home = queue == HOME_QUEUES["jobber"]
    body = {"type": "crossing" if is_home else NAME, "payload": deployment.order}
    answered = await deployment.api.post("/jobber/queue", body | _unless_home("jobber", queue))
    assert answered.status == 201, answered
    return str(answered.body["job-id"])


async def cancel_by_jobber(deployment: Deployment, queue: str, job_id: str) -> None:
    answered = await deployment.api.delete(f"/jobber/queue/{job_id}")
    assert answered.status < 300, answered


async def create_by_processor(deployment: Deployment, queue: str) -> str:
    job_uuid = str(uuid.uuid4())
    job = {"uuid": job_uuid, "queue_name": queue, "command": NAME, "args": deployment.order}
    await _say_to_processor(deployment, queue, "add_job", job)
    return job_uuid


async def cancel_by_processor(deployment: Deployment, queue: str, job_id: str) -> None:
    await _say_to_processor(deployment, queue, "del_job", {"uuid": job_id, "queue_name": queue})


async def _say_to_processor(deployment: Deployment, queue: str, word: str, payload: dict[str, Any]) -> None:
    """Send a message, and a list request whose answer shows that the message has taken effect."""
    processor = deployment.processor
    processor.send(message_line(f"job_queue/{word}", payload, "producer"))
    processor.send(message_line("job_queue/list_queue_jobs", {"queue_name": queue}))
    assert (await processor.receive())["topic"].endswith("list_queue_jobs_response")


async def create_by_bedrock(deployment: Deployment, queue: str) -> str:
    data = msgspec.json.encode(deployment.order).decode()
    reply = await deployment.bedrock.call("CreateJob", name=NAME, data=data, **_unless_home("bedrock", queue))
    assert reply.line == "200 OK", reply
    return str(reply.json["jobID"])


async def cancel_by_bedrock(deployment: Deployment, queue: str, job_id: str) -> None:
    """Delete the job: CancelJob is only for children."""
    assert (await deployment.bedrock.call("DeleteJob", jobID=job_id)).line == "200 OK"


async def create_by_lightjq(deployment: Deployment, queue: str) -> str:
    return await deployment.lightjq.push(
        NAME, deployment.order, keep_result=True, max_retry=3, **_unless_home("lightjq", queue)
    )


async def cancel_by_lightjq(deployment: Deployment, queue: str, job_id: str) -> None:
    assert (await deployment.lightjq("DELETE", f"/job/{job_id}")).status == 204


async def create_by_downloader(deployment: Deployment, queue: str) -> str:
    body = deployment.order | {"aggr_limit": 2, "callback_url": deployment.origin.url("/callback")}
    answered = await deployment.api.post("/downloader/download", body)
    assert answered.status == 201, answered
    return str(answered.body["id"])


async def create_by_native(deployment: Deployment, queue: str) -> str:
    job = {"queue": queue, "name": NAME, "payload": deployment.order, "result_ttl_ms": 60_000}
    answered = await deployment.api.post("/api/v1/jobs", job)
    assert answered.status == 201, answered
    return str(answered.body["id"])


async def cancel_by_native(deployment: Deployment, queue: str, job_id: str) -> None:
    answered = await deployment.api.post(f"/api/v1/jobs/{job_id}/cancel")
    assert answered.status < 300, answered


async def create_by_sdk(deployment: Deployment, queue: str) -> str:
    @deployment.app.task(name=NAME, queue=queue, keep_result=60)
    async def resize(url: str, aggr_id: str, extra: str) -> None:
        raise AssertionError("another application runs it")

    return (await resize.aenqueue(**deployment.order)).id


async def cancel_by_sdk(deployment: Deployment, queue: str, job_id: str) -> None:
    await deployment.app.job(job_id).acancel()


CREATORS: Final[dict[Dialect, Create]] = {
    "jobber": create_by_jobber,
    "processor": create_by_processor,
    "bedrock": create_by_bedrock,
    "lightjq": create_by_lightjq,
    "downloader": create_by_downloader,
    "native": create_by_native,
    "sdk": create_by_sdk,
}
# The downloader has no word for it; its jobs are cancelled with those of other dialects.
CANCELS: Final[dict[Dialect, Cancel]] = {
    "jobber": cancel_by_jobber,
    "processor": cancel_by_processor,
    "bedrock": cancel_by_bedrock,
    "lightjq": cancel_by_lightjq,
    "native": cancel_by_native,
    "sdk": cancel_by_sdk,
}
# Bedrock and LightJQ cancel no running job. The processor's answer to `del_job` would mix with its worker's messages.
CANCELS_OF_RUNNING: Final[dict[Dialect, Cancel]] = {"jobber": cancel_by_jobber, "sdk": cancel_by_sdk}
