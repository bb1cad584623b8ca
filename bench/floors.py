"""Floors and goals of Windlass: one row per promise. Only this module decides when a floor counts as missed; the
sections decide what they measure for a row."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple, TypeAlias

from .figures import Finding, Reading, Table, number

Verdict: TypeAlias = Literal["goal", "floor", "MISSED", "not measured"]


class Floor(NamedTuple):
    title: str
    against: str  # the comparison; empty if the row has none
    floor: float
    goal: float
    is_more_better: bool = True
    unit: str = "×"


BEST_PEER = "best peer"
FLOORS: dict[str, Floor] = {
    "enqueue_one": Floor("enqueue one by one, sync", BEST_PEER, 1.0, 1.2),
    "enqueue_50": Floor("enqueue from 50 concurrent tasks", BEST_PEER, 4, 7),
    "bulk": Floor("enqueue in bulk", BEST_PEER, 6, 12),
    "drain_100": Floor("drain, 1 process, async no-op, 100 slots", BEST_PEER, 10, 20),
    "drain_10": Floor("drain, 1 process, async no-op, 10 slots", BEST_PEER, 4, 8),
    "drain_2": Floor("drain, 2 processes", BEST_PEER, 10, 20),
    "drain_threads": Floor("drain, sync functions in threads", BEST_PEER, 3, 6),
    "pickup_p50": Floor("pick-up latency, idle, p50", BEST_PEER, 0.8, 0.4, is_more_better=False),
    "pickup_p99": Floor("pick-up latency, idle, p99", BEST_PEER, 1.0, 0.7, is_more_better=False),
    "pickup_loaded": Floor("pick-up latency p99 at half of the maximum load", "idle p99", 3, 2, is_more_better=False),
    "engine_cpu": Floor("engine CPU per job, enqueue and run", BEST_PEER, 0.5, 0.2, is_more_better=False),
    "bytes_queued": Floor("bytes per queued no-op job", "", 400, 300, is_more_better=False, unit="bytes"),
    "idle_commands": Floor("commands per second of 10 idle workers", "", 10, 2, is_more_better=False, unit="/s"),
    "take_queued": Floor("take from 1,000,000 queued jobs", "1,000 queued", 1.5, 1.1, is_more_better=False),
    "take_blocked": Floor("take beside 10,000 limit-blocked lanes", "none blocked", 2, 1.2, is_more_better=False),
    "http_single": Floor("HTTP, one job a request, 64 connections", "bare ASGI, no store", 0.5, 0.7),
    "http_batch": Floor("HTTP, batches of 100", "HTTP single", 5, 8),
    "bedrock_create": Floor("Bedrock TCP, CreateJob, 64 connections", "HTTP single", 1, 2),
    "always_64": Floor("durability `always`, 64 clients", "no persistence", 0.4, 0.6),
    "always_bulk": Floor("durability `always`, bulk", "no persistence", 0.6, 0.8),
    "durable_steps": Floor("durable steps, 100 workflows at once", "DBOS on PostgreSQL", 5, 10),
}
# Written by hand from profiles: the reason why a row does not reach its floor or goal. Only observed facts.
WHY: dict[str, str] = {
    "enqueue_one": (
        "caller and engine take turns, so their instructions add up: 60,000 and 140,000 for Windlass, 207,000 and "
        "8,800 for Huey's LPUSH (counted with callgrind). The engine's script runs 11 commands of 4,700 to 9,900 "
        "instructions, 76,000 together. Each reads or writes a fact that only its own key holds (decision 54)."
    ),
    "drain_100": (
        "a drained job costs the worker's process 12 to 15 µs (decision 56) and the engine about 10 (decision 54). The "
        "two overlap, so the worker's Python, 69,400 instructions per job, is the bottleneck."
    ),
    "drain_2": (
        "a job costs 79,000 instructions in a worker and 78,000 in the engine, on two hardware threads with three "
        "processes competing for them. In the worker, reading the record takes 14,000, the asyncio task 11,000, "
        "decoding and calling 7,000; the rest is spread over 20 calls. Huey's figure with two processes is several "
        "times its figure with one process, whose 16 threads wait for each other. Huey acknowledges nothing."
    ),
    "pickup_p50": (
        "one script and one round trip are left, as with a blocking pop (decision 53). Of the instructions on the way, "
        "the caller has 60,000 (Huey's 207,000), the engine about 320,000 in a script of 25 commands (both commands of "
        "Huey together 33,000), and the worker 120,000 from the wakeup to the first line of the job (Huey's 285,000), "
        "up to 50,000 of them for the acceptance, which is sent first. Huey accepts nothing. After a pause all of this "
        "must be loaded into the caches again: a caller that enqueues again at once needs a fifth of the time."
    ),
    "pickup_p99": "as for p50; the rounds differ by a factor of three.",
    "pickup_loaded": (
        "half of the maximum load is 13 to 19 thousand jobs a second here, by three processes on two hardware threads. "
        "Python's garbage collector caused 9 to 10 ms of it. Workers now avoid that, and p99 is 2.8 to 4.9 ms; without "
        "a collector in the producing process too it is 2.4 to 4.7. The idle p99 of the comparison differs by a factor "
        "of three between rounds."
    ),
    "engine_cpu": (
        "38,200 instructions for an enqueue and 82,000 to 86,000 for a finish and take, counted (decision 54; 61,600 "
        "and 114,000 to 136,000 before). 40 % of the latter are write commands, the rest is Lua's work on records: "
        "lease, token, attempt, counters per minute and detection of repeated calls need more writes than a push and a "
        "pop."
    ),
    "http_single": (
        "a request costs 32 to 42 µs of the server's processor time, where bare ASGI needs 25 to 28, and 8 to 10 of "
        "the engine's, on the same two hardware threads (table on the cost of a request; decision 57). Half of it is "
        "the kernel and the event loop. The rest is spread over many steps, with no single expensive one."
    ),
    "http_batch": (
        "a job of a batch costs 4 µs in the server and 5 in the engine, a single job 40 and 9 (decision 57). That is a "
        "factor of five, and every improvement of single requests makes the ratio smaller."
    ),
    "bedrock_create": (
        "a CreateJob costs 29 to 34 µs in the server and 11 to 15 in the engine, against 32 to 42 and 8 to 10 for one "
        "job over HTTP (decision 57). A Ping, which does nothing, costs 11 µs in the server. The engine writes three "
        "sorted sets for each job, and one for a simple job."
    ),
}

SAID: dict[Verdict, str] = {
    "goal": "goal reached",
    "floor": "floor held",
    "MISSED": "MISSED",
    "not measured": "not measured",
}


def is_miss(value: float, bound: float, is_more_better: bool) -> bool:
    return value < bound if is_more_better else value > bound


def is_missed(values: Sequence[float], bound: float, is_more_better: bool) -> bool:
    """Report whether most rounds miss the bound. One bad round of three is noise of the machine; two are not."""
    misses = sum(is_miss(value, bound, is_more_better) for value in values)
    return 2 * misses > len(values)


def verdict(floor: Floor, values: Sequence[float]) -> Verdict:
    if not values:
        return "not measured"
    if is_missed(values, floor.floor, floor.is_more_better):
        return "MISSED"
    return "floor" if is_missed(values, floor.goal, floor.is_more_better) else "goal"


def times_the_floor(floor: Floor, value: float) -> float:
    """Return how many times better than the floor: 1 is on it, less is a miss, whatever the row's direction."""
    better, worse = (value, floor.floor) if floor.is_more_better else (floor.floor, value)
    return better / worse if worse else float("inf")


def readings(findings: Sequence[Finding]) -> dict[str, Reading]:
    return {one.row: one for one in findings if isinstance(one, Reading)}


def is_any_missed(found: Mapping[str, Reading], rows: Iterable[str]) -> bool:
    """Report whether any floor is missed. A row without a measurement counts as missed."""
    for row in rows:
        reading = found.get(row)
        if verdict(FLOORS[row], reading.values if reading else ()) in ("MISSED", "not measured"):
            return True
    return False


def shown(value: float, unit: str) -> str:
    return f"{value:.2f}×" if unit == "×" else f"{number(value)} {unit}".replace(" /s", "/s")


def bound(floor: Floor, value: float) -> str:
    figure = f"{value:,g}{'×' if floor.unit == '×' else ' ' + floor.unit}".replace(" /s", "/s")
    return f"{'≥' if floor.is_more_better else '≤'} {figure}"


def _cells(row: str, reading: Reading | None) -> list[str]:
    floor = FLOORS[row]
    values = reading.values if reading else []
    against = floor.against
    if reading and reading.against:
        against = f"{floor.against}: {reading.against}" if floor.against == BEST_PEER else reading.against
    middle = shown(median(values), floor.unit) if values else "–"
    rounds = "  ".join(shown(value, floor.unit).split()[0] for value in values)
    title = f"{floor.title} ({reading.note})" if reading and reading.note else floor.title
    return [
        title,
        against,
        middle,
        rounds,
        _keeping(reading, floor.unit),
        bound(floor, floor.floor),
        bound(floor, floor.goal),
        SAID[verdict(floor, values)],
    ]


def _keeping(reading: Reading | None, unit: str) -> str:
    """Return the ratio to the best peer that keeps the job of a killed worker."""
    if reading is None or not reading.keeping_values:
        return ""
    return f"{shown(median(reading.keeping_values), unit)} ({reading.keeping_name})"


HEAD = ("what", "against", "median", "rounds", "best peer that keeps jobs", "floor", "goal", "verdict")


def table(title: str, found: Mapping[str, Reading], rows: Sequence[str] | None = None, note: str = "") -> Table:
    return Table(title, HEAD, [_cells(row, found.get(row)) for row in (FLOORS if rows is None else rows)], note)


def reasons(found: Mapping[str, Reading]) -> list[str]:
    """Return the known reason for each row below its floor or goal."""
    said = []
    for row, floor in FLOORS.items():
        reached = verdict(floor, found[row].values) if row in found else "not measured"
        if reached in ("MISSED", "floor") and row in WHY:
            said.append(f"- **{floor.title}** ({SAID[reached]}): {WHY[row]}")
    return said
