"""The code of a durable job, written once for all workers, and the record of its durable calls."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from windlass.core.job import Job

from ...history import CallName, DurableFacts
from ..context import ClientContext

SIGNAL, JOB_NAME, CHILD_NAME = "go", "durable", "durable-child"
Work = Callable[[], Awaitable[str]]


class DurableProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The lengths of a durable job, and how often its runs end badly."""

    nap_ms: int = 2_500  # long enough to suspend a job of the SDK
    timeout_ms: int = 3_000  # of a wait for a signal
    lease_ms: int = 2_000
    work_ms: int = 40  # of a step, at most
    failed: float = 0.08  # shares of the steps
    late: float = 0.0  # reports after the end of its lease
    abandoned: float = 0.0


def unique_text(context: ClientContext) -> str:
    """Return a text that no other call gets, also after a restart of the client, which repeats its random numbers."""
    return f"{context.client} {secrets.token_hex(8)}"


class RandomFailure(Exception):
    """A failed attempt that is retried."""


class DurableCalls(Protocol):
    """Durable calls of one run of a job."""

    async def step(self, name: str, work: Work) -> str: ...
    async def sleep(self, name: str, length_ms: int) -> None: ...
    async def wait(self, name: str, signal: str, timeout_ms: int) -> str:
        """Return the value of a signal; empty: none came in time."""

    async def gather(self, name: str) -> str: ...
    async def write(self, values: Sequence[str]) -> None: ...


class RecordedCalls:
    """Durable calls that are recorded. An exception of a call leaves its answer unknown."""

    def __init__(self, context: ClientContext, job: Job, calls: DurableCalls, profile: DurableProfile) -> None:
        self._context = context
        self._job = job
        self._calls = calls
        self._profile = profile

    async def step(self, name: str) -> str:
        facts = self._facts(name)
        return await self._record("step", facts, self._calls.step(name, lambda: self._work(name)))

    async def _work(self, name: str) -> str:
        """Run the function of a step. Its value is unique."""
        value = unique_text(self._context)
        self._context.recorder.begin("work", durable=msgspec.structs.replace(self._facts(name), value=value))
        await self._context.pause(self._context.random.random() * self._profile.work_ms / 1000)
        if self._context.random.random() < self._profile.failed:
            raise RandomFailure
        return value

    async def sleep(self, name: str) -> None:
        facts = msgspec.structs.replace(self._facts(name), length_ms=self._profile.nap_ms)
        pending = self._context.recorder.begin("sleep", durable=facts)
        await self._calls.sleep(name, self._profile.nap_ms)
        pending.record_ok()

    async def wait(self, name: str, signal: str) -> str:
        return await self._record("wait", self._facts(name), self._calls.wait(name, signal, self._profile.timeout_ms))

    async def gather(self, name: str) -> str:
        return await self._record("step", self._facts(name), self._calls.gather(name))

    async def write(self, values: Sequence[str]) -> None:
        facts = msgspec.structs.replace(self._facts(""), values=tuple(values))
        pending = self._context.recorder.begin("write", durable=facts)
        await self._calls.write(values)
        pending.record_ok()

    async def _record(self, call: CallName, facts: DurableFacts, calling: Awaitable[str]) -> str:
        pending = self._context.recorder.begin(call, durable=facts)
        value = await calling
        pending.record_ok(durable=msgspec.structs.replace(facts, value=value))
        return value

    def _facts(self, name: str) -> DurableFacts:
        return DurableFacts(job=self._job.key, token=self._job.lease_token, name=name)


async def run_code(calls: RecordedCalls) -> None:
    """Run the code of a durable job from its beginning, as each run does."""
    await calls.step("first")
    await calls.write(["0"])
    await calls.sleep("nap")
    await calls.wait(SIGNAL, SIGNAL)
    await calls.step("second")
    await calls.write(["1", "2"])
    await calls.gather("gather")
    await calls.wait(f"{SIGNAL}#2", SIGNAL)
    await calls.write(["3"])
    await calls.step("last")
