"""What a fault is: something done to a deployment for a while, and undone. `do` returns when it is undone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from ..deployment import Deployment

EVERYWHERE = ("standalone", "embedded", "sentinel", "cluster", "namespace")
PROXIED = ("standalone", "embedded", "sentinel", "cluster")  # elsewhere the kernel is the network's trouble
AT_ONE_ADDRESS = ("standalone", "embedded")  # where a proxy stands before the engine


class Fault(NamedTuple):
    name: str
    sentence: str  # for the report
    do: Callable[[Deployment, float, random.Random], str]  # length, chance; says to whom it was done
    topologies: tuple[str, ...] = EVERYWHERE
    shortest_s: float = 0.2
    longest_s: float = 2.0
    weight: int = 2  # how often it is drawn, beside the others
