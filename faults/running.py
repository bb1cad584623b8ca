"""One scenario from beginning to end: a deployment under load, a plan of faults, the drain, the judgement, the
evidence."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from windlass.core.errors import WindlassError
from windlass.core.operations import Listing
from windlass.service import Service

from .deployment import Deployment
from .history import Entry, Recorder, read_history
from .judging import Final, Promises, judge, read_final
from .load import scene
from .load.draining import drain
from .load.life import Life
from .plans import Plan, drawn
from .roster import SPARED, Ports, Roster, everybody

DRAIN_PATIENCE_S = 300.0
LOAD_PATIENCE_S = 240.0
LOOK_EVERY_S = 0.25
LASTING = Promises().lasting
Say = Callable[[str], None]


class Result(msgspec.Struct, kw_only=True):
    topology: str
    seed: int
    seconds: float
    command: str  # that repeats it
    began_at: str
    done: dict[str, int]  # fault -> how often
    steps: list[str]
    clients: list[str]
    calls: int
    acknowledged: int
    taken: int
    ended: int
    refused: int
    unknown: int  # calls whose answer never came
    drained_in_s: float
    findings: list[str]
    forgotten: int | None = None  # acknowledged jobs that a failover lost where that is allowed; None: it is not

    @property
    def lost(self) -> int:
        return sum(finding.startswith("lost") for finding in self.findings)


def command_of(plan: Plan, only: Sequence[str]) -> str:
    chosen = f" --only {' '.join(only)}" if only else ""
    return f"python -m faults --seed {plan.seed} --scenario {plan.topology} --seconds {plan.seconds:.0f}{chosen}"


def run(
    topology: str,
    seed: int,
    seconds: float,
    folder: Path,
    say: Say,
    only: Sequence[str] = (),
    clients: Callable[[Ports], Roster] = everybody,
    without: Sequence[str] = (),
) -> Result:
    plan = drawn(topology, seed, seconds, only, without)
    began_at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    say(f"{topology}: starting")
    with Deployment(topology, folder, seed=seed) as deployment:
        roster = clients(deployment.ports)
        promises = asyncio.run(_prepared(deployment))
        deployment.start_load(roster.producers, seconds + LOAD_PATIENCE_S)
        deployment.start_load(roster.others, seconds + LOAD_PATIENCE_S + 2 * DRAIN_PATIENCE_S)
        wait_for_load(deployment, say)
        steps = _carry_out(deployment, plan, say)
        problems, drained_in_s, final = drained(deployment, say)
        histories = deployment.histories
    allowing = _allowing(promises, topology)
    findings = judge(histories, final, allowing)
    told = [str(one) for one in findings] + problems
    (folder / "findings.json").write_bytes(msgspec.json.format(msgspec.json.encode(findings)))
    result = _result(plan, only, began_at, steps, drained_in_s, told, read_history(histories), roster)
    if allowing.lost_allowed:
        strictly = judge(histories, final, msgspec.structs.replace(allowing, lost_allowed=""))
        result.forgotten = sum(one.rule == "lost" for one in strictly)
    (folder / "result.json").write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    return result


def wait_for_load(deployment: Deployment, say: Say) -> None:
    """Until every client has begun: faults that meet nobody prove nothing."""
    say(f"{deployment.engine.topology}: {len(deployment.load)} clients are starting")
    give_up_at_s = time.monotonic() + LOAD_PATIENCE_S
    wanted = [deployment.folder / "histories" / f"{member.name}.jsonl" for member in deployment.load]
    while time.monotonic() < give_up_at_s and not all(path.exists() for path in wanted):
        time.sleep(LOOK_EVERY_S)


async def _prepared(deployment: Deployment) -> Promises:
    service = deployment.service()
    async with service.store:
        return await scene.prepare(service)


def _allowing(promises: Promises, topology: str) -> Promises:
    """A failover may lose what only the lost primary knew (docs/topologies.md); how much is measured in windows.py."""
    if topology in ("sentinel", "cluster"):
        return msgspec.structs.replace(promises, lost_allowed="any", may_forget=True, rhythms={}, ordered=frozenset())
    return promises


def _carry_out(deployment: Deployment, plan: Plan, say: Say) -> list[str]:
    """The plan's steps one after the other; what comes late for one is late for the next."""
    began_at_s, done = time.monotonic(), list[str]()
    for step in plan.steps:
        time.sleep(max(0.0, began_at_s + step.at_s - time.monotonic()))
        if time.monotonic() - began_at_s > plan.seconds:
            break
        say(f"{plan.topology}: {len(done) + 1} of {len(plan.steps)}, {step.fault.name}")
        chance = random.Random(step.seed)  # noqa: S311 (it must be repeatable)
        at_s = time.monotonic() - began_at_s
        try:
            to = step.fault.do(deployment, step.length_s, chance)
        except (WindlassError, OSError, AssertionError) as error:  # whom it was meant for is not there just now
            say(f"{plan.topology}: {step.fault.name} could not be done: {error}")
            continue
        done.append(f"{at_s:.1f} s: {step.fault.name} ({to}), {step.length_s:.1f} s")
    time.sleep(max(0.0, began_at_s + plan.seconds - time.monotonic()))
    return done


def drained(deployment: Deployment, say: Say) -> tuple[list[str], float, Final]:
    say(f"{deployment.engine.topology}: waiting until everything has run")
    began_at_s = time.monotonic()
    deployment.everything_mended()
    for member in deployment.load:
        if member.name.startswith(("producer", "canceller")):
            member.stop()
        elif not member.is_alive:
            member.start()
    return asyncio.run(_until_drained(deployment, began_at_s))


async def _until_drained(deployment: Deployment, began_at_s: float) -> tuple[list[str], float, Final]:
    service = deployment.service()
    async with service.store:
        problems = list[str]()
        await scene.quieten(service)
        life = Life(Recorder(deployment.folder / "histories" / "drainer.jsonl", "drainer"), deployment.seed, 1e9)
        await drain(life, service, spared=SPARED, limit_s=DRAIN_PATIENCE_S)
        while (left := await _left(service)) and time.monotonic() - began_at_s < DRAIN_PATIENCE_S:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_EVERY_S)
        took_s = time.monotonic() - began_at_s
        if left:
            problems = [f"left behind: {left}", *await _explained(service)]
        problems += await asyncio.to_thread(deployment.end_load)
        final = await read_final(service)
    return problems, took_s, final


async def _left(service: Service) -> str:
    """What is still to be done, in words; empty when nothing is."""
    try:
        found = await service.stats(await service.queues())
        owed = (await service.callbacks(most=1)).callbacks
    except WindlassError as error:
        return str(error)
    busy = [
        f"{one.queue}: {one.queued} queued, {one.scheduled} scheduled, {one.running} running, {one.waiting} waiting"
        for one in found
        if one.queue not in LASTING and (one.queued or one.scheduled or one.running or one.waiting)
    ]
    return "; ".join(busy + (["callbacks are owed"] if owed else []))


async def _explained(service: Service) -> list[str]:
    found = []
    for state in ("queued", "scheduled", "running", "waiting"):
        jobs = (await service.jobs(Listing(state=state, most=5))).jobs
        found += [f"left behind: {job.key} ({state}): {(await service.explain(job.id)).summary}" for job in jobs]
    return found


def _result(
    plan: Plan, only: Sequence[str], began_at: str, steps: list[str], drained_in_s: float, findings: list[str],
    entries: list[Entry], roster: Roster,
) -> Result:  # fmt: skip
    told = Counter[str]()
    for entry in entries:
        told[entry.phase] += 1
        if entry.phase == "ok":
            told[f"{entry.call} jobs"] += sum(not job.code for job in entry.jobs)
    return Result(
        topology=plan.topology, seed=plan.seed, seconds=plan.seconds, command=command_of(plan, only), began_at=began_at,
        done=dict(Counter(step.split(": ")[1].split(" (")[0] for step in steps)), steps=steps,
        clients=roster.names, calls=told["begun"], acknowledged=told["enqueue jobs"],
        taken=told["take jobs"], ended=told["finish jobs"] + told["fail jobs"], refused=told["refused"],
        unknown=told["unknown"], drained_in_s=drained_in_s, findings=findings,
    )  # fmt: skip
