"""One scenario from start to end: a deployment under load, the planned faults, the drain, the checks, the evidence."""

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

from .checkout import commit_of_code
from .checks import FinalState, Guarantees, HistoryIndex, check_entries, read_final_state
from .client_set import EXCLUDED_FROM_DRAIN, ClientSet, Ports, clients_for
from .deployment import Deployment
from .history import Entry, Recorder, read_history
from .injection.fault import NO_TARGET
from .load import setup
from .load.context import ClientContext
from .load.drain import drain
from .plan import Plan, make_plan
from .results.archive import Archive
from .results.crossings import count_crossings
from .results.recovery import Injected, Recovery, count_repeated_runs, measure_recovery

ARCHIVE = "history.jsonl.xz"
DRAIN_PATIENCE_S = 300.0
LOAD_PATIENCE_S = 240.0
POLL_S = 0.25
DURABLE_CALLS = ("step", "sleep", "wait", "signal", "write", "read")
LONG_LIVED_QUEUES = Guarantees().long_lived_queues
ShowProgress = Callable[[str], None]


class Result(msgspec.Struct, kw_only=True):
    topology: str
    seed: int
    seconds: float
    command: str  # repeats the scenario
    began_at: str
    done: dict[str, int]  # fault -> how often
    steps: list[str]
    clients: list[str]
    calls: int
    acknowledged: int
    taken: int
    ended: int
    refused: int
    unknown: int  # calls without an answer
    drained_in_s: float
    findings: list[str]
    flows: int = 0  # acknowledged
    resumed: int = 0  # times that steps of a flow were queued again
    durable: dict[str, int] = {}  # acknowledged durable calls, by kind
    repeated: int = 0  # runs after a run without a report
    crossed: int = 0  # jobs that ran in another front end than the one that enqueued them
    recovery: Recovery = Recovery()
    forgotten: int | None = None  # acknowledged jobs lost in a failover where that is allowed; None: it is not

    @property
    def lost(self) -> int:
        return sum(finding.startswith("lost") for finding in self.findings)


def command_of(plan: Plan, only: Sequence[str]) -> str:
    chosen = f" --only {' '.join(only)}" if only else ""
    return f"python -m faults --seed {plan.seed} --scenario {plan.topology} --seconds {plan.seconds:.0f}{chosen}"


def run_scenario(
    topology: str,
    seed: int,
    seconds: float,
    folder: Path,
    show: ShowProgress,
    only: Sequence[str] = (),
    clients: Callable[[Ports], ClientSet] | None = None,
    without: Sequence[str] = (),
    certain: Sequence[str] = (),
) -> Result:
    plan = make_plan(topology, seed, seconds, only, without, certain)
    began_at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    show(f"{topology}: starting")
    with Deployment(topology, folder, seed=seed) as deployment:
        client_set = (clients or clients_for(topology))(deployment.ports)
        guarantees = asyncio.run(set_up(deployment))
        deployment.start_load(client_set.producers, seconds + LOAD_PATIENCE_S)
        deployment.start_load(client_set.others, seconds + LOAD_PATIENCE_S + 2 * DRAIN_PATIENCE_S)
        wait_for_load(deployment, show)
        injected = _inject_faults(deployment, plan, show)
        problems, drained_in_s, final = drain_deployment(deployment, show)
        histories = deployment.histories
    relaxed, entries = _relax_for_failover(guarantees, topology), read_history(histories)
    findings = check_entries(entries, final, relaxed)
    sentences = [str(finding) for finding in findings]
    (folder / "findings.json").write_bytes(msgspec.json.format(msgspec.json.encode(findings)))
    result = _result(plan, only, began_at, injected, drained_in_s, sentences + problems, entries, client_set)
    if relaxed.lost_allowed:
        strict = check_entries(entries, final, msgspec.structs.replace(relaxed, lost_allowed=""))
        result.forgotten = sum(finding.rule == "lost" for finding in strict)
    (folder / "result.json").write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    Archive(
        command=result.command, commit=commit_of_code(), guarantees=relaxed, final=final, injected=injected,
        findings=sentences,
    ).write(folder / ARCHIVE, entries)  # fmt: skip
    return result


def wait_for_load(deployment: Deployment, show: ShowProgress) -> None:
    """Wait until every client has begun: a fault without load proves nothing."""
    show(f"{deployment.engine.topology}: {len(deployment.load)} clients are starting")
    give_up_at_s = time.monotonic() + LOAD_PATIENCE_S
    expected = [deployment.folder / "histories" / f"{process.name}.jsonl" for process in deployment.load]
    while time.monotonic() < give_up_at_s and not all(path.exists() for path in expected):
        time.sleep(POLL_S)


async def set_up(deployment: Deployment) -> Guarantees:
    service = deployment.service()
    async with service.store:
        return await setup.set_up(service)


def _relax_for_failover(guarantees: Guarantees, topology: str) -> Guarantees:
    """Allow losses of a failover (docs/topologies.md); loss_windows.py measures their size."""
    if topology not in ("sentinel", "cluster"):
        return guarantees
    return msgspec.structs.replace(
        guarantees, lost_allowed="any", may_lose_reports=True, intervals_ms={}, ordered=frozenset()
    )


def _inject_faults(deployment: Deployment, plan: Plan, show: ShowProgress) -> list[Injected]:
    """Inject the faults of the plan one after the other. A late step delays the following ones."""
    began_at_s, done = time.monotonic(), list[Injected]()
    for step in plan.steps:
        time.sleep(max(0.0, began_at_s + step.at_s - time.monotonic()))
        if time.monotonic() - began_at_s > plan.seconds:
            break
        show(f"{plan.topology}: {len(done) + 1} of {len(plan.steps)}, {step.fault.name}")
        rng = random.Random(step.seed)  # noqa: S311 (it must be repeatable)
        begun_ns = time.monotonic_ns()
        try:
            target = step.fault.inject(deployment, step.length_s, rng)
        except (WindlassError, OSError, AssertionError) as error:  # the target does not run at this moment
            show(f"{plan.topology}: {step.fault.name} could not be injected: {error}")
            continue
        if target == NO_TARGET:
            continue
        done.append(
            Injected(
                fault=step.fault.name, target=target, begun_ns=begun_ns, undone_ns=time.monotonic_ns(),
                length_s=step.length_s,
            )
        )  # fmt: skip
    time.sleep(max(0.0, began_at_s + plan.seconds - time.monotonic()))
    return done


def drain_deployment(deployment: Deployment, show: ShowProgress) -> tuple[list[str], float, FinalState]:
    """End all faults and producers, run all jobs to their end, and read the final state."""
    show(f"{deployment.engine.topology}: waiting until everything has run")
    began_at_s = time.monotonic()
    deployment.repair_all()
    for process in deployment.load:
        if process.name.startswith(("producer", "canceller")):
            process.stop()
        elif not process.is_alive:
            process.start()
    return asyncio.run(_drain(deployment, began_at_s))


async def _drain(deployment: Deployment, began_at_s: float) -> tuple[list[str], float, FinalState]:
    service = deployment.service()
    async with service.store:
        problems = list[str]()
        await setup.pause_schedules(service)
        recorder = Recorder(deployment.folder / "histories" / "drainer.jsonl", "drainer")
        context = ClientContext(recorder, deployment.seed, 1e9)
        await drain(context, service, excluded=EXCLUDED_FROM_DRAIN, limit_s=DRAIN_PATIENCE_S)
        while left := await _describe_remaining(service):
            if time.monotonic() - began_at_s >= DRAIN_PATIENCE_S:
                break
            await asyncio.sleep(POLL_S)
        took_s = time.monotonic() - began_at_s
        if left:
            problems = [f"left behind: {left}", *await _explain_remaining(service)]
        problems += await asyncio.to_thread(deployment.stop_load)
        final = await read_final_state(service)
    return problems, took_s, final


async def _describe_remaining(service: Service) -> str:
    """Describe the remaining work; empty if there is none."""
    try:
        stats = await service.stats(await service.queues())
        callbacks = (await service.callbacks(most=1)).callbacks
    except WindlassError as error:
        return str(error)
    busy = [
        f"{found.queue}: {found.queued} queued, {found.scheduled} scheduled, {found.running} running, "
        f"{found.waiting} waiting, {found.suspended} suspended"
        for found in stats
        if found.queue not in LONG_LIVED_QUEUES
        and (found.queued or found.scheduled or found.running or found.waiting or found.suspended)
    ]
    return "; ".join(busy + (["callbacks are pending"] if callbacks else []))


async def _explain_remaining(service: Service) -> list[str]:
    sentences = []
    for state in ("queued", "scheduled", "running", "waiting", "suspended"):
        jobs = (await service.jobs(Listing(state=state, most=5))).jobs
        sentences += [f"left behind: {job.key} ({state}): {(await service.explain(job.id)).summary}" for job in jobs]
    return sentences


def _result(
    plan: Plan, only: Sequence[str], began_at: str, injected: list[Injected], drained_in_s: float,
    findings: list[str], entries: list[Entry], client_set: ClientSet,
) -> Result:  # fmt: skip
    history = HistoryIndex(entries)
    counts = Counter[str]()
    for entry in entries:
        counts[entry.phase] += 1
        if entry.phase == "ok":
            counts[f"{entry.call} jobs"] += sum(not job.code for job in entry.jobs)
    return Result(
        topology=plan.topology, seed=plan.seed, seconds=plan.seconds, command=command_of(plan, only), began_at=began_at,
        done=dict(Counter(fault.fault for fault in injected)), steps=_describe_steps(injected),
        clients=client_set.names, calls=counts["begun"], acknowledged=counts["enqueue jobs"],
        taken=counts["take jobs"], ended=counts["finish jobs"] + counts["fail jobs"], refused=counts["refused"],
        unknown=counts["unknown"], drained_in_s=drained_in_s, findings=findings,
        flows=len({job.flow for entry in entries if entry.phase == "ok" for job in entry.jobs if job.flow}),
        resumed=sum(_is_resume(entry) for entry in entries),
        durable=dict(Counter(entry.call for entry in entries if entry.call in DURABLE_CALLS and entry.phase == "ok")),
        repeated=count_repeated_runs(history), crossed=count_crossings(history),
        recovery=measure_recovery(history, injected),
    )  # fmt: skip


def _describe_steps(injected: list[Injected]) -> list[str]:
    first_ns = injected[0].begun_ns if injected else 0
    return [
        f"{(fault.begun_ns - first_ns) / 1e9:.1f} s: {fault.fault} ({fault.target}), {fault.length_s:.1f} s"
        for fault in injected
    ]


def _is_resume(entry: Entry) -> bool:
    return entry.call == "requeue" and entry.phase == "ok" and any(job.outcome == "queued" for job in entry.jobs)
