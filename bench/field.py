"""Comparison of Windlass with its peers: `compared` measures rows in turns, `section` makes the tables of the report.
bench/peers/ has the programs, their environments (`make bench-setup`) and the measurements."""

from collections.abc import Mapping, Sequence

from . import readings
from .engine import Engine
from .figures import Finding, Setting, Table, ratio, spread
from .peers import BARE, PEERS, WINDLASS
from .peers.comparison import Comparison
from .peers.environment import prepare, version
from .peers.rows import MEASURES, ROWS, Found, Row, able, best, measures_of, takers

__all__ = ["BEST", "BEST_KEEPING", "ROWS", "Found", "Row", "compared", "rivals", "section"]

# A quick run compares only with these peers: the best of the full comparison in docs/performance.md.
BEST = {
    "enqueue_one": "huey",
    "enqueue_50": "saq",
    "bulk": "rq",
    "drain_100": "dramatiq",
    "drain_10": "taskiq_stream",
    "drain_2": "huey",
    "drain_threads": "dramatiq",
    "pickup_p50": "huey",
    "pickup_p99": "taskiq_stream",
    "pickup_loaded_p99": "taskiq_stream",
    "engine_cpu": "taskiq_stream",
    "engine_commands": "taskiq_list",
    "bytes_queued": "huey",
}
# The best peer that keeps the job of a killed worker, where the best peer loses it.
BEST_KEEPING = {"enqueue_one": "dramatiq", "drain_2": "dramatiq", "pickup_p50": "taskiq_stream"}
PERSISTENCE: dict[str, tuple[str, ...]] = {
    "off": (),
    "everysec": ("--appendonly", "yes", "--appendfsync", "everysec"),
    "always": ("--appendonly", "yes", "--appendfsync", "always"),
}
GROUPS = {
    "enqueue": ("enqueue_one", "enqueue_50", "bulk"),
    "drain": ("drain_100", "drain_10", "drain_2", "drain_threads"),
    "pick-up": ("pickup_p50", "pickup_p99", "pickup_loaded_p99"),
    "cost for the engine": ("engine_cpu", "engine_commands", "bytes_queued"),
}
PICTURES = {  # file, title
    "enqueue": ("enqueue", "Enqueue, no persistence"),
    "drain": ("drain", "Drain, no persistence"),
    "pick-up": ("pickup", "Pick-up latency, no persistence"),
    "cost for the engine": ("cost", "Cost of a job for the engine, no persistence"),
}
DURABLE_ROWS = ("enqueue_one", "enqueue_50", "bulk", "drain_100")


def compared(
    setting: Setting, rows: Sequence[str], who: Mapping[str, Sequence[str]] | None = None, *, persistence: str = "off"
) -> Found:
    """Return one value per round for each row and program. `who` maps a row to its peers (default: all able ones)."""
    found = _comparison(setting, rows, who, persistence).found
    return {row: found.get(row, {}) for row in rows}


def _comparison(
    setting: Setting, rows: Sequence[str], who: Mapping[str, Sequence[str]] | None, persistence: str
) -> Comparison:
    """Measure all rows in each round, so that the rounds of one row are spread over time."""
    due = {measure: takers([row for row in MEASURES[measure] if row in rows], who) for measure in measures_of(rows)}
    prepare({one for some in due.values() for one in some if one != BARE}, setting.say)
    with Engine(PERSISTENCE[persistence]) as engine:
        comparison = Comparison(setting, engine)
        for turn in range(1, setting.rounds + 1):
            for measure, some in due.items():
                setting.say(f"comparison, persistence {persistence}, {measure}: round {turn} of {setting.rounds}")
                comparison.take_turns(measure, some)
    return comparison


def _cells(row: str, found: Found, who: str) -> str:
    values = found.get(row, {}).get(who)
    return spread(values) if values else "–"


def rivals(row: str) -> list[str]:
    """Return the peers of a row in a quick run."""
    return list(dict.fromkeys([BEST[row], BEST_KEEPING.get(row, BEST[row])]))


def _against_best(row: str, found: Found, *, keeps_jobs: bool = False) -> str:
    values = found.get(row, {})
    peer = best(row, values, keeps_jobs=keeps_jobs)
    if peer is None or WINDLASS not in values:
        return "–"
    return f"{ratio(values[WINDLASS], values[peer])} ({PEERS[peer].title})"


def table(title: str, rows: Sequence[str], found: Found, note: str) -> Table:
    """Make a table: Windlass, its ratio to the best peer of each row, the peers, and the bare engine."""
    head = ["", *(f"{ROWS[row].title}, {ROWS[row].unit}" for row in rows)]
    lines = [
        [PEERS[WINDLASS].title, *(_cells(row, found, WINDLASS) for row in rows)],
        ["against the best peer", *(_against_best(row, found) for row in rows)],
        ["against the best peer that keeps jobs", *(_against_best(row, found, keeps_jobs=True) for row in rows)],
    ]
    seen = {who for row in rows for who in found.get(row, {})}
    lines += [
        [peer.title, *(_cells(row, found, who) for row in rows)]
        for who, peer in PEERS.items()
        if who in seen - {WINDLASS}
    ]
    if BARE in seen:
        lines.append(["bare engine", *(_cells(row, found, BARE) for row in rows)])
    return Table(title, head, lines, note)


NOTES = {
    "enqueue": "Only programs with a call for many jobs have bulk figures. One by one, each call waits for its answer.",
    "drain": (
        "From the start signal to the end of the last job; each number had to run once. RQ runs one job at a time, "
        "whatever its slots. Programs with threads have at most 16, because 100 cost Huey and Dramatiq more CPU per "
        "job. With 2 or 4 threads, and so 2 or 4 jobs at a time, one process of Huey ran 2,700 to 3,700 no-ops a "
        "second, with 16 threads 1,800 to 2,200 (tried separately, three times); two processes were not faster with "
        "fewer threads."
    ),
    "pick-up": (
        "From before the enqueue in one process to the first line of the job in another. The maximum load is the rate "
        "that one producing process and one worker sustain together; it is measured first, then jobs arrive at half of "
        "that rate. arq polls every 10 ms here, every 500 ms by default."
    ),
    "cost for the engine": (
        "Jobs are enqueued from 50 concurrent tasks and run by one process with 100 slots. The command count "
        "includes commands within scripts."
    ),
}


DURABLE_NOTES = {
    "everysec": "A killed machine loses about a second of acknowledged jobs.",
    "always": "Acknowledged jobs are on disk.",
}
SETTINGS = (
    "Each program has its own environment and runs on one private Valkey over a unix socket, with settings that suit "
    "no-ops: no results kept, uvloop where there is an event loop, and its fastest worker in one process (each "
    "`app.py` under bench/peers names it and the reason). A killed engine loses data according to its persistence; "
    "the table shows what a killed worker loses."
)


def _remarks(comparison: Comparison, rows: Sequence[str]) -> str:
    """Return sentences on wrong deliveries and failures."""
    said = [
        f"**{PEERS[who].title}**, {measure}: {sentence}."
        for (who, measure), sentence in comparison.remarks.items()
        if set(MEASURES[measure]) & set(rows)
    ]
    return " ".join(["", *said])


def _kept() -> Table:
    lines = [[peer.title, version(who), peer.kept] for who, peer in PEERS.items()]
    return Table("Comparison: participants", ("", "version", "a job whose worker dies"), lines, SETTINGS)


def section(setting: Setting) -> list[Finding]:
    """Compare with all peers. A quick run has one round, because nine peers take long in any case."""
    setting = setting._replace(rounds=1) if setting.is_quick else setting
    whole = _comparison(setting, list(ROWS), {row: [*able(row), BARE] for row in ROWS}, "off")
    findings: list[Finding] = [_kept()]
    for group, rows in GROUPS.items():
        findings.append(table(f"Comparison: {group}", rows, whole.found, NOTES[group] + _remarks(whole, rows)))
        findings += readings.picture(*PICTURES[group], rows, whole.found)
    for persistence in DURABLE_NOTES:
        findings += _durable(setting, persistence)
    return [*findings, *readings.readings(whole.found)]


def _durable(setting: Setting, persistence: str) -> list[Finding]:
    """Compare with persistence. A quick run compares with the best peers only."""
    peers = {row: rivals(row) if setting.is_quick else able(row) for row in DURABLE_ROWS}
    found = _comparison(setting, DURABLE_ROWS, {row: [*some, BARE] for row, some in peers.items()}, persistence)
    note = f"`appendonly yes`, `appendfsync {persistence}`. {DURABLE_NOTES[persistence]}"
    title = f"Comparison: fsync {persistence}"
    return [
        table(title, DURABLE_ROWS, found.found, note + _remarks(found, DURABLE_ROWS)),
        *readings.picture(persistence, f"fsync {persistence}", DURABLE_ROWS, found.found),
    ]
