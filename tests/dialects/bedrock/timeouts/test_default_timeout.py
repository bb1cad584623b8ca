"""WINDLASS_BEDROCK_JOB_TIMEOUT: the time that clients may have jobs without a timeout of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.dialects.bedrock.client import connect
from tests.dialects.bedrock.command_router import BedrockCommands
from tests.dialects.bedrock.timeouts.test_job_timeout import seconds_between
from windlass.core.errors import BadSetting
from windlass.core.job import NewJob
from windlass.core.operations import Take
from windlass.core.queue import FOREVER_MS
from windlass.server import Server
from windlass.service import Service
from windlass.settings import Settings, load
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
only_valkey = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
TIMEOUT_S = 600


@pytest.fixture
async def limited(service: Service) -> AsyncIterator[BedrockCommands]:
    """Commands with a default timeout."""
    async with service.store:
        bedrock = BedrockCommands(service, job_timeout_ms=TIMEOUT_S * 1000)
        yield bedrock
        await bedrock.router.close()


async def test_a_stuck_job_is_queued_again(limited: BedrockCommands) -> None:
    """Also a job that was created without the default."""
    number = await BedrockCommands(limited.service).create("job", data={"a": 1})
    assert "expires" not in await limited.query(number)
    taken = await limited.get("job")
    row = await limited.query(number)
    assert (row["state"], row["timeout"], row["expires"]) == ("RUNNING", "", taken["expires"])
    assert 599 <= seconds_between(row["lastRun"], row["expires"]) <= 601
    limited.advance(TIMEOUT_S - 2)
    await limited.service.recover()
    assert await limited.state(number) == "RUNNING"
    limited.advance(3)
    await limited.service.recover()
    assert "expires" not in await limited.query(number)
    assert await limited.state(number) == "QUEUED"
    assert (await limited.get("job"))["data"] == {"a": 1}


@pytest.mark.parametrize("queue", ["bedrock", "mail"])
async def test_a_queue_has_a_default_of_its_own(bedrock: BedrockCommands, queue: str) -> None:
    number = await bedrock.create("job", queue=queue)
    await bedrock.service.configure(queue, {"lease_ms": 60_000, "lease_renewal": False})
    await bedrock.get("*", queue=queue)
    query = "SELECT expires FROM jobs WHERE queue = '{}';"
    assert (await bedrock.ok("Query", query=query.format(queue))).body != [[""]]
    bedrock.advance(61)
    await bedrock.service.recover()
    assert await bedrock.state(number) == "QUEUED"


@only_valkey
@pytest.mark.parametrize(
    ("queue", "settings", "seconds"),
    [
        ("mail", {"lease_renewal": False, "lease_ms": 60_000}, 60),
        ("mail", {"lease_renewal": False, "lease_ms": FOREVER_MS}, TIMEOUT_S),
        ("job_queue_mail", {"lease_renewal": True}, TIMEOUT_S),
        ("job_queue_mail", {}, 30),
    ],
)
async def test_a_fixed_lease_precedes_the_default(
    limited: BedrockCommands, queue: str, settings: dict[str, Any], seconds: int
) -> None:
    if settings:
        await limited.service.configure(queue, settings)
    number = await limited.create("job", queue=queue)
    taken = await limited.get("*", queue=queue)
    row = await limited.query(number)
    assert row["expires"] == taken["expires"]
    assert seconds - 1 <= seconds_between(row["lastRun"], row["expires"]) <= seconds + 1


@only_valkey
async def test_without_the_default_a_job_stays_with_its_worker(bedrock: BedrockCommands) -> None:
    number = await bedrock.running("job")
    bedrock.advance(10 * 365 * 86_400)
    await bedrock.service.recover()
    assert await bedrock.state(number) == "RUNNING"
    assert set(await bedrock.query(number)).isdisjoint({"timeout", "expires"})


@only_valkey
async def test_own_timeouts_win(limited: BedrockCommands) -> None:
    longer = await limited.running("longer", jobTimeout="+1 HOUR")
    shorter = await limited.running("shorter", jobTimeout="+1 MINUTE")
    retried = await limited.running("retried", retryAfter="+1 HOUR")
    assert set(await limited.query(retried)).isdisjoint({"timeout", "expires"})
    limited.advance(61)
    await limited.service.recover()
    assert await limited.state(shorter) == "QUEUED"
    limited.advance(TIMEOUT_S)
    await limited.service.recover()
    assert [await limited.state(number) for number in (longer, retried)] == ["RUNNING", "RUNQUEUED"]


@only_valkey
@pytest.mark.parametrize("lease_ms", [0, 1_000, TIMEOUT_S * 2_000])
async def test_jobs_of_other_dialects(limited: BedrockCommands, lease_ms: int) -> None:
    """The lease for workers that renew it does not count for GetJob."""
    await limited.create("first")
    await limited.service.enqueue([NewJob(queue="bedrock", name="job", lease_ms=lease_ms)])
    taken = await limited.get("job")
    limited.advance(TIMEOUT_S - 2)
    await limited.service.recover()
    assert await limited.state(taken["jobID"]) == "RUNNING"
    limited.advance(3)
    await limited.service.recover()
    assert await limited.state(taken["jobID"]) == "QUEUED"


@only_valkey
async def test_workers_of_other_dialects_keep_their_leases(limited: BedrockCommands) -> None:
    number = await limited.create("job")
    await limited.service.take(Take(queues=("bedrock",), lease_ms=TIMEOUT_S * 2_000))
    limited.advance(TIMEOUT_S + 1)
    await limited.service.recover()
    assert await limited.state(number) == "RUNNING"


@only_valkey
async def test_the_queue_keeps_the_settings_of_its_operator(limited: BedrockCommands) -> None:
    """The default is no setting of the queue: nothing of the queue is written at a start."""
    await limited.create("job")
    await limited.service.configure("bedrock", {"lease_ms": 5_000})
    other = BedrockCommands(limited.service, job_timeout_ms=1_000)
    await other.create("job")
    assert (await limited.service.configuration("bedrock")).lease_ms == 5_000


@pytest.fixture
def server_settings() -> Settings:
    return Settings(port=0, bedrock_port=0, roles="api", bedrock_job_timeout_ms=TIMEOUT_S * 1000)


@only_valkey
async def test_the_setting_reaches_the_server(running: Server, store: Store) -> None:
    async with connect(running.bedrock) as client:
        await client.call("CreateJob", name="job")
        taken = (await client.call("GetJob", name="job")).json
        assert taken["expires"]
        assert (await client.call("QueryJob", jobID=1)).json["expires"] == taken["expires"]
        store.clock_offset_ms += (TIMEOUT_S + 1) * 1000
        assert (await client.call("GetJob", name="job")).json["jobID"] == 1


@only_valkey
async def test_values_of_the_setting(engine: object) -> None:
    assert load({}, {})[0].bedrock_job_timeout_ms == 0
    assert load({}, {"WINDLASS_BEDROCK_JOB_TIMEOUT": "15m"})[0].bedrock_job_timeout_ms == 900_000
    for wrong in ("15", "-1s", "+5 MINUTES", "9999999999d"):
        with pytest.raises(BadSetting, match="WINDLASS_BEDROCK_JOB_TIMEOUT"):
            load({}, {"WINDLASS_BEDROCK_JOB_TIMEOUT": wrong})
