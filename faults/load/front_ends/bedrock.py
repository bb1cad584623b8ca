"""Bedrock's protocol over TCP. Its jobs have numbers and no tokens; leases are bound to the connection."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Sequence
from typing import Any

import msgspec

from ...checks.job_identity import number_identity
from ...history import JobFacts
from ..context import CallRefused, CallUnanswered
from ..job_generator import JobRequest
from ..worker import JobAction, WorkerProfile

LIMIT_S = 15.0
QUEUE = "bedrock"
RETRY_AFTER = "+3 SECONDS"
LEASE_MS = 2_000  # at least: RETRY_AFTER ends on a whole second
_numbers = itertools.count(1)


class BedrockClient:
    """One connection at a time. The next call replaces a broken one."""

    def __init__(self, address: str, name: str) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._name = name
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.connection = ""

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            try:
                async with asyncio.timeout(LIMIT_S):
                    self._streams = await asyncio.open_connection(self._host, self._port)
            except (OSError, TimeoutError) as error:
                raise CallUnanswered(f"no connection: {error}") from error
            self.connection = f"{self._name} {os.getpid()} {next(_numbers)}"
        return self._streams

    async def send_command(self, verb: str, **headers: object) -> tuple[int, Any]:
        reader, writer = await self.connect()
        lines = [verb, *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        try:
            async with asyncio.timeout(LIMIT_S):
                writer.write("\n".join(lines).encode())
                await writer.drain()
                return await _read_reply(reader)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            await self.aclose()
            raise CallUnanswered(f"{type(error).__name__}: {error}") from error
        except asyncio.CancelledError:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await streams[1].wait_closed()


async def _read_reply(reader: asyncio.StreamReader) -> tuple[int, Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    headers = dict(header.split(": ", 1) for header in lines)
    body = await reader.readexactly(int(headers.get("Content-Length", "0")))
    status = int(line.split()[0])
    if status >= 500:
        raise CallUnanswered(line)
    return status, msgspec.json.decode(body) if body[:1] in (b"{", b"[") else None


class BedrockProducer:
    """Each CreateJob makes a new number, so a call without an answer cannot be repeated."""

    is_repeatable = False

    def __init__(self, client: BedrockClient) -> None:
        self._client = client

    async def enqueue(self, requests: Sequence[JobRequest]) -> list[JobFacts]:
        jobs = [
            {
                "name": request.name,
                "data": request.payload,
                "retryAfter": RETRY_AFTER,
                "jobPriority": _priority(request),
            }
            for request in requests
        ]
        status, answer = await self._client.send_command("CreateJobs", jobs=msgspec.json.encode(jobs).decode())
        if status != 200:
            raise CallRefused(str(status))
        return [JobFacts(id=number_identity(int(number)), outcome="queued") for number in answer["jobIDs"]]


def _priority(request: JobRequest) -> int:
    """Return one of Bedrock's three priorities, where larger numbers come first."""
    return 500 - 500 * request.priority


class BedrockWorker:
    actions: frozenset[JobAction] = frozenset(("finish", "retry", "give_up", "sleep", "abandon"))

    def __init__(self, client: BedrockClient, name: str = "work") -> None:
        self._client = client
        self._name = name

    @property
    def connection(self) -> str:
        return self._client.connection

    async def ready(self) -> None:
        """Connect. Jobs that were bound to a broken connection have returned, or will return."""
        await self._client.connect()

    async def take(self, profile: WorkerProfile) -> list[JobFacts]:
        headers = {"Connection": "wait", "timeout": profile.wait_ms, "numResults": profile.most, "Lease": "connection"}
        status, answer = await self._client.send_command("GetJobs", name=self._name, **headers)
        if status == 303:
            return []
        if status != 200:
            raise CallRefused(str(status))
        return [_lease_facts(job) for job in answer["jobs"]]

    async def finish(self, lease: JobFacts) -> JobFacts:
        return await self._report("FinishJob", lease, "finished")

    async def fail(self, lease: JobFacts, *, final: bool, delay_ms: int) -> JobFacts:
        if final:
            return await self._report("FailJob", lease, "failed")
        return await self._report("RetryJob", lease, "retried", delay=delay_ms // 50)

    async def release(self, lease: JobFacts) -> JobFacts:
        raise NotImplementedError("Bedrock has no command to release a job.")

    async def extend(self, lease: JobFacts, lease_ms: int) -> JobFacts:
        raise NotImplementedError("Bedrock has no command to extend a lease.")

    async def _report(self, verb: str, lease: JobFacts, outcome: str, **headers: object) -> JobFacts:
        number = lease.id.removeprefix("number-")
        status, _ = await self._client.send_command(verb, jobID=number, **headers)
        if status != 200:
            raise CallRefused({404: "unknown_job", 405: "wrong_state"}.get(status, str(status)))
        return JobFacts(outcome=outcome)


def _lease_facts(job: Any) -> JobFacts:
    data = job["data"] if isinstance(job["data"], dict) else {}
    return JobFacts(
        key=str(data.get("key", "")), id=number_identity(int(job["jobID"])), queue=QUEUE, name=job["name"],
        lease_ms=LEASE_MS if job["retryAfter"] else 0,
    )  # fmt: skip
