"""Rows of the comparison, and its pure decisions: number of jobs per measurement, participants, best peer."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from . import BARE, PEERS, WINDLASS


class Row(NamedTuple):
    title: str
    unit: str
    is_more_better: bool


ROWS = {
    "enqueue_one": Row("enqueue one by one", "jobs/s", True),
    "enqueue_50": Row("enqueue from 50 concurrent tasks", "jobs/s", True),
    "bulk": Row("enqueue in bulk", "jobs/s", True),
    "drain_100": Row("drain, 1 process, 100 slots", "jobs/s", True),
    "drain_10": Row("drain, 1 process, 10 slots", "jobs/s", True),
    "drain_2": Row("drain, 2 processes, 100 slots", "jobs/s", True),
    "drain_threads": Row("drain, functions in threads", "jobs/s", True),
    "pickup_p50": Row("pick-up, idle, p50", "ms", False),
    "pickup_p99": Row("pick-up, idle, p99", "ms", False),
    "pickup_loaded_p99": Row("pick-up at half of the maximum load, p99", "ms", False),
    "engine_cpu": Row("engine CPU per job", "µs", False),
    "engine_commands": Row("engine commands per job", "commands", False),
    "bytes_queued": Row("memory per queued job", "bytes", False),
}
# A measurement may give the values of several rows.
MEASURES: dict[str, tuple[str, ...]] = {
    "pickup": ("pickup_p50", "pickup_p99"),
    "cost": ("engine_cpu", "engine_commands", "bytes_queued"),
}
MEASURES |= {row: (row,) for row in ROWS if not any(row in rows for rows in MEASURES.values())}

Found = dict[str, dict[str, list[float]]]

# Jobs per second assumed in the first round; later rounds use the measured rate. Most peers share one figure.
FIRST_RATES = {
    "enqueue_one": 1_500, "enqueue_50": 2_000, "bulk": 4_000, "drain_100": 1_200, "drain_10": 1_200, "drain_2": 1_500,
    "drain_threads": 1_000, "cost": 1_000, "pickup_loaded_p99": 800,
}  # fmt: skip
FIRST_RATES_OF = {
    WINDLASS: {
        "enqueue_one": 2_000, "enqueue_50": 12_000, "bulk": 25_000, "drain_100": 12_000, "drain_10": 8_000,
        "drain_2": 15_000, "drain_threads": 6_000, "cost": 8_000, "pickup_loaded_p99": 4_000,
    },
    BARE: {
        "enqueue_one": 8_000, "enqueue_50": 60_000, "bulk": 120_000, "drain_100": 50_000, "drain_2": 60_000,
        "cost": 30_000,
    },
    "rq": {"drain_100": 120, "drain_10": 120, "drain_2": 200, "cost": 120, "pickup_loaded_p99": 100},
    "celery": {"drain_100": 500, "drain_10": 500, "drain_2": 700, "drain_threads": 500, "cost": 500},
}  # fmt: skip
FEWEST_JOBS, MOST_JOBS = 100, 150_000


def first_rate(measure: str, who: str) -> float:
    return FIRST_RATES_OF.get(who, {}).get(measure) or FIRST_RATES.get(measure, 1_000)


def jobs_for(rate: float, for_s: float) -> int:
    """Return the number of jobs that take about `for_s` seconds."""
    return max(FEWEST_JOBS, min(MOST_JOBS, round(rate * for_s)))


def measures_of(rows: Iterable[str]) -> list[str]:
    wanted = set(rows)
    if unknown := wanted - set(ROWS):
        raise ValueError(f"no row {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    return [measure for measure, given in MEASURES.items() if wanted & set(given)]


def able(row: str) -> list[str]:
    """Return Windlass and the peers that support a row."""
    needs = {"bulk": "has_bulk", "drain_threads": "has_threads"}.get(row)
    return [who for who, peer in PEERS.items() if needs is None or getattr(peer, needs)]


def has_limit(row: str) -> bool:
    """Report whether the bare engine has a comparable operation."""
    return row not in ("drain_10", "drain_threads", "pickup_loaded_p99")


def takers(rows: Sequence[str], who: Mapping[str, Sequence[str]] | None) -> list[str]:
    """Return the participants of a measurement for these rows. Windlass always takes part."""
    found = dict.fromkeys([WINDLASS])
    for row in rows:
        can = able(row)
        chosen = can if who is None else who.get(row, can)
        limit = [BARE] if has_limit(row) else []
        found |= dict.fromkeys(one for one in chosen if one in (*can, *limit))
    return list(found)


def best(row: str, values: Mapping[str, Sequence[float]], *, keeps_jobs: bool = False) -> str | None:
    """Return the peer with the best median, or None if no peer was measured. `keeps_jobs`: only peers that do not lose
    the job of a killed worker."""
    peers = {
        who: median(found)
        for who, found in values.items()
        if who not in (WINDLASS, BARE) and (PEERS[who].keeps_jobs or not keeps_jobs)
    }
    if not peers:
        return None
    return (max if ROWS[row].is_more_better else min)(peers, key=lambda who: peers[who])
