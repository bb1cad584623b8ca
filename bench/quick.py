"""Key ratios with their floors and goals, for daily use: `python -m bench.quick`, under two minutes. Exits with 1 when
a floor is missed, and with 2 when the peers' environments are missing."""

import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from . import field, floors, readings
from .durable import section as durable_steps
from .engine import Engine
from .figures import Reading, Setting
from .machine import engine_version
from .measurements import durability, growth, http_api, limits, waiting
from .peers import STEP_PEERS, environment

HTTP_S = 0.8
MANY = 200_000  # queued jobs: a million would take as long as all other rows together
ROWS = (
    "enqueue_one", "enqueue_50", "bulk", "drain_100", "drain_10", "drain_2", "drain_threads",
    "pickup_p50", "pickup_p99", "pickup_loaded_p99", "engine_cpu", "bytes_queued",
)  # fmt: skip


def _field(setting: Setting) -> list[Reading]:
    """Compare with the best peers. Rows without a peer in their floor need none."""
    best = {row: field.rivals(row) if row in BESIDE else [] for row in ROWS}
    return readings.readings(field.compared(setting, ROWS, best))


def _http(setting: Setting) -> list[Reading]:
    return http_api.readings(http_api.measured(setting, ("asgi", "single", "batch", "bedrock"), HTTP_S))


def _queued(setting: Setting) -> list[Reading]:
    return growth.takes_among(setting, MANY)


def _durability(setting: Setting) -> list[Reading]:
    return durability.readings(durability.measured(setting, durability.OURS, ("none", "always")))


def _idle(setting: Setting) -> list[Reading]:
    """Measure one window, as long as the interval between two heartbeats of a worker."""
    setting.say(f"idle: {waiting.IDLE_TAKERS} workers for {waiting.IDLE_S:.0f} s")
    with Engine() as engine:
        return waiting.readings(waiting.idle_workers(engine, 1))


class Group(NamedTuple):
    rows: Sequence[str]  # of the floors
    measure: Callable[[Setting], list[Reading]]


BESIDE = tuple(row for row, floor in floors.FLOORS.items() if floor.against == floors.BEST_PEER)
GROUPS = {
    "field": Group((*BESIDE, "pickup_loaded", "bytes_queued"), _field),
    "http": Group(("http_single", "http_batch", "bedrock_create"), _http),
    "queued": Group(("take_queued",), _queued),
    "limits": Group(("take_blocked",), limits.beside_blocked),
    "durability": Group(("always_64", "always_bulk"), _durability),
    "idle": Group(("idle_commands",), _idle),
    "durable": Group((durable_steps.ROW,), durable_steps.quick_readings),
}


def measured(setting: Setting, groups: Mapping[str, Group]) -> dict[str, Reading]:
    """Measure all groups. A group that fails counts as missed; the others still run."""
    found: list[Reading] = []
    for name, group in groups.items():
        began_at_s = time.monotonic()
        try:
            found += group.measure(setting)
        except Exception:
            traceback.print_exc()
        setting.say(f"{name} took {time.monotonic() - began_at_s:.0f} s")
    return floors.readings(found)


def concluded(found: Mapping[str, Reading], rows: Sequence[str], took_s: float) -> tuple[str, int]:
    """Return the text to print and the exit code."""
    ordered = [row for row in floors.FLOORS if row in rows]
    table = floors.table("Key ratios, three rounds, only the best peers of each row", found, ordered)
    is_missed = floors.is_any_missed(found, ordered)
    said = "A floor is missed, or was not measured." if is_missed else "Every floor is held."
    return f"{table.text()}\n\n{said} It took {took_s:.0f} s.", int(is_missed)


def main(arguments: Sequence[str]) -> int:
    if unknown := set(arguments) - set(GROUPS):
        print(f"No group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}.", file=sys.stderr)
        return 2
    rivals = {*field.BEST.values(), *field.BEST_KEEPING.values(), *STEP_PEERS}
    if missing := [peer for peer in sorted(rivals) if not environment.is_prepared(peer)]:
        print(f"No environment for {', '.join(missing)}: run `make bench-setup` first.", file=sys.stderr)
        return 2
    began_at_s = time.monotonic()
    setting = Setting(True, lambda text: print(f"  {text}", file=sys.stderr, flush=True))
    setting.say(f"engine: {' '.join(engine_version())}")
    groups = {name: GROUPS[name] for name in arguments or GROUPS}
    found = measured(setting, groups)
    rows = [row for group in groups.values() for row in group.rows]
    text, code = concluded(found, rows, time.monotonic() - began_at_s)
    print(text)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
