"""Requests in the form of Bedrock's PHP client, and the loop of its worker manager, against a real server.

The client ends lines with CRLF, sends a Content-Length and headers of its own with every command, writes arrays as JSON
with doubled backslashes, and leaves empty values out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.bedrock.client import ClientReply, SocketClient, connect
from windlass.server import Server
from windlass.settings import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

OF_EVERY_COMMAND = {
    "commitCount": 7, "requestID": "a1b2c3", "lastIP": "127.0.0.1", "writeConsistency": "ASYNC", "priority": 850,
    "timeout": 110_000, "logParam": "x",
}  # fmt: skip
ESCAPES = {"\\": "\\\\", "\r": "\\r", "\n": "\\n", "\t": "\\t"}


def _encode(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):  # PHP escapes slashes
        return json.dumps(value).replace("/", "\\/").replace("\\", "\\\\")
    return "".join(ESCAPES.get(char, char) for char in str(value))


async def call(client: SocketClient, method: str, **headers: Any) -> ClientReply:
    lines = [method] + [
        f"{name}: {_encode(value)}" for name, value in (headers | OF_EVERY_COMMAND).items() if value not in (None, "")
    ]
    return await client.call(("\r\n".join([*lines, "Content-Length: 0"]) + "\r\n\r\n").encode())


async def create_job(client: SocketClient, name: str, data: dict[str, Any], **given: Any) -> ClientReply:
    defaults = {"unique": False, "jobPriority": 500, "Connection": "wait", "idempotent": False}
    return await call(client, "CreateJob", name=name, data=data, **(defaults | given))


@pytest.fixture
def rules(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", "document"))


@pytest.fixture
def server_settings(rules: str) -> Settings:
    return Settings(port=0, bedrock_port=0, roles="api", bedrock_rules=rules)  # type: ignore[arg-type]


@pytest.mark.parametrize("rules", ["document", "upstream"], indirect=True)
async def test_the_calls_of_its_jobs_class(running: Server) -> None:
    async with connect(running.bedrock) as client:
        data = {"path": "a/b", "text": 'line\n"quoted" \\', "float": 2.0}
        created = await create_job(client, "www-prod/Send?x=1", data)
        assert created.headers["Content-Length"] == str(len(created.body))
        number = created.json["jobID"]
        found = (await call(client, "QueryJob", jobID=number, idempotent=True)).json
        assert (found["data"], found["state"]) == (data, "QUEUED")
        assert (await create_job(client, "once", {}, unique=True, idempotent=True)).status == 200
        jobs = [{"name": "many", "data": {"n": n}, "jobPriority": 0} for n in range(2)]
        numbers = (await call(client, "CreateJobs", jobs=jobs, idempotent=False)).json["jobIDs"]
        assert (await call(client, "UpdateJob", jobID=numbers[0], data={"n": 9}, idempotent=True)).status == 200
        assert (await call(client, "DeleteJob", jobID=numbers[1], idempotent=True)).status == 200
        assert (await call(client, "GetJob", name="www-prod/*")).json["jobID"] == number
        assert (await call(client, "RetryJob", jobID=number, delay=0, data=data, idempotent=True)).status == 200
        assert (await call(client, "GetJob", name="www-prod/*")).json["data"] == data
        assert (await call(client, "FailJob", jobID=number, idempotent=True)).status == 200
        for verb, status in (("FailJob", 405), ("FinishJob", 405), ("CancelJob", 404)):
            assert (await call(client, verb, jobID=number)).status == status, "a status that the client knows"
        assert (await call(client, "GetJob", name="unknown")).status == 404


@pytest.mark.parametrize("rules", ["document", "upstream"], indirect=True)
async def test_the_loop_of_its_worker_manager(running: Server) -> None:
    async with connect(running.bedrock) as client:
        for name in ("www-prod/Done", "www-prod/Retry", "www-prod/Broken"):
            await create_job(client, name, {"n": 1})
        await create_job(client, "www-prod/Mocked", {}, mockRequest=True)
        reply = await call(client, "GetJobs", name="*", numResults=10, getMockedJobs=True)
        jobs = {row["name"].split("/")[1]: row for row in reply.json["jobs"]}
        assert list(jobs) == ["Done", "Retry", "Broken", "Mocked"]
        for name, method, given in (
            ("Done", "FinishJob", {"data": {"n": 2}}),
            ("Retry", "RetryJob", {"data": {"n": 2}, "delay": 0, "name": "www-prod/Again", "nextRun": ""}),
            ("Broken", "FailJob", {}),
            ("Mocked", "FinishJob", {"data": jobs["Mocked"]["data"]}),
        ):
            assert (await call(client, method, jobID=jobs[name]["jobID"], idempotent=True, **given)).status == 200
        again = await call(client, "GetJobs", name="*", numResults=10, getMockedJobs=True)
        assert [(row["name"], row["data"]) for row in again.json["jobs"]] == [("www-prod/Again", {"n": 2})]
        assert (await call(client, "GetJobs", name="*", numResults=10, getMockedJobs=True)).status == 404


@pytest.mark.parametrize("rules", ["upstream"], indirect=True)
async def test_what_needs_the_rules_of_the_current_server(running: Server) -> None:
    async with connect(running.bedrock) as client:
        given = {"retryAfter": "+5 MINUTES", "repeat": "SCHEDULED, +1 HOUR", "unique": True, "jobPriority": 850}
        assert (await create_job(client, "www-prod/Hourly", {}, rerunIfDataChanged=False, **given)).status == 200
        (job,) = (await call(client, "GetJobs", name="*", numResults=5, getMockedJobs=True)).json["jobs"]
        assert job["priority"] == 850
        finished = {"data": {"n": 1}, "expectedData": job["data"]}
        assert (await call(client, "FinishJob", jobID=job["jobID"], **finished)).status == 200
        assert (await call(client, "QueryJob", jobID=job["jobID"])).json["state"] == "QUEUED"
