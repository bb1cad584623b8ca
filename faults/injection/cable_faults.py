"""Kernel faults on the cable to an engine in a network namespace of its own.

No proxy accepts, closes or resets anything here: packets are lost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from ..cable import Cable
from ..deployment import Deployment
from ..engines import NamespacedEngine
from .fault import Fault, Inject

WITH_CABLE = ("namespace",)
FLAPS = 6
Disturb = Callable[[Cable, float, random.Random], str]


def _with_cable(disturb: Disturb) -> Inject:
    def inject(deployment: Deployment, length_s: float, rng: random.Random) -> str:
        engine = deployment.engine
        assert isinstance(engine, NamespacedEngine)
        try:
            return disturb(engine.cable, length_s, rng)
        finally:
            engine.cable.restore()

    return inject


def _pull(cable: Cable, length_s: float, rng: random.Random) -> str:
    cable.pull()
    time.sleep(length_s)
    return "the cable of the engine"


def _flap(cable: Cable, length_s: float, rng: random.Random) -> str:
    for _ in range(FLAPS):
        cable.pull()
        time.sleep(length_s / FLAPS * rng.uniform(0.2, 0.8))
        cable.plug()
        time.sleep(length_s / FLAPS * rng.uniform(0.2, 0.8))
    return "the cable of the engine"


def _lose_packets(cable: Cable, length_s: float, rng: random.Random) -> str:
    percent, delay_ms = rng.uniform(2, 30), rng.uniform(1, 50)
    cable.lose_packets(percent, delay_ms)
    time.sleep(length_s)
    return f"{percent:.0f} % lost, {delay_ms:.0f} ms late"


def _limit_rate(cable: Cable, length_s: float, rng: random.Random) -> str:
    kbit = rng.choice([150, 300, 600])
    cable.limit_rate(kbit)
    time.sleep(length_s)
    return f"{kbit} kbit a second"


PULLED = Fault(
    "link-down", "the cable to the engine is pulled: packets vanish, nothing is reset", _with_cable(_pull), WITH_CABLE,
    0.3, 8.0, 8,
)  # fmt: skip
FLAPPING = Fault(
    "link-flap", f"the cable is pulled and plugged in {FLAPS} times", _with_cable(_flap), WITH_CABLE, 1.0, 5.0, 5
)
LOSSY = Fault(
    "link-lossy", "2 to 30 % of all packets are lost, the others come up to 75 ms late (`tc netem`)",
    _with_cable(_lose_packets), WITH_CABLE, 1.0, 6.0, 6,
)  # fmt: skip
NARROW = Fault(
    "link-narrow", "150 to 600 kbit a second; packets beyond a short queue are dropped (`tc tbf`)",
    _with_cable(_limit_rate), WITH_CABLE, 1.0, 5.0, 5,
)  # fmt: skip
