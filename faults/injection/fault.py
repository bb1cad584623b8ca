"""A fault: a disturbance of a deployment for some time, which is then undone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ..deployment import Deployment

ALL_TOPOLOGIES = ("standalone", "embedded", "sentinel", "cluster", "namespace", "scripts", "versions")
PROXIED = (
    "standalone",
    "embedded",
    "sentinel",
    "cluster",
    "scripts",
    "versions",
)  # in the other the kernel disturbs the network
SINGLE_ADDRESS = ("standalone", "embedded", "scripts", "versions")  # a proxy stands before the engine
NO_TARGET = "no target"
Inject: TypeAlias = Callable[[Deployment, float, random.Random], str]


class Fault(NamedTuple):
    name: str
    description: str  # for the report
    inject: Inject  # takes the length in seconds, returns the target after the fault is undone
    topologies: tuple[str, ...] = ALL_TOPOLOGIES
    shortest_s: float = 0.2
    longest_s: float = 2.0
    weight: int = 2  # relative frequency
