"""The section of docs/reliability.md on blocks: sums by topology and times of recovery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..injection import FAULTS
from ..results.recovery import merge_times, percentile
from .blocks import Block, digest_of_code
from .tables import paragraph, table

BEGIN, END = "<!-- blocks: made by python -m faults page -->", "<!-- end of blocks -->"
PERCENTILES = (0.5, 0.95, 0.99)
GOAL_MS = 2_000  # kill -9 of one worker process until its jobs run again, at the 99th percentile
SHOWN_FINDINGS = 50
REPEATED = (
    "*Run again* counts runs after a run without a report: the worker had died, its lease had expired, or its report",
    "was lost. Delivery is at least once, so this is allowed; two leases at one time, or two accepted ends, would be",
    "findings. *Crossed* counts jobs that a worker of another front end ran than the one that enqueued them.",
)


def describe_blocks(blocks: Sequence[Block]) -> str:
    digest = digest_of_code()
    counted = [block for block in blocks if block.digest == digest]
    outdated = [block for block in blocks if block.digest != digest]
    return "\n".join(
        part
        for part in (
            "\n## Faults in each topology\n",
            paragraph(
                "A run of many faults is divided into blocks, each with a seed of its own. The results are files in",
                "`docs/reliability/blocks`. A block counts while the code that it judged is unchanged: the store, the",
                "worker, the background loops and the faults themselves. `make faults-blocks MINUTES=60` adds blocks.",
                "[Decision 120](decisions/0120-fault-runs-are-blocks-of-seeds.md) has the reasons.",
                "The histories of one run are in `docs/reliability/history.jsonl.xz`;",
                "`python -m faults judge docs/reliability/history.jsonl.xz` judges them again.",
            ),
            *(_counted(counted) if counted else [paragraph("No block has run on the present code.")]),
            *_outdated(outdated),
        )
        if part
    )


def _counted(blocks: Sequence[Block]) -> list[str]:
    topologies = sorted({block.topology for block in blocks}, key=list(_order(blocks)).index)
    by_topology = {name: [block for block in blocks if block.topology == name] for name in topologies}
    rows = [_row(name, found) for name, found in by_topology.items()]
    if len(rows) > 1:
        rows.append(_row("all", blocks))
    head = (
        "where", "blocks", "faults", "minutes", "acknowledged", "leases", "crossed", "run again", "lost", "findings",
    )  # fmt: skip
    commits = sorted({block.commit for block in blocks})
    findings = [f"{block.topology}, seed {block.seed}: {finding}" for block in blocks for finding in block.findings]
    return [
        table(head, rows),
        paragraph(f"Commits: {', '.join(f'`{commit}`' for commit in commits)}.", *REPEATED, *_load(blocks)),
        "".join(f"- {finding[:300]}\n" for finding in findings[:SHOWN_FINDINGS]),
        *_recovery(blocks),
    ]


def _order(blocks: Sequence[Block]) -> Mapping[str, None]:
    known = ("standalone", "embedded", "sentinel", "cluster", "namespace", "scripts", "versions")
    return dict.fromkeys([*known, *(block.topology for block in blocks)])


def _row(name: str, blocks: Sequence[Block]) -> tuple[str, ...]:
    forgotten = sum(block.forgotten or 0 for block in blocks)
    lost = sum(block.lost for block in blocks)
    totals = [
        sum(values)
        for values in zip(
            *((block.fault_count, block.acknowledged, block.taken, block.crossed, block.repeated) for block in blocks),
            strict=True,
        )
    ]
    faults, acknowledged, taken, crossed, repeated = (f"{total:,}" for total in totals)
    return (
        name, str(len(blocks)), faults, f"{sum(block.seconds for block in blocks) / 60:.0f}", acknowledged, taken,
        crossed, repeated, f"{lost}" + (f", and {forgotten} in failovers, allowed" if forgotten else ""),
        str(sum(len(block.findings) for block in blocks)),
    )  # fmt: skip


def _load(blocks: Sequence[Block]) -> list[str]:
    calls = {name: sum(block.durable.get(name, 0) for block in blocks) for name in ("step", "sleep", "signal", "read")}
    flows, resumed = sum(block.flows for block in blocks), sum(block.resumed for block in blocks)
    return [
        f"Among the load: {flows:,} flows, resumed {resumed:,} times; {calls['step']:,} durable steps,",
        f"{calls['sleep']:,} sleeps, {calls['signal']:,} signals, {calls['read']:,} pieces of streams.",
    ]


def _recovery(blocks: Sequence[Block]) -> list[str]:
    acknowledged = merge_times(block.recovery.acknowledged for block in blocks)
    ran_again = merge_times(block.recovery.ran_again for block in blocks)
    parts = [
        "### Times of recovery\n",
        paragraph(
            "From the end of a fault until the next job is acknowledged, in ms. For a killed process the fault ends",
            "when the process is started again.",
        ),
        table(
            ("fault", "times", "p50", "p95", "p99"), [_times(name, acknowledged[name]) for name in _known(acknowledged)]
        ),
    ]
    if ran_again:
        parts += [
            paragraph(
                "From the kill of a worker until each job that it held runs again, in ms. A `worker-kill` ends",
                "workers without a parent, whose leases of 1 to 30 s must expire; a `worker-process-kill` ends the",
                "process below the parent of `windlass worker`, which frees its jobs at once. The goal of the",
                f"latter is {GOAL_MS:,} ms at the 99th percentile.",
            ),
            table(
                ("fault", "jobs", "p50", "p95", "p99"), [_times(name, ran_again[name]) for name in _known(ran_again)]
            ),
        ]
    return parts


def _known(times: Mapping[str, Sequence[int]]) -> list[str]:
    return [name for name in FAULTS if name in times]


def _times(name: str, times: Sequence[int]) -> tuple[str, ...]:
    return (f"`{name}`", f"{len(times):,}", *(f"{percentile(times, share):,}" for share in PERCENTILES))


def _outdated(blocks: Sequence[Block]) -> list[str]:
    if not blocks:
        return []
    faults = sum(block.fault_count for block in blocks)
    commits = sorted({block.commit for block in blocks})
    return [
        paragraph(
            f"Not counted, because the code has changed since: {len(blocks)} blocks with {faults:,} faults on the",
            f"commits {', '.join(f'`{commit}`' for commit in commits)}, with",
            f"{sum(block.lost for block in blocks)} lost jobs and",
            f"{sum(len(block.findings) for block in blocks)} findings.",
        )
    ]
