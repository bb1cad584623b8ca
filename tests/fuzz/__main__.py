"""`make fuzz`: every parser in turn with inputs that nobody has tried, until the time is over. What fails is written
into the corpus, so that `make test` fails until it is mended."""

from __future__ import annotations

import argparse
import secrets
import sys
import time

from fuzz.corpus import inputs_of, keep
from fuzz.judging import fault
from fuzz.mutation import Mutator
from fuzz.parsers import PARSERS

AT_ONCE = 500  # inputs of one parser before it is the next one's turn
FAULTS_MAX = 20  # of one parser: one mistake is found in many ways


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    asked.add_argument("--seconds", type=float, default=180)
    asked.add_argument("--seed", default=secrets.token_hex(4), help="repeats a run; default: another one each time")
    asked.add_argument("--parser", choices=sorted(PARSERS), action="append", help="only this one; may be repeated")
    given = asked.parse_args()
    print(f"seed {given.seed}, {given.seconds:g} s", flush=True)
    found = _fuzz(given.parser or list(PARSERS), given.seed, given.seconds)
    return 1 if found else 0


def _fuzz(names: list[str], seed: str, seconds: float) -> int:
    until_s = time.monotonic() + seconds
    tried = dict.fromkeys(names, 0)
    faults: dict[str, set[str]] = {name: set() for name in names}
    mutators = {name: Mutator(list(inputs_of(name).values()), f"{seed}{name}") for name in names}
    while time.monotonic() < until_s:
        for name in names:
            if len(faults[name]) < FAULTS_MAX and time.monotonic() < until_s:
                tried[name] += _turn(name, mutators[name], faults[name], until_s)
    for name in names:
        print(f"{name:22} {tried[name]:8,} inputs, {len(faults[name])} faults")
    return sum(map(len, faults.values()))


def _turn(name: str, mutator: Mutator, faults: set[str], until_s: float) -> int:
    count = 0
    for data in mutator.inputs(AT_ONCE):
        count += 1
        said = fault(PARSERS[name], data, mutator.pieces(data))
        where = said.partition(": ")[0]
        if said and where not in faults:
            faults.add(where)
            print(f"{name}: {said}\n  kept as {keep(name, data)}", flush=True)
        if time.monotonic() > until_s:
            break
    return count


if __name__ == "__main__":
    sys.exit(main())
