"""Measure one or all axes: `python -m bench.load [--size N] [--commands] [axis ...]`."""

import argparse
import os

from .deployments import AXES
from .section import grow


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("axes", nargs="*", help=f"default: all ({', '.join(AXES)})")
    parser.add_argument("--size", type=int, help="default: the largest")
    parser.add_argument("--commands", action="store_true", help="also run commands")
    options = parser.parse_args()
    for name in options.axes or AXES:
        axis = AXES[name]
        grown = grow(axis, options.size or axis.sizes[-1], with_commands=options.commands)
        print(f"\n{grown.size:,} {axis.what}; load {os.getloadavg()[0]:.1f}; server {grown.server_mb:.0f} MB, engine "
              f"{grown.engine_mb:.0f} MB, longest call {grown.longest_call_ms:.0f} ms")  # fmt: skip
        for cost in sorted([*grown.pages, *grown.commands], key=lambda cost: -cost.first_s):
            print(f"{cost.what:44} {cost.status} {cost.first_s:7.3f} s, again {cost.median_s:7.3f} s, server "
                  f"{cost.server_cpu_s:6.3f}, engine {cost.engine_cpu_s:6.3f}, {cost.size / 1e3:8.1f} kB")  # fmt: skip


if __name__ == "__main__":
    main()
