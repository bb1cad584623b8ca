"""Runs the benchmarks: `python -m bench [--quick] [--write] [section ...]` from the root of the repository.

`--write` puts the tables into docs/performance.md; it needs all sections.
"""

import argparse
import datetime
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import (
    bedrock,
    callbacks,
    cluster,
    connection,
    downloads,
    drain,
    durability,
    enqueue,
    family,
    flatness,
    http_api,
    lanes,
    limits,
    processor,
    push,
    sdk,
    server_cpu,
    waiting,
)
from .engine import Engine
from .figures import Section, Setting, Table

SECTIONS: dict[str, Section] = {
    "enqueue": enqueue.section,
    "drain": drain.section,
    "flatness": flatness.section,
    "lanes": lanes.section,
    "limits": limits.section,
    "family": family.section,
    "waiting": waiting.section,
    "durability": durability.section,
    "connection": connection.section,
    "cluster": cluster.section,
    "sdk": sdk.section,
    "http": http_api.section,
    "bedrock": bedrock.section,
    "server": server_cpu.section,
    "push": push.section,
    "callbacks": callbacks.section,
    "downloads": downloads.section,
    "processor": processor.section,
}
DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
INTRODUCTION = """# Performance

Made by `{command}`. {machine}

How to read it:

- **Ratios within one run count.** The machine is small and shared, and client, engine and kernel compete for its cores:
  absolute figures move by a third from run to run and do not carry over to another machine.
- Figures are medians of three rounds in which all ways take turns; brackets hold the smallest and the largest.
- The *bare engine* is the same Valkey over the same unix socket and the same thin client, with raw commands that only
  store and fetch the bytes: no leases, tokens, retries, counters, wake-ups or recognition of repeated calls. It is the
  ceiling, not a queue.
- Jobs are no-ops with an empty payload. Nothing is persistent except in the tables about durability: an engine that is
  killed during the other rows loses everything.
- *script µs* is the engine's time within the function call; *engine CPU µs* is all its CPU, sockets included.
- Only the calls themselves run, except in the tables about the SDK and HTTP: no worker, no scheduler, recoverer or
  janitor beside them.
"""


def machine(is_quick: bool, load: float) -> str:
    with Engine() as engine:
        server = engine.info("server")
    name = f"Valkey {server['valkey_version']}" if "valkey_version" in server else f"Redis {server['redis_version']}"
    today = datetime.datetime.now(datetime.UTC).date()
    extent = "a quick run with fewer samples" if is_quick else "a full run"
    return (
        f"{today}, {extent}: {os.cpu_count()} cores ({platform.machine()}, {platform.system()}), "
        f"Python {platform.python_version()}, {name}, unix socket, uvloop. "
        f"Load average before the run: {load:.1f}; above 0.5 others were at work and the figures are worth little."
    )


def document(tables: Sequence[Table], is_quick: bool, load: float) -> str:
    command = f"python -m bench{' --quick' if is_quick else ''} --write"
    introduction = INTRODUCTION.format(command=command, machine=machine(is_quick, load))
    return "\n".join([introduction, *(table.markdown() for table in tables)])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="section", help=f"some of: {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer samples, about a minute")
    parser.add_argument("--write", action="store_true", help=f"write {DOCUMENT.name}")
    options = parser.parse_args()
    chosen = options.sections or list(SECTIONS)
    if unknown := set(chosen) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    if options.write and set(chosen) != set(SECTIONS):
        parser.error("--write needs all sections")
    setting = Setting(options.quick, lambda text: print(f"  {text}", file=sys.stderr, flush=True))
    load = os.getloadavg()[0]
    tables: list[Table] = []
    for name in chosen:
        began_at_s = time.monotonic()
        found = SECTIONS[name](setting)
        print("\n".join(table.text() for table in found), flush=True)
        setting.say(f"{name} took {time.monotonic() - began_at_s:.0f} s")
        tables += found
    if options.write:
        DOCUMENT.write_text(document(tables, options.quick, load))
        print(f"\nwritten: {DOCUMENT}")


if __name__ == "__main__":
    main()
