"""Bedrock's protocol over TCP. Its jobs have numbers and no tokens; leases are bound to the connection."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Sequence
from typing import Any

import msgspec

from ..history import Seen
from ..judging.identity import numbered
from .life import Refused, Unanswered
from .wishes import Wish
from .working import Conduct, Manner

LIMIT_S = 15.0
QUEUE = "bedrock"
RETRY_AFTER = "+3 SECONDS"
SURELY_MS = 2_000  # it ends on a whole second
_links = itertools.count(1)


class Talk:
    """One connection at a time; a broken one is replaced by the next call."""

    def __init__(self, address: str, client: str) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._client = client
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.link = ""

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            try:
                async with asyncio.timeout(LIMIT_S):
                    self._streams = await asyncio.open_connection(self._host, self._port)
            except (OSError, TimeoutError) as error:
                raise Unanswered(f"no connection: {error}") from error
            self.link = f"{self._client} {os.getpid()} {next(_links)}"
        return self._streams

    async def ask(self, verb: str, **headers: object) -> tuple[int, Any]:
        reader, writer = await self.connect()
        lines = [verb, *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        try:
            async with asyncio.timeout(LIMIT_S):
                writer.write("\n".join(lines).encode())
                await writer.drain()
                return await _reply(reader)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            await self.aclose()
            raise Unanswered(f"{type(error).__name__}: {error}") from error
        except asyncio.CancelledError:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await streams[1].wait_closed()


async def _reply(reader: asyncio.StreamReader) -> tuple[int, Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    headers = dict(one.split(": ", 1) for one in lines)
    body = await reader.readexactly(int(headers.get("Content-Length", "0")))
    status = int(line.split()[0])
    if status >= 500:
        raise Unanswered(line)
    return status, msgspec.json.decode(body) if body[:1] in (b"{", b"[") else None


class BedrockCounter:
    """Each CreateJob draws a new number: one whose answer is not known cannot be repeated."""

    is_repeatable = False

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    async def enqueue(self, wishes: Sequence[Wish]) -> list[Seen]:
        jobs = [
            {"name": wish.name, "data": wish.payload, "retryAfter": RETRY_AFTER, "jobPriority": _priority(wish)}
            for wish in wishes
        ]
        status, answer = await self._talk.ask("CreateJobs", jobs=msgspec.json.encode(jobs).decode())
        if status != 200:
            raise Refused(str(status))
        return [Seen(id=numbered(int(number)), outcome="queued") for number in answer["jobIDs"]]


def _priority(wish: Wish) -> int:
    """Bedrock knows three, bigger first."""
    return 500 - 500 * wish.priority


class BedrockBench:
    manners: frozenset[Manner] = frozenset(("finish", "retry", "give_up", "sleep", "abandon"))

    def __init__(self, talk: Talk, name: str = "work") -> None:
        self._talk = talk
        self._name = name

    @property
    def link(self) -> str:
        return self._talk.link

    async def ready(self) -> None:
        """What was bound to a connection that broke has gone back, or will."""
        await self._talk.connect()

    async def take(self, conduct: Conduct) -> list[Seen]:
        headers = {"Connection": "wait", "timeout": conduct.wait_ms, "numResults": conduct.most, "Lease": "connection"}
        status, answer = await self._talk.ask("GetJobs", name=self._name, **headers)
        if status == 303:
            return []
        if status != 200:
            raise Refused(str(status))
        return [_lease_of(job) for job in answer["jobs"]]

    async def finish(self, held: Seen) -> Seen:
        return await self._report("FinishJob", held, "finished")

    async def fail(self, held: Seen, *, final: bool, delay_ms: int) -> Seen:
        if final:
            return await self._report("FailJob", held, "failed")
        return await self._report("RetryJob", held, "retried", delay=delay_ms // 50)

    async def release(self, held: Seen) -> Seen:
        raise NotImplementedError("Bedrock has no word for it.")

    async def extend(self, held: Seen, lease_ms: int) -> Seen:
        raise NotImplementedError("Bedrock has no word for it.")

    async def _report(self, verb: str, held: Seen, outcome: str, **headers: object) -> Seen:
        status, _ = await self._talk.ask(verb, jobID=held.id.removeprefix("number-"), **headers)
        if status != 200:
            raise Refused({404: "unknown_job", 405: "wrong_state"}.get(status, str(status)))
        return Seen(outcome=outcome)


def _lease_of(job: Any) -> Seen:
    data = job["data"] if isinstance(job["data"], dict) else {}
    return Seen(
        key=str(data.get("key", "")), id=numbered(int(job["jobID"])), queue=QUEUE, name=job["name"],
        lease_ms=SURELY_MS if job["retryAfter"] else 0,
    )  # fmt: skip
