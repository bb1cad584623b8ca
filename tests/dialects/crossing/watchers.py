"""Watchers: each looks at a job with the client of its dialect. Their words differ, so each has a table of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from tests.dialects.stdio.processor_client import message_line
from windlass.core.ids import download_id_of_number

from .crossing_table import HOME_QUEUES, Dialect
from .deployment import Deployment

GONE = "gone"  # the dialect knows no such job, or no longer
STATES: Final = ("queued", "retried", "running", "finished", "removed", "failed", "cancelled")


class Watched(NamedTuple):
    """A job under the names that the dialects have for it."""

    key: str  # the engine's id
    queue: str
    uuid: str  # the processor's
    number: int  # Bedrock's
    download_id: str


Watch = Callable[[Deployment, Watched], Awaitable[str]]


async def watch_by_jobber(deployment: Deployment, job: Watched) -> str:
    answered = await deployment.api.get(f"/jobber/queue/{job.key}")
    return GONE if answered.status in (404, 410) else str(answered.body["state"])


async def watch_by_processor(deployment: Deployment, job: Watched) -> str:
    """Look for the job in the lists of queued, dispatched and processing jobs."""
    processor = deployment.processor
    for word in ("list_queue_jobs", "list_queue_dispatched", "list_queue_progress"):
        processor.send(message_line(f"job_queue/{word}", {"queue_name": job.queue}))
        answer = await processor.receive()
        assert answer["topic"].endswith(f"{word}_response"), answer
        rows = answer["payload"]["jobs"]
        assert all(0 <= row["priority"] <= 9 for row in rows)
        if job.uuid in [row["uuid"] for row in rows]:
            return word
    return GONE


async def watch_by_bedrock(deployment: Deployment, job: Watched) -> str:
    reply = await deployment.bedrock.call("QueryJob", jobID=job.number)
    return GONE if reply.line == "404 No job with this jobID" else str(reply.json["state"])


async def watch_by_lightjq(deployment: Deployment, job: Watched) -> str:
    reply = await deployment.lightjq("GET", f"/job/{job.key}")
    if reply.status == 404:
        return GONE
    return "nil" if reply.body is None else str(reply.body["status"])


async def watch_by_downloader(deployment: Deployment, job: Watched) -> str:
    answered = await deployment.api.get(f"/downloader/download/{job.download_id}")
    return GONE if answered.status == 404 else str(answered.body["download_state"])


async def watch_by_native(deployment: Deployment, job: Watched) -> str:
    answered = await deployment.api.get(f"/api/v1/jobs/{job.key}")
    return GONE if answered.status in (404, 410) else str(answered.body["job"]["state"])


async def watch_by_sdk(deployment: Deployment, job: Watched) -> str:
    return await deployment.app.job(job.key).astate()


WATCHERS: Final[dict[Dialect, Watch]] = {
    "jobber": watch_by_jobber,
    "processor": watch_by_processor,
    "bedrock": watch_by_bedrock,
    "lightjq": watch_by_lightjq,
    "downloader": watch_by_downloader,
    "native": watch_by_native,
    "sdk": watch_by_sdk,
}
_LISTED = {"list_queue_dispatched", "list_queue_progress"}
# The words of each dialect for a state. `retried`: it waits for its next attempt. `removed`: it has finished, and the
# engine kept no record.
WORDS: Final[dict[Dialect, dict[str, set[str]]]] = {
    "jobber": {
        "queued": {"queued"},
        "retried": {"queued", "scheduled"},
        "running": {"running", "dispatched"},
        "finished": {"finished"},
        "removed": {GONE},
        "failed": {"failed"},
        "cancelled": {"cancelled"},
    },
    "processor": {
        "queued": {"list_queue_jobs"},
        "retried": {"list_queue_jobs", GONE},
        "running": _LISTED,
        "finished": {GONE},
        "removed": {GONE},
        "failed": {GONE},
        "cancelled": {GONE},
    },
    "bedrock": {
        "queued": {"QUEUED"},
        "retried": {"QUEUED"},
        "running": {"RUNNING", "RUNQUEUED"},
        "finished": {"FINISHED"},
        "removed": {GONE},
        "failed": {"FAILED"},
        "cancelled": {"CANCELLED"},
    },
    "lightjq": {
        "queued": {"queued"},
        "retried": {"retrying"},
        "running": {"running"},
        "finished": {"done"},
        "removed": {GONE, "nil"},
        "failed": {"error"},
        "cancelled": {GONE},
    },
    "downloader": {
        "queued": {"PENDING"},
        "retried": {"PENDING"},
        "running": {"IN_PROGRESS"},
        "finished": {"SUCCESS", "FAILED"},  # FAILED: another worker has reported a result that is not a download
        "removed": {GONE},
        "failed": {"FAILED"},
        "cancelled": {"FAILED"},
    },
    "native": {
        "queued": {"queued"},
        "retried": {"queued", "scheduled"},
        "running": {"running", "dispatched"},
        "finished": {"finished"},
        "removed": {GONE},
        "failed": {"failed"},
        "cancelled": {"cancelled"},
    },
    "sdk": {
        "queued": {"queued"},
        "retried": {"queued", "scheduled"},
        "running": {"running", "dispatched"},
        "finished": {"finished"},
        "removed": {"ended"},
        "failed": {"failed"},
        "cancelled": {"cancelled"},
    },
}


def names_of(key: str, queue: str, number: int, creator: Dialect, own_id: str) -> Watched:
    return Watched(
        key=key,
        queue=queue,
        uuid=own_id if creator == "processor" else key,
        number=number,
        download_id=own_id if creator == "downloader" else download_id_of_number(number),
    )


async def assert_all_see(deployment: Deployment, job: Watched, *states: str) -> None:
    """Assert that every watcher sees the job in one of the states, and all the same one."""
    seen = {dialect: await watch(deployment, job) for dialect, watch in WATCHERS.items()}
    if job.queue != HOME_QUEUES["downloader"]:
        assert seen.pop("downloader") == GONE, "it is not a download"
    fitting = [state for state in states if all(word in WORDS[dialect][state] for dialect, word in seen.items())]
    assert fitting, (states, seen)
