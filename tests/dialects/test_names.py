"""Names with control characters of the C1 range or bidirectional controls: refused wherever something would be stored
under them, in the words of each dialect. What an older version has stored under them can be read, taken and removed."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from tests.dialects.lightjq.lightjq_client import LightJqClient
from tests.dialects.stdio.processor_client import IDENTITY, message_line
from tests.support.legacy_names import allow_legacy_names
from windlass.core.access.tokens import NewToken, Role
from windlass.core.errors import BadInput
from windlass.core.ids import format_id
from windlass.core.job import NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import LeaseRef, Listing, Take, WorkerInfo
from windlass.core.scheduling.schedule import Schedule
from windlass.dialects.stdio.jobs import DEFAULT_JOB_NAME
from windlass.dialects.stdio.messages import AddJobMessage, MessageReader, ProcessorOptions
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
NAMES = ["a\x9b31m", "\x85", "\u202eevil", "a\u2066b", "\u061c", "a\u200f"]
EVIL = "\u202eevil\x9b1m"
SAID = "must not contain control characters"
WORKER = bytes(15) + b"w"


def _job(**fields: Any) -> NewJob:
    return NewJob(**{"queue": "q", "name": "n", **fields})


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_nothing_new_is_stored_under_one(service: Service, name: str) -> None:
    asked = {
        "queue": lambda: service.enqueue([_job(queue=name)]),
        "name": lambda: service.enqueue([_job(name=name)]),
        "lane": lambda: service.enqueue([_job(lane=name)]),
        "unique": lambda: service.enqueue([_job(unique=name)]),
        "trace": lambda: service.enqueue([_job(trace=name)]),
        "a tag": lambda: service.enqueue([_job(tags=("fine", name))]),
        "queue of a schedule's job": lambda: service.schedule(
            Schedule(name="s", job=_job(queue=name), every_ms=60_000)
        ),
        "name of a schedule": lambda: service.schedule(Schedule(name=name, job=_job(), every_ms=60_000)),
        "name of a limit": lambda: service.limit(Limit(name=name, matches=Matcher(queue="q"), running=1)),
        "name of a token": lambda: service.create_token(NewToken(name=name, roles=frozenset({Role.READ}))),
        "queues of a token": lambda: service.create_token(
            NewToken(name="t", roles=frozenset({Role.READ}), queues=(name,))
        ),
        "name of a worker": lambda: service.register(WORKER, WorkerInfo(name=name)),
        "host of a worker": lambda: service.register(WORKER, WorkerInfo(host=name)),
        "pause": lambda: service.pause(name),
        "pause of a lane": lambda: service.pause("q", lane=name),
        "configuration": lambda: service.configure(name, {"lease_ms": 1000}),
        "weights": lambda: service.set_weights("q", {name: 2}),
    }
    accepted = []
    for what, ask in asked.items():
        with contextlib.suppress(BadInput):
            ask().wait()
            accepted.append(what)
    assert accepted == []
    assert service.queues().wait() == []


async def test_http_says_so_in_the_words_of_each_dialect(
    client: httpx.AsyncClient, lightjq: LightJqClient, service: Service
) -> None:
    segment = quote(EVIL, safe="")
    asked: list[tuple[str, str, Any]] = [
        ("POST", "/api/v1/jobs", {"queue": EVIL, "name": "n"}),
        ("POST", "/api/v1/jobs:batch", {"items": [{"queue": "q", "name": EVIL}]}),
        ("POST", "/api/v1/jobs:whole", {"items": [{"queue": "q", "name": "n", "lane": EVIL}]}),
        ("PUT", f"/api/v1/schedules/{segment}", {"job": {"queue": "q", "name": "n"}, "every_ms": 60_000}),
        ("PUT", f"/api/v1/limits/{segment}", {"matches": {"queue": "q"}, "running": 1}),
        ("POST", f"/api/v1/queues/{segment}/pause", {}),
        ("PATCH", f"/api/v1/queues/{segment}/configuration", {"lease_ms": 1000}),
        ("POST", "/api/v1/tokens", {"name": EVIL, "roles": ["read"]}),
        ("PUT", f"/api/v1/workers/{format_id(WORKER)}", {"name": EVIL}),
        ("POST", "/jobber/queue", {"type": EVIL}),
    ]
    for method, path, body in asked:
        answer = await client.request(method, path, json=body)
        assert (answer.status_code, SAID in answer.text) == (400, True), (path, answer.text)
    for path, body in (("/job", {"name": EVIL, "argument": {}}), ("/worker", {"name": EVIL, "max_jobs": 1})):
        said = await lightjq("POST", path, body)
        assert (said.status, said.error, SAID in said.body["message"]) == (400, "bad_input", True)
    assert set(await service.queues()) <= {"lightjq"}  # which LightJQ itself sets up


async def test_bedrock_says_so(bedrock: BedrockCommands) -> None:
    for name in NAMES:
        assert (await bedrock("CreateJob", name=name)).line == "402 Malformed name"
        assert (await bedrock("CreateJobs", jobs=[{"name": name}])).line == "402 Malformed name"


def test_the_processor_says_so(service: Service) -> None:
    for fields in ({"queue_name": EVIL, "uuid": "u"}, {"queue_name": "q", "uuid": EVIL}):
        with pytest.raises(BadInput, match=SAID):
            MessageReader(IDENTITY, ProcessorOptions()).read(message_line("job_queue/add_job", fields).encode(), 0)
    with pytest.raises(BadInput, match=SAID):
        MessageReader(IDENTITY, ProcessorOptions()).read(
            message_line("job_queue/worker_idle", {"queue_name": "q"}, EVIL).encode(), 0
        )
    added = MessageReader(IDENTITY, ProcessorOptions()).read(
        message_line("job_queue/add_job", {"uuid": "u", "queue_name": "q", "command": EVIL}).encode(), 0
    )
    assert isinstance(added, AddJobMessage)
    assert added.job.name == DEFAULT_JOB_NAME  # as for every command that cannot be a name


async def test_a_download_of_such_an_aggregation_has_a_lane(client: httpx.AsyncClient, service: Service) -> None:
    """An aggregation is any text; its lane is a digest where it cannot be a name."""
    order = {"url": "http://x/", "aggr_id": EVIL, "aggr_limit": 1, "callback_url": "http://x/"}
    assert (await client.post("/downloader/download", json=order)).status_code == 201
    [job] = (await service.take(Take(queues=("downloads",)))).jobs
    assert job.lane.startswith("#")


async def test_what_was_stored_under_one_stays_in_reach(client: httpx.AsyncClient, service: Service) -> None:
    with allow_legacy_names():
        made = [await service.enqueue([_job(queue=EVIL, name=EVIL, tags=(EVIL,))]).one() for _ in range(4)]
        await service.pause(EVIL, lane=EVIL)
        await service.schedule(Schedule(name=EVIL, job=_job(queue=EVIL), every_ms=60_000))
        await service.limit(Limit(name=EVIL, matches=Matcher(queue=EVIL), running=3))
        await service.create_token(NewToken(name=EVIL, roles=frozenset({Role.ADMIN})))
        admin = await service.create_token(NewToken(name="admin", roles=frozenset({Role.ADMIN})))
    headers = {"authorization": f"Bearer {admin.text}"}
    segment = quote(EVIL, safe="")
    assert await service.queues() == [EVIL]
    assert (await service.stats([EVIL]))[0].queued == 4
    assert len((await service.jobs(Listing(tag=EVIL))).jobs) == 4
    shown = await client.get(f"/api/v1/jobs/{format_id(made[0].id)}", headers=headers)
    assert (shown.json()["job"]["queue"], shown.json()["job"]["name"]) == (EVIL, EVIL)
    queue = await client.get(f"/api/v1/queues/{segment}", headers=headers)
    assert queue.json()["stats"]["queued"] == 4, queue.text
    [taken] = (await service.take(Take(queues=(EVIL,)))).jobs
    await service.release([LeaseRef(taken.id, taken.lease_token)]).one()
    await service.delete([made[0].id]).one()
    assert await service.resume(EVIL, lane=EVIL)
    for path in (f"/api/v1/schedules/{segment}", f"/api/v1/limits/{segment}", f"/api/v1/tokens/{segment}"):
        assert (await client.delete(path, headers=headers)).status_code < 300, path
    purged = await client.post(f"/api/v1/queues/{segment}/purge", json={"state": "queued"}, headers=headers)
    assert purged.status_code == 200, purged.text
    assert (await service.stats([EVIL]))[0].queued == 0
