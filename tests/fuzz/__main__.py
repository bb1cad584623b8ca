"""`make fuzz`: new inputs for every parser in turn, then for SQL functions, until the time is over.

A failing input is written to the corpus, so that `make test` fails until the parser is fixed."""

from __future__ import annotations

import argparse
import secrets
import sys
import time

from tests.fuzz.corpus_files import inputs_of, keep
from tests.fuzz.mutation import Mutator
from tests.fuzz.parser_check import find_fault
from tests.fuzz.parsers import PARSERS
from tests.fuzz.sql_functions import QueryProcess, statements

BATCH = 500  # inputs of one parser before the next parser's turn
FAULTS_MAX = 20  # of one parser: one mistake shows in many ways
SQL = "sql_functions"
SQL_SHARE = 0.1  # of the time


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", default=secrets.token_hex(4), help="repeats a run; default: a new seed")
    parser.add_argument(
        "--parser", choices=[*sorted(PARSERS), SQL], action="append", help="only this parser; may be repeated"
    )
    given = parser.parse_args()
    print(f"seed {given.seed}, {given.seconds:g} s", flush=True)
    names = given.parser or [*PARSERS, SQL]
    parsers = [name for name in names if name != SQL]
    sql_s = given.seconds if not parsers else given.seconds * SQL_SHARE if SQL in names else 0.0
    found = _fuzz(parsers, given.seed, given.seconds - sql_s) + _fuzz_sql(given.seed, sql_s)
    return 1 if found else 0


def _fuzz_sql(seed: str, seconds: float) -> int:
    until_s = time.monotonic() + seconds
    tried = faults = 0
    if seconds:
        with QueryProcess() as process:
            for statement in statements(seed):
                if time.monotonic() > until_s or faults == FAULTS_MAX:
                    break
                tried += 1
                if description := process.find_fault(statement):
                    faults += 1
                    print(f"{SQL}: {description}\n  kept as {keep('bedrock_query', statement.encode())}", flush=True)
        print(f"{SQL:22} {tried:8,} queries, {faults} faults, {process.ended} ended by the kernel")
    return faults


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
    for data in mutator.inputs(BATCH):
        count += 1
        description = find_fault(PARSERS[name], data, mutator.pieces(data))
        where = description.partition(": ")[0]
        if description and where not in faults:
            faults.add(where)
            print(f"{name}: {description}\n  kept as {keep(name, data)}", flush=True)
        if time.monotonic() > until_s:
            break
    return count


if __name__ == "__main__":
    sys.exit(main())
