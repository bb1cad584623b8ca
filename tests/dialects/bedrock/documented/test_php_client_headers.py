"""Requests with the headers of Bedrock's PHP client: what it adds to any command never touches a job."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.bedrock.client import ClientReply, SocketClient, connect
from windlass.server import Server
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
# The client adds these to every command, in this order.
COMMON = {
    "commitCount": "12345",
    "requestID": "abC123-worker",
    "lastIP": "10.0.0.1",
    "writeConsistency": "ASYNC",
    "idempotent": "true",
    "logParam": "user@example.com",
    "timeout": "110000",
    "priority": "500",
}


def composed(verb: str, **given: Any) -> bytes:
    """Compose a request as the client does: CRLF, arrays as JSON with `\\/` and doubled backslashes, a length."""
    headers = COMMON | given
    lines = [verb]
    for name, value in headers.items():
        if value in ("", None):
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if isinstance(value, dict | list):
            text = json.dumps(value, separators=(",", ":")).replace("/", "\\/")
        escaped = text.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")
        lines.append(f"{name}: {escaped}")
    return ("\r\n".join([*lines, "Content-Length: 0"]) + "\r\n\r\n").encode()


async def call(client: SocketClient, verb: str, **given: Any) -> ClientReply:
    return await client.call(composed(verb, **given))


async def test_the_timeout_of_a_command_is_not_that_of_a_job(running: Server, store: Store) -> None:
    data = {"url": "https://example.com/a\tb", "path": "C:\\temp\n", "quote": 'say "hi"', "emoji": "é"}
    async with connect(running.bedrock) as client:
        created = await call(client, "CreateJob", name="www-prod/Mail", data=data, unique=False, Connection="wait")
        assert created.json == {"jobID": 1}
        jobs = [{"name": "www-prod/Batch", "data": data, "jobPriority": 500, "unique": False}]
        assert (await call(client, "CreateJobs", jobs=jobs)).json == {"jobIDs": [2]}
        assert (await call(client, "GetJob", name="www-prod/Mail")).json["data"] == data
        taken = await call(client, "GetJobs", name="www-prod/*", numResults=10, Connection="wait", getMockedJobs=True)
        assert [(job["jobID"], job["data"]) for job in taken.json["jobs"]] == [(2, data)]
        store.clock_offset_ms += 10 * 110_000
        for number in (1, 2):
            row = (await call(client, "QueryJob", jobID=number)).json
            assert row["state"] == "RUNNING"
            assert set(row).isdisjoint({"timeout", "expires", "leaseToken"})
        assert (await call(client, "GetJob", name="www-prod/*")).line == "404 No job found"
        query = "SELECT jobID, timeout, expires FROM jobs ORDER BY jobID;"
        assert (await call(client, "Query", query=query)).json == [[1, "", ""], [2, "", ""]]


async def test_every_report(running: Server, store: Store) -> None:
    """The answers are those of a client without these headers."""
    async with connect(running.bedrock) as client:
        for number, verb in enumerate(("UpdateJob", "RetryJob", "FinishJob", "FailJob"), 1):
            await call(client, "CreateJob", name="job", jobTimeout="+5 MINUTES", Connection="wait")
            before = (await call(client, "GetJob", name="job")).json
            assert (before["jobID"], before["timeout"]) == (number, "+5 MINUTES")
            assert (await call(client, verb, jobID=number, data={"a": "b/c"})).line == "200 OK"
            after = await call(client, "QueryJob", jobID=number)
            if verb == "FinishJob":
                assert after.line == "404 No job with this jobID"
                continue
            assert (after.json["timeout"], after.json["data"]) == ("+5 MINUTES", {"a": "b/c"})
            assert (after.json["expires"] == before["expires"]) is (verb == "UpdateJob")
            await call(client, "RequeueJobs", jobIDs=str(number), name="done")


async def test_a_job_with_a_timeout_keeps_its_own(running: Server, store: Store) -> None:
    async with connect(running.bedrock) as client:
        await call(client, "CreateJob", name="a", jobTimeout="+1 HOUR", Connection="wait")
        jobs = [{"name": "b", "timeout": "+1 HOUR"}, {"name": "c", "jobTimeout": "+1 HOUR", "retryAfter": ""}]
        assert (await call(client, "CreateJobs", jobs=jobs)).json == {"jobIDs": [2, 3]}
        for name in "abc":
            assert (await call(client, "GetJob", name=name)).json["timeout"] == "+1 HOUR"
        store.clock_offset_ms += 3_599_000 - 1_000
        assert (await call(client, "GetJob", name="*")).line == "404 No job found"
        store.clock_offset_ms += 3_000
        assert len((await call(client, "GetJobs", name="*", numResults=5)).json["jobs"]) == 3


async def test_a_command_that_waits_is_bounded_by_its_timeout(running: Server) -> None:
    async with connect(running.bedrock) as client:
        reply = await call(client, "GetJobs", name="none", numResults=5, Connection="wait", timeout=20)
        assert reply.line == "303 Timeout"
