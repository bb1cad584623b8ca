"""Measure one or all axes: `python -m bench.load [--size N] [axis ...]`."""

import argparse
import os
import sys
import time
from pathlib import Path

from bench.engine import Engine
from bench.measurements.server_cpu import served

from .deployments import AXES
from .pages import COMMANDS, SEARCHES, measure, paths, run_command


def _resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("axes", nargs="*", help="default: all")
    parser.add_argument("--size", type=int, help="instead of the largest")
    parser.add_argument("--no-commands", action="store_true")
    options = parser.parse_args()
    for name in options.axes or AXES:
        axis = AXES[name]
        size = options.size or axis.sizes[-1]
        with Engine() as engine:
            begin_s = time.perf_counter()
            with engine.service() as service:
                axis.fill(service, size)
            print(f"\n{size:,} {axis.what}: filled in {time.perf_counter() - begin_s:.0f} s", flush=True)
            with served(engine) as server:
                time.sleep(2)
                print(f"load {os.getloadavg()[0]:.1f}; server {_resident_mb(server.pid):.0f} MB, "
                      f"engine {engine.used_memory() / 1e6:.0f} MB")  # fmt: skip
                costs = [measure(engine, server, path) for path in [*paths(), *SEARCHES, *axis.paths]]
                if not options.no_commands:
                    costs += [run_command(engine, words) for words in COMMANDS]
                for cost in sorted(costs, key=lambda cost: -cost.first_s):
                    print(f"{cost.what:44} {cost.status} {cost.first_s:7.3f} s, again {cost.median_s:7.3f} s, "
                          f"server {cost.server_cpu_s:6.3f}, engine {cost.engine_cpu_s:6.3f}, "
                          f"{cost.size / 1e3:8.1f} kB")  # fmt: skip
                print(
                    f"server {_resident_mb(server.pid):.0f} MB, engine {engine.used_memory() / 1e6:.0f} MB", flush=True
                )


if __name__ == "__main__":
    sys.exit(main())
