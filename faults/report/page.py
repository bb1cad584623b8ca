"""Report of a run: docs/reliability.md and a short summary. Every figure belongs to this run."""

from __future__ import annotations

import platform
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

import windlass
from windlass.store.embedded.engine import find_server_binary

from ..injection import FAULTS
from ..key_usage import DESCRIPTIONS as KEY_DESCRIPTIONS
from ..key_usage import KeyUsage
from ..loss_windows import Window
from ..scenario import Result
from ..soak.page import HEADING as SOAK_HEADING
from ..soak.page import describe_curves, read_soak
from ..soak.run import Soak
from .block_section import BEGIN, END, describe_blocks
from .blocks import Block, read_blocks
from .tables import paragraph as _paragraph
from .tables import table as _table

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
TOPOLOGIES = {
    "standalone": "one engine, `appendonly yes`, `appendfsync always`",
    "embedded": "the embedded engine with its supervisor",
    "sentinel": "a primary and two replicas behind three sentinels, in memory only",
    "namespace": "one engine in a network namespace of its own, `appendonly yes`, `appendfsync always`",
    "scripts": "one engine whose user may not call functions, `appendonly yes`, `appendfsync always`",
    "versions": "one engine with processes of the previous and of this version, `appendfsync always`",
    "cluster": "three primaries with a replica each, in memory only",
}
SMALLEST_SHOWN = 10 * 1024  # bytes; smaller kinds of keys are summed up
LIMITS_OF_GUARANTEES = """\
- **Not exactly once.** A job may run more than once after a crash, a lost answer or an expired lease. The promise is
  that at most one lease is alive, and that a report with an old token changes nothing.
- **Not at once everywhere.** The jobs of a worker process that dies run again within two seconds on a machine that is
  not overloaded, because its [parent](workers.md#the-parent-of-a-worker), or
  [the server](remote.md#a-worker-that-dies) to which it was connected, frees them. The jobs of a machine that dies, or
  of a worker without either, run again [within 15 s](workers.md#dead-machines).
- **Not more than the engine keeps.** An engine without an append-only file loses everything when it is killed. With
  `appendfsync everysec` a killed process loses nothing, because its writes are already in the operating system. A
  *machine* that loses power loses up to about a second of jobs acknowledged at `memory`. The fault `power-loss`
  simulates this: the engine is killed, and what it had not synced is dropped
  ([decision 0111](decisions/0111-drop-unsynced-writes-to-simulate-power-loss.md)).
- **`fsync` needs `appendfsync always`, or Redis 8.0 or newer.** With `everysec`, Valkey 9.1.2 confirms a write
  (`WAITAOF`) before its sync, a [fault of the engine](https://github.com/redis/redis/pull/13793): 24 of 136 jobs were
  lost so. Windlass refuses durability `fsync` there, before the write. The embedded engine syncs always.
- **Failovers can lose acknowledged jobs** at `memory` and at `fsync`: Redis and Valkey replicate after they have
  answered ([topologies.md](topologies.md)). At `replica` a job is lost if the replica that confirmed it is not the
  replica that is promoted, as after a plain `SENTINEL FAILOVER` with several replicas. Reports are never confirmed by
  a replica: after a failover a job whose end was acknowledged may run again.
- **A flow is lost whole or not at all.** It is written in one step, so a failover loses all of its jobs or none. A step
  that a failover forgets runs again, never before the steps that it waits for.
- **A primary without a file must not restart by itself.** If a primary keeps nothing on disk and restarts before the
  sentinels or the cluster have noticed its death, it is an empty primary, and its replicas copy its empty data. Give
  it an append-only file, or do not restart it at once.
- **A missed durability level is reported**: if a level is not reached, the answer has `is_durable=False`. The tables
  count such jobs separately.
- Order is by priority, ready time and sequence within one lane, at the moment of taking. A job that returns after a
  lost lease takes its old position, not an earlier one.
- A front end without request ids of its callers (Bedrock's, LightJQ's, Jobber's, the downloader's) cannot recognise a
  repeated request. A client that repeats a request because it lost the answer makes a second job.
"""


class Report(msgspec.Struct, kw_only=True):
    seed: int
    command: str
    results: list[Result] = []
    windows: list[Window] = []
    soak: Soak | None = None
    left_out: list[str] = []  # sentences on faults that this machine cannot inject

    @property
    def findings(self) -> list[str]:
        found = [f"{result.topology}: {finding}" for result in self.results for finding in result.findings]
        return found + ([f"soak: {finding}" for finding in self.soak.findings] if self.soak else [])


def format_summary(report: Report) -> str:
    lines = []
    for result in report.results:
        done = ", ".join(f"{name} {count}" for name, count in sorted(result.done.items()))
        lines.append(
            f"{result.topology}: {sum(result.done.values())} faults ({done}); "
            f"{result.acknowledged:,} jobs acknowledged, {result.taken:,} leases, {result.ended:,} ends, "
            f"{result.flows:,} flows ({result.resumed} resumes), "
            f"{result.durable.get('step', 0):,} durable steps, {result.durable.get('sleep', 0):,} sleeps, "
            f"{result.durable.get('signal', 0):,} signals, {result.durable.get('read', 0):,} pieces of streams, "
            f"{result.lost} lost, {len(result.findings)} findings"
        )
    lines += [
        f"{window.topology}, {window.event}, {window.durability}: "
        f"{window.lost} of {window.acknowledged:,} lost in {window.rounds} rounds"
        for window in report.windows
    ]
    if report.soak:
        lines.append(f"soak: {report.soak.seconds / 60:.1f} minutes, {report.soak.acknowledged:,} jobs")
    lines += report.left_out
    return "\n".join([*lines, *(f"  {finding[:400]}" for finding in report.findings[:20])])


def save(report: Report, folder: Path) -> None:
    """Save the report so far."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)))


def merge_reports(folders: Sequence[Path]) -> Report:
    """Merge several saved reports into one."""
    parts = [msgspec.json.decode((folder / "report.json").read_bytes(), type=Report) for folder in folders]
    return Report(
        seed=parts[0].seed,
        command="`, `".join(
            [result.command for part in parts for result in part.results]
            + [part.command for part in parts if not part.results]
        ),
        results=[result for part in parts for result in part.results],
        windows=[window for part in parts for window in part.windows],
        soak=next((part.soak for part in parts if part.soak), None),
        left_out=list(dict.fromkeys(sentence for part in parts for sentence in part.left_out)),
    )


def write_page(report: Report) -> Path:
    DOCUMENT.write_text(render(report, read_blocks()))
    return DOCUMENT


def write_block_section() -> Path:
    """Renew only the section on blocks."""
    before, _, rest = DOCUMENT.read_text().partition(f"{BEGIN}\n")
    _, end, after = rest.partition(f"{END}\n")
    if not end:
        raise ValueError(f"{DOCUMENT} has no lines {BEGIN} and {END}.")
    DOCUMENT.write_text(f"{before}{BEGIN}\n{describe_blocks(read_blocks())}{END}\n{after}")
    return DOCUMENT


def render(report: Report, blocks: Sequence[Block] = ()) -> str:
    parts = [
        "# Reliability\n",
        _paragraph(
            "After reading this page you can judge what Windlass loses under faults, and what it does not promise. The",
            "page lists the faults that a test run injected, how often, and the jobs that were lost. The run itself",
            "writes this page (`make faults` is a shorter run). The [glossary](glossary.md) explains lane, lease and",
            "take. How the results are judged: [decision 0047](decisions/0047-report-only-proven-violations.md). How",
            "the faults are injected:",
            "[decision 0048](decisions/0048-inject-faults-from-outside.md) and",
            "[decision 0050](decisions/0050-kernel-network-faults.md). A [model checker](models/README.md) looks at",
            "leases and ends of jobs in every order of their steps.",
        ),
        _about(report),
        _verdict(report),
        f"{BEGIN}\n{describe_blocks(blocks)}{END}\n",
        _faults(report.results),
        *(_paragraph(sentence) for sentence in report.left_out),
        _losses(report.windows),
        format_soak(report.soak or read_soak()),
        f"## Limits of the guarantees\n\n{LIMITS_OF_GUARANTEES}",
    ]
    return "\n".join(part for part in parts if part)


def _about(report: Report) -> str:
    rows = [
        ("date", time.strftime("%Y-%m-%d", time.gmtime())),
        ("Windlass", windlass.__version__),
        ("engine", engine_version()),
        ("Python", platform.python_version()),
        ("machine", f"{platform.system()} {platform.machine()}, everything on one machine"),
        ("seed", str(report.seed)),
        ("command", f"`{report.command}`"),
    ]
    return _table(("", ""), rows)


def engine_version() -> str:
    output = subprocess.run([find_server_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    return "Valkey " + next(word[2:] for word in output.split() if word.startswith("v="))


def _verdict(report: Report) -> str:
    acknowledged = sum(result.acknowledged for result in report.results)
    faults = sum(sum(result.done.values()) for result in report.results)
    lost = sum(result.lost for result in report.results)
    forgotten = sum(result.forgotten or 0 for result in report.results)
    text = _paragraph(
        f"**{faults:,} faults, {acknowledged:,} acknowledged jobs, {lost} lost, {len(report.findings)} findings.**",
        *(
            [f"Failovers lost {forgotten} more jobs that no replica had confirmed, which is allowed."]
            if forgotten
            else []
        ),
        *_flows(report.results),
        *_durable(report.results),
        "Producers and workers of several front ends ran during the faults, and each recorded the answers it received.",
        "Afterwards the run judged these histories and the state of the engine.",
    )
    if report.findings:
        text += "\n" + "\n".join(f"- {finding[:300]}" for finding in report.findings[:50]) + "\n"
    return text


def _flows(results: Sequence[Result]) -> list[str]:
    flows, resumed = sum(result.flows for result in results), sum(result.resumed for result in results)
    if not flows:
        return []
    return [
        f"Many of the jobs belong to {flows:,} flows (chains, groups and diamonds), which were resumed {resumed:,}",
        "times after failed or cancelled steps.",
    ]


def _durable(results: Sequence[Result]) -> list[str]:
    total = {
        call: sum(result.durable.get(call, 0) for result in results) for call in ("step", "sleep", "signal", "read")
    }
    if not total["step"]:
        return []
    return [
        f"The code of durable jobs returned from {total['step']:,} steps and {total['sleep']:,} sleeps, received",
        f"{total['signal']:,} acknowledged signals, and wrote streams that were read in {total['read']:,} pieces.",
    ]


def _faults(results: Sequence[Result]) -> str:
    if not results:
        return ""
    rows = [
        (
            f"{result.topology}: {TOPOLOGIES[result.topology]}", f"{result.seconds:.0f} s",
            f"{sum(result.done.values())}", f"{result.acknowledged:,}", f"{result.taken:,}", f"{result.ended:,}",
            f"{result.unknown:,}", _lost(result), f"{result.drained_in_s:.0f} s",
        )
        for result in results
    ]  # fmt: skip
    head = (
        "where",
        "for",
        "faults",
        "jobs acknowledged",
        "leases",
        "ends",
        "answers not received",
        "lost",
        "drained in",
    )
    clients = ", ".join(f"`{name}`" for name in results[0].clients)
    done = [Counter(result.done) for result in results]
    kinds = [
        (f"`{name}`", FAULTS[name].description, *(str(count[name] or "–") for count in done))
        for name in FAULTS
        if any(count[name] for count in done)
    ]
    return (
        f"## Fault injection\n\n{_table(head, rows)}\nThe clients: {clients}.\n\n"
        + _table(("fault", "description", *(result.topology for result in results)), kinds)
        + "\n"
        + _paragraph(
            "Behind Sentinel and in the cluster the nodes kept nothing on disk and producers asked for no",
            "confirmation. There a failover is allowed to lose jobs; the next table measures how many. All other",
            "checks are the same.",
        )
    )


def _lost(result: Result) -> str:
    if result.topology not in ("sentinel", "cluster"):
        return str(result.lost)
    return "allowed, not counted" if result.forgotten is None else f"{result.forgotten}, allowed"


def _losses(windows: Sequence[Window]) -> str:
    if not windows:
        return ""
    rows = [
        (
            window.topology, window.event, f"`{window.durability}`", str(window.rounds),
            f"{window.acknowledged:,}", str(window.lost), f"{window.longest_ms:.0f} ms" if window.lost else "–",
            f"{window.unconfirmed:,}, {window.lost_unconfirmed} lost" if window.unconfirmed else "–",
        )
        for window in windows
    ]  # fmt: skip
    head = ("where", "event", "durability", "times", "acknowledged", "lost", "window", "`is_durable=False`")
    return (
        "## Losses by durability level\n\n"
        + _paragraph(
            "Producers enqueue jobs as fast as possible until the engine that serves them is lost. The window is the",
            "time between the acknowledgement of the oldest lost job and the loss of the engine. At a `power loss` the",
            "engine is killed, and what it had not synced is dropped.",
        )
        + "\n"
        + _table(head, rows)
    )


def format_soak(soak: Soak | None) -> str:
    if soak is None:
        return ""
    rows = [
        (growth.who, growth.what, _amount(growth.what, growth.before), _amount(growth.what, growth.after))
        for growth in soak.grown
    ]
    return (
        f"{SOAK_HEADING}\n\n"
        + _paragraph(
            f"{soak.seconds / 60:.0f} minutes of load without faults, {soak.acknowledged:,} jobs, {len(soak.findings)}",
            "findings. The first two fifths are a warm-up. The table shows the means of the first and the second half",
            "of the rest. After all clients had ended, the run checked that no connection to the engine was left.",
        )
        + "\n"
        + _table(("process", "figure", "first half", "second half"), rows)
        + describe_curves(soak)
        + _kept(soak)
    )


def _kept(soak: Soak) -> str:
    """Break down the engine's memory: large kinds of keys, all other keys, and memory outside of keys."""
    if not soak.kept:
        return ""
    large = [
        kind
        for kind, words in KEY_DESCRIPTIONS.items()
        if any(_bytes(usage, kind) >= SMALLEST_SHOWN for usage in soak.kept)
    ]
    rows = [
        (f"`{kind}`: {KEY_DESCRIPTIONS[kind]}", *(_kibibytes(_bytes(usage, kind)) for usage in soak.kept))
        for kind in large
    ]
    in_keys = [sum(kind.bytes for kind in usage.kinds.values()) for usage in soak.kept]
    others = [size - sum(_bytes(usage, kind) for kind in large) for usage, size in zip(soak.kept, in_keys, strict=True)]
    outside = [usage.used_memory - size for usage, size in zip(soak.kept, in_keys, strict=True)]
    rows.append(("all other keys", *map(_kibibytes, others)))
    rows.append(("not in keys: key table, scripts, buffers", *map(_kibibytes, outside)))
    rows.append(("`used_memory`", *(_kibibytes(usage.used_memory) for usage in soak.kept)))
    there = ", ".join(f"{count:,} {state}" for state, count in sorted(soak.states.items()))
    return (
        "\n"
        + _paragraph(
            f"At the end of the load, {there} jobs were visible. The engine's memory grows by such jobs, which are",
            "kept for people, and by data that is kept for a while. Then the run deleted all jobs; a remaining key of",
            "a job is a finding.",
        )
        + "\n"
        + _table(("in the engine", "after the warm-up", "at the end of the load", "after all jobs were deleted"), rows)
    )


def _bytes(usage: KeyUsage, kind: str) -> int:
    return usage.kinds[kind].bytes if kind in usage.kinds else 0


def _kibibytes(size: int) -> str:
    return f"{size / 1024:,.0f} KiB" if size else "–"


def _amount(what: str, value: float) -> str:
    return f"{value / 2**20:.1f} MiB" if "memory" in what else f"{value:.1f}"
