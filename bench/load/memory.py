"""Memory of the engine before, with and after a million jobs: does deleted data free memory?"""

import os
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from bench.engine import Engine, fill
from windlass.service import Service

PER_CALL = 1_000
SETTLE_S = 12.0  # jemalloc returns unused pages within 10 s
KEEP_EACH = 10
DEFRAG = ("activedefrag", "yes")


class Memory(NamedTuple):
    what: str
    used_mb: float  # as the engine counts it
    resident_mb: float  # of its process
    note: str = ""


def read(engine: Engine, what: str, note: str = "") -> Memory:
    pages = int(Path(f"/proc/{engine.pid}/statm").read_text().split()[1])
    return Memory(what, engine.used_memory() / 1e6, pages * os.sysconf("SC_PAGE_SIZE") / 1e6, note)


def settled(engine: Engine, what: str, note: str = "") -> Memory:
    """Measure after the time in which the allocator returns pages. Commands keep its clock running."""
    until_s = time.monotonic() + SETTLE_S
    while time.monotonic() < until_s:
        engine.control.call("PING")
        time.sleep(0.1)
    return read(engine, what, note)


def delete(service: Service, ids: Sequence[bytes]) -> None:
    rest: Iterator[bytes] = iter(ids)
    while part := list(islice(rest, PER_CALL)):
        service.delete(part).wait()


def defragment(engine: Engine) -> str:
    """Switch active defragmentation on. Return the engine's refusal, or nothing."""
    try:
        engine.control.call("CONFIG", "SET", *DEFRAG)
    except Exception as error:
        return str(error)
    return ""


def measure(jobs: int) -> list[Memory]:
    found = []
    with Engine() as engine, engine.service() as service:
        refusal = defragment(engine)
        found.append(read(engine, "empty", refusal or "active defragmentation is on"))
        ids = sorted(fill(service, jobs))
        found.append(read(engine, f"{jobs:,} queued jobs"))
        kept = set(ids[::KEEP_EACH])
        delete(service, [job for job in ids if job not in kept])
        found.append(read(engine, f"all but each {KEEP_EACH}th deleted", "at once"))
        found.append(settled(engine, f"all but each {KEEP_EACH}th deleted", f"{SETTLE_S:.0f} s later"))
        fill(service, jobs - len(kept))
        found.append(read(engine, f"filled again to {jobs:,} jobs"))
        engine.control.call("FLUSHALL", "SYNC")
        ids = sorted(fill(service, jobs))
        delete(service, ids)
        found.append(read(engine, "all deleted", "at once"))
        found.append(settled(engine, "all deleted", f"{SETTLE_S:.0f} s later"))
    return found


def main() -> None:
    for memory in measure(int(os.environ.get("JOBS", "1000000"))):
        print(f"{memory.what:32} {memory.used_mb:7.0f} MB, resident {memory.resident_mb:7.0f} MB  {memory.note}")


if __name__ == "__main__":
    main()
