"""A calm run: load without faults, for minutes or an hour. Afterwards nothing may have grown that should not:
memory, descriptors, threads, tasks, connections; and the doctor finds nothing. What is counted is sampling.py's."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import msgspec

from .deployment import Deployment
from .history import read_history
from .judging import Promises, judge
from .keeping import Keeping, forget_jobs, keeping, leaked
from .load import scene
from .roster import everybody
from .running import LOAD_PATIENCE_S, drained, wait_for_load
from .sampling import Sample, sample

SAMPLES = 60
WARM_UP = 0.4  # of the run: caches fill, pools grow
MEMORY_SLACK = 0.08
MEMORY_SLACK_BYTES = 6 * 2**20
COUNT_SLACK = 6  # descriptors, threads, tasks, connections that come and go
Say = Callable[[str], None]


class Grown(msgspec.Struct, kw_only=True):
    """One figure of one process: its mean after the warm-up, and at the end."""

    who: str
    what: str
    before: float
    after: float
    is_too_much: bool


class Soak(msgspec.Struct, kw_only=True):
    seconds: float
    samples: int
    grown: list[Grown]
    findings: list[str]
    acknowledged: int
    kept: list[Keeping] = []  # after the warm-up, at the end of the load, and when all jobs were deleted
    states: dict[str, int] = {}  # at the end: how many jobs of each were there for people to see


def run(seconds: float, seed: int, folder: Path, say: Say) -> Soak:
    samples, kept = list[Sample](), list[Keeping]()
    with Deployment("standalone", folder, seed=seed) as deployment:
        roster = everybody(deployment.ports)
        promises = asyncio.run(_prepared(deployment))
        deployment.start_load(roster.producers, seconds + LOAD_PATIENCE_S)
        deployment.start_load(roster.others, seconds * 2 + 900)
        wait_for_load(deployment, say)
        began_at_s = time.monotonic()
        for number in range(SAMPLES):
            time.sleep(max(0.0, began_at_s + seconds * (number + 1) / SAMPLES - time.monotonic()))
            samples.append(sample(deployment))
            if number in (int(SAMPLES * WARM_UP), SAMPLES - 1):
                kept.append(keeping(deployment.engine.ask))
            say(f"soak: {number + 1} of {SAMPLES}")
        problems, _, final = drained(deployment, say)
        asyncio.run(_forgotten(deployment))
        kept.append(keeping(deployment.engine.ask))
        left = _left_connections(deployment)
        histories = deployment.histories
    grown = grown_of(samples)
    findings = [str(one) for one in judge(histories, final, promises)] + problems + left + leaked(kept[-1].kinds)
    findings += [
        f"grows: {one.what} of {one.who}: {one.before:,.0f} → {one.after:,.0f}" for one in grown if one.is_too_much
    ]
    accepted = sum(len(one.jobs) for one in read_history(histories) if one.call == "enqueue" and one.phase == "ok")
    return Soak(
        seconds=seconds, samples=len(samples), grown=grown, findings=findings, acknowledged=accepted, kept=kept,
        states=dict(Counter(job.state for job in final.jobs.values())),
    )  # fmt: skip


async def _forgotten(deployment: Deployment) -> int:
    service = deployment.service()
    async with service.store:
        return await forget_jobs(service)


async def _prepared(deployment: Deployment) -> Promises:
    service = deployment.service()
    async with service.store:
        return await scene.prepare(service)


def grown_of(samples: list[Sample]) -> list[Grown]:
    """The second half of what comes after the warm-up beside the first half."""
    steady = samples[int(len(samples) * WARM_UP) :]
    half = len(steady) // 2
    found = []
    for who, what in sorted({key for one in steady for key in one}):
        before, after = (
            fmean([one[who, what] for one in part if (who, what) in one] or [0.0])
            for part in (steady[:half], steady[half:])
        )
        allowed = max(before * MEMORY_SLACK, MEMORY_SLACK_BYTES) if "memory" in what else COUNT_SLACK
        found.append(Grown(who=who, what=what, before=before, after=after, is_too_much=after - before > allowed))
    return found


def _left_connections(deployment: Deployment) -> list[str]:
    """When clients and servers have ended, nobody is connected but who asks."""
    for member in deployment.servers:
        member.stop()
    give_up_at_s = time.monotonic() + 10
    while True:
        lines = deployment.engine.ask("CLIENT", "LIST").decode().splitlines()
        if len(lines) <= 1:
            return []
        if time.monotonic() > give_up_at_s:
            return [f"left connection: {line}" for line in lines[:10]]
        time.sleep(0.1)
