"""The plan of a run: which fault happens when, and for how long. It is derived from a seed.

The same seed gives the same plan. How the processes react to it is not repeatable."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .injection import FAULTS, Fault

SHORTEST_GAP_S, LONGEST_GAP_S = 0.2, 1.2


class Step(NamedTuple):
    at_s: float  # after the begin of the load; later if an earlier step took longer
    fault: Fault
    length_s: float
    seed: int  # chooses the target


class Plan(NamedTuple):
    topology: str
    seed: int
    seconds: float
    steps: tuple[Step, ...]


def make_plan(
    topology: str,
    seed: int,
    seconds: float,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
    certain: Sequence[str] = (),
) -> Plan:
    """Make a plan that has each suitable fault once, in random order, and then chooses faults by weight. The faults in
    `certain` come early, so that a short plan has them too."""
    rng = random.Random(f"{seed} {topology}")  # noqa: S311 (it must be repeatable)
    faults = [fault for fault in faults_for(topology, only) if fault.name not in without]
    return Plan(topology, seed, seconds, tuple(_steps(rng, faults, certain, seconds)))


def faults_for(topology: str, only: Sequence[str] = ()) -> list[Fault]:
    return [fault for fault in FAULTS.values() if topology in fault.topologies and (not only or fault.name in only)]


def _order(rng: random.Random, faults: list[Fault], certain: Sequence[str]) -> list[Fault]:
    """Return the faults in random order. The certain ones are among the first, mixed with as many others."""
    order = rng.sample(faults, len(faults))
    early = [fault for fault in order if fault.name in certain]
    others = [fault for fault in order if fault.name not in certain]
    mixed = [*early, *others[: len(early)]]
    return [*rng.sample(mixed, len(mixed)), *others[len(early) :]]


def _steps(rng: random.Random, faults: list[Fault], certain: Sequence[str], seconds: float) -> Iterator[Step]:
    first = _order(rng, faults, certain)[::-1]
    at_s = 1.0
    while faults:
        fault = first.pop() if first else rng.choices(faults, [fault.weight for fault in faults])[0]
        length_s = rng.uniform(fault.shortest_s, fault.longest_s)
        if at_s + length_s > seconds:
            return
        yield Step(at_s, fault, length_s, rng.randrange(2**32))
        at_s += length_s + rng.uniform(SHORTEST_GAP_S, LONGEST_GAP_S)
