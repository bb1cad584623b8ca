"""A soak run: load without faults for minutes or an hour. Afterwards no resource may have grown without bound.

Checked are memory, descriptors, threads, tasks and connections (resource_usage.py), leaked keys (key_usage.py), and
everything that a scenario checks, the doctor included."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from pathlib import Path
from statistics import fmean

import msgspec

from ..checks import check_histories
from ..client_set import all_clients, slow_down
from ..deployment import Deployment
from ..history import read_history
from ..key_usage import KeyUsage, delete_all_jobs, find_leaks, measure_keys
from ..resource_usage import Sample, take_sample
from ..scenario import LOAD_PATIENCE_S, ShowProgress, drain_deployment, set_up, wait_for_load
from .latency import LatencyWindow, measure_latency

SAMPLES = 60
WINDOWS = 30  # of the latency
SLOWER = 5.0  # than under faults: workers that fail jobs on purpose must keep up, or the backlog grows for an hour
WARM_UP = 0.4  # share of the run in which caches fill and pools grow
MEMORY_SLACK = 0.08
MEMORY_SLACK_BYTES = 6 * 2**20
COUNT_SLACK = 6  # descriptors, threads, tasks and connections come and go


class Growth(msgspec.Struct, kw_only=True):
    """One figure of one process: its mean after the warm-up, and at the end."""

    who: str
    what: str
    before: float
    after: float
    is_too_much: bool


class Curve(msgspec.Struct, kw_only=True):
    """One figure of one process over the run."""

    who: str
    what: str
    values: list[float | None]  # one per sample; None: the process did not answer


class Soak(msgspec.Struct, kw_only=True):
    seconds: float
    samples: int
    grown: list[Growth]
    findings: list[str]
    acknowledged: int
    kept: list[KeyUsage] = []  # after the warm-up, at the end of the load, and after all jobs were deleted
    states: dict[str, int] = {}  # at the end: visible jobs of each state
    command: str = ""
    date: str = ""
    machine_load: float = 0.0  # mean load average of the machine, everything that runs on it included
    processors: int = 0
    sampled_at_s: list[float] = []
    curves: list[Curve] = []
    latency: list[LatencyWindow] = []
    total_latency: LatencyWindow | None = None


def run_soak(seconds: float, seed: int, folder: Path, show: ShowProgress) -> Soak:
    samples, sampled_at_s, loads, kept = list[Sample](), list[float](), list[float](), list[KeyUsage]()
    with Deployment("standalone", folder, seed=seed) as deployment:
        client_set = slow_down(all_clients(deployment.ports), SLOWER)
        guarantees = asyncio.run(set_up(deployment))
        deployment.start_load(client_set.producers, seconds + LOAD_PATIENCE_S)
        deployment.start_load(client_set.others, seconds * 2 + 900)
        wait_for_load(deployment, show)
        began_at_s, began_at_ns = time.monotonic(), time.monotonic_ns()
        for number in range(SAMPLES):
            time.sleep(max(0.0, began_at_s + seconds * (number + 1) / SAMPLES - time.monotonic()))
            samples.append(take_sample(deployment))
            sampled_at_s.append(round(time.monotonic() - began_at_s, 1))
            loads.append(os.getloadavg()[0])
            if number in (int(SAMPLES * WARM_UP), SAMPLES - 1):
                kept.append(measure_keys(deployment.engine.send_command))
            show(f"soak: {number + 1} of {SAMPLES}")
        problems, _, final = drain_deployment(deployment, show)
        asyncio.run(_delete_jobs(deployment))
        kept.append(measure_keys(deployment.engine.send_command))
        left = _left_connections(deployment)
        histories = deployment.histories
    grown = measure_growth(samples)
    findings = [str(finding) for finding in check_histories(histories, final, guarantees)]
    findings += problems + left + find_leaks(kept[-1].kinds)
    findings += _describe_growth(grown)
    entries = read_history(histories)
    accepted = sum(len(entry.jobs) for entry in entries if entry.call == "enqueue" and entry.phase == "ok")
    latency, total_latency = measure_latency(entries, began_at_ns, seconds, WINDOWS)
    return Soak(
        seconds=seconds, samples=len(samples), grown=grown, findings=findings, acknowledged=accepted, kept=kept,
        states=dict(Counter(job.state for job in final.jobs.values())),
        date=time.strftime("%Y-%m-%d", time.gmtime()), sampled_at_s=sampled_at_s, curves=collect_curves(samples),
        latency=latency, total_latency=total_latency, machine_load=round(fmean(loads), 1),
        processors=os.cpu_count() or 0,
    )  # fmt: skip


def _describe_growth(grown: list[Growth]) -> list[str]:
    return [
        f"grows: {growth.what} of {growth.who}: {growth.before:,.0f} → {growth.after:,.0f}"
        for growth in grown
        if growth.is_too_much
    ]


async def _delete_jobs(deployment: Deployment) -> int:
    service = deployment.service()
    async with service.store:
        return await delete_all_jobs(service)


def collect_curves(samples: list[Sample]) -> list[Curve]:
    keys = sorted({key for sample in samples for key in sample})
    return [Curve(who=who, what=what, values=[sample.get((who, what)) for sample in samples]) for who, what in keys]


def measure_growth(samples: list[Sample]) -> list[Growth]:
    """Compare the two halves of the samples after the warm-up."""
    steady = samples[int(len(samples) * WARM_UP) :]
    half = len(steady) // 2
    grown = []
    for who, what in sorted({key for sample in steady for key in sample}):
        before, after = (
            fmean([sample[who, what] for sample in part if (who, what) in sample] or [0.0])
            for part in (steady[:half], steady[half:])
        )
        allowed = max(before * MEMORY_SLACK, MEMORY_SLACK_BYTES) if "memory" in what else COUNT_SLACK
        grown.append(Growth(who=who, what=what, before=before, after=after, is_too_much=after - before > allowed))
    return grown


def _left_connections(deployment: Deployment) -> list[str]:
    """Return the connections that are left after clients and servers have ended, without our own."""
    for process in deployment.servers:
        process.stop()
    give_up_at_s = time.monotonic() + 10
    while True:
        lines = deployment.engine.send_command("CLIENT", "LIST").decode().splitlines()
        if len(lines) <= 1:
            return []
        if time.monotonic() > give_up_at_s:
            return [f"left connection: {line}" for line in lines[:10]]
        time.sleep(0.1)
