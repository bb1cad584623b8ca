"""A plan: which fault is done when, and for how long, drawn from a seed. The same seed gives the same plan; what the
processes make of it is theirs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .mischief import FAULTS, Fault

SHORTEST_GAP_S, LONGEST_GAP_S = 0.2, 2.0


class Step(NamedTuple):
    at_s: float  # after the load has begun; later when what was before took longer
    fault: Fault
    length_s: float
    seed: int  # decides to whom


class Plan(NamedTuple):
    topology: str
    seed: int
    seconds: float
    steps: tuple[Step, ...]


def drawn(topology: str, seed: int, seconds: float, only: Sequence[str] = (), without: Sequence[str] = ()) -> Plan:
    """Each kind that suits comes once, in any order, before kinds are drawn by weight."""
    chance = random.Random(f"{seed} {topology}")  # noqa: S311 (it must be repeatable)
    faults = [fault for fault in suiting(topology, only) if fault.name not in without]
    return Plan(topology, seed, seconds, tuple(_steps(chance, faults, seconds)))


def suiting(topology: str, only: Sequence[str] = ()) -> list[Fault]:
    return [fault for fault in FAULTS.values() if topology in fault.topologies and (not only or fault.name in only)]


def _steps(chance: random.Random, faults: list[Fault], seconds: float) -> Iterator[Step]:
    first = chance.sample(faults, len(faults))
    at_s = 1.0
    while faults:
        fault = first.pop() if first else chance.choices(faults, [fault.weight for fault in faults])[0]
        length_s = chance.uniform(fault.shortest_s, fault.longest_s)
        if at_s + length_s > seconds:
            return
        yield Step(at_s, fault, length_s, chance.randrange(2**32))
        at_s += length_s + chance.uniform(SHORTEST_GAP_S, LONGEST_GAP_S)
