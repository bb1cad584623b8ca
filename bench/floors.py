"""What Windlass must reach, and what it aims at: one row per promise. When a floor counts as missed is decided here and
nowhere else; what is measured for a row is left to the sections."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple, TypeAlias

from .figures import Finding, Reading, Table, number

Verdict: TypeAlias = Literal["goal", "floor", "MISSED", "not measured"]


class Floor(NamedTuple):
    title: str  # what is measured
    against: str  # what it is compared with; empty where the figure itself counts
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
}
# Kept by hand, from profiles: what stands in the way where a floor or a goal is not reached. Only what was seen.
WHY: dict[str, str] = {
    "enqueue_one": (
        "19 to 25 µs of the caller's processor time (decision 52), where Huey's LPUSH takes 39 to 41; but the engine's "
        "script asks and writes by 11 commands, of 7,200 instructions each, most of them for the way from Lua into the "
        "engine and back (decision 54)."
    ),
    "drain_100": (
        "a drained job costs the worker's process 12 to 15 µs (decision 56) and the engine about 10 (decision 54); "
        "they overlap, so that the worker's Python, 69,400 instructions a job, is the bound."
    ),
    "drain_2": (
        "12 µs of a worker and 10 of the engine for a job (decisions 54, 56) on two hardware threads: 11 µs of wall "
        "time at best, with three processes in line for them. Huey's figure with two processes is several times "
        "the one with one, whose 16 threads wait for each other; it acknowledges nothing."
    ),
    "pickup_p50": (
        "one script and one round trip are left, as with a blocking pop (decision 53). 80 to 100 µs pass in the "
        "process that enqueues before its bytes leave (20 where it does so again at once: after a pause its memory has "
        "to be fetched anew), and 131 from the ring's bytes to the job's first line, 20 of them for the acceptance, "
        "which is sent first (decision 56). Huey accepts nothing."
    ),
    "pickup_p99": "as for p50; the rounds differ by a factor of three.",
    "pickup_loaded": (
        "half of the most is 13 to 19 thousand jobs a second here, by three processes on two hardware threads. "
        "Python's collector of circular garbage made 9 to 10 ms of it; workers are spared that since, and p99 is 2.8 "
        "to 4.9 ms; without a collector in the producing process too it is 2.4 to 4.7. The idle p99 that it is "
        "compared with differs by a factor of three between rounds."
    ),
    "engine_cpu": (
        "38,200 instructions for an enqueue and 82,000 to 86,000 for a finish and take, counted (decision 54; 61,600 "
        "and 114,000 to 136,000 before). 40 % of the latter are the commands that write, the rest Lua's work on "
        "records: lease, token, attempt, counters per minute and recognition of repeated calls are more to write "
        "than a push and a pop."
    ),
    "http_single": (
        "32 to 42 µs of the server's processor time for a request, where bare ASGI needs 25 to 28, and 8 to 10 of the "
        "engine's, on the same two hardware threads (the table of what a request costs; decision 57). Half is the "
        "kernel and the event loop; of the rest it is the number of steps that costs, no single one."
    ),
    "http_batch": (
        "4 µs of the server and 5 of the engine for a job of a batch, beside 40 and 9 for one that comes alone "
        "(decision 57): that is five times, and what makes single requests faster makes the ratio smaller."
    ),
    "bedrock_create": (
        "29 to 34 µs of the server and 11 to 15 of the engine for a CreateJob, against 32 to 42 and 8 to 10 for one "
        "job over HTTP (decision 57). A Ping, which does nothing, costs 11 µs of the server. The engine writes three "
        "sorted sets for each job, where a plain one has one."
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
    """One bad round of three is the machine's noise; two are not."""
    misses = sum(is_miss(value, bound, is_more_better) for value in values)
    return 2 * misses > len(values)


def verdict(floor: Floor, values: Sequence[float]) -> Verdict:
    if not values:
        return "not measured"
    if is_missed(values, floor.floor, floor.is_more_better):
        return "MISSED"
    return "floor" if is_missed(values, floor.goal, floor.is_more_better) else "goal"


def times_the_floor(floor: Floor, value: float) -> float:
    """How many times better than the floor: 1 is on it, less is a miss, whatever the row's direction."""
    better, worse = (value, floor.floor) if floor.is_more_better else (floor.floor, value)
    return better / worse if worse else float("inf")


def readings(findings: Sequence[Finding]) -> dict[str, Reading]:
    return {one.row: one for one in findings if isinstance(one, Reading)}


def is_any_missed(found: Mapping[str, Reading], rows: Iterable[str]) -> bool:
    """What was not measured is missed too: nobody knows that it is held."""
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
        bound(floor, floor.floor),
        bound(floor, floor.goal),
        SAID[verdict(floor, values)],
    ]


HEAD = ("what", "against", "median", "rounds", "floor", "goal", "verdict")


def table(title: str, found: Mapping[str, Reading], rows: Sequence[str] | None = None, note: str = "") -> Table:
    return Table(title, HEAD, [_cells(row, found.get(row)) for row in (FLOORS if rows is None else rows)], note)


def reasons(found: Mapping[str, Reading]) -> list[str]:
    """A sentence for each row that is below its floor or its goal, where one is known."""
    said = []
    for row, floor in FLOORS.items():
        reached = verdict(floor, found[row].values) if row in found else "not measured"
        if reached in ("MISSED", "floor") and row in WHY:
            said.append(f"- **{floor.title}** ({SAID[reached]}): {WHY[row]}")
    return said
