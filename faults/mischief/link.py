"""What the kernel does to the cable that leads to an engine in a network namespace of its own: no proxy accepts, closes
or resets anything here, packets are gone."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from ..cable import Cable
from ..deployment import Deployment
from ..engines import Apart
from .fault import Fault

AT_A_CABLE = ("namespace",)
FLAPS = 6
Harm = Callable[[Cable, float, random.Random], str]


def _harming(harm: Harm) -> Callable[[Deployment, float, random.Random], str]:
    def do(deployment: Deployment, length_s: float, chance: random.Random) -> str:
        engine = deployment.engine
        assert isinstance(engine, Apart)
        try:
            return harm(engine.cable, length_s, chance)
        finally:
            engine.cable.mend()

    return do


def _pull(cable: Cable, length_s: float, chance: random.Random) -> str:
    cable.pull()
    time.sleep(length_s)
    return "the cable of the engine"


def _flap(cable: Cable, length_s: float, chance: random.Random) -> str:
    for _ in range(FLAPS):
        cable.pull()
        time.sleep(length_s / FLAPS * chance.uniform(0.2, 0.8))
        cable.plug()
        time.sleep(length_s / FLAPS * chance.uniform(0.2, 0.8))
    return "the cable of the engine"


def _lose(cable: Cable, length_s: float, chance: random.Random) -> str:
    percent, delay_ms = chance.uniform(2, 30), chance.uniform(1, 50)
    cable.lose(percent, delay_ms)
    time.sleep(length_s)
    return f"{percent:.0f} % lost, {delay_ms:.0f} ms late"


def _narrow(cable: Cable, length_s: float, chance: random.Random) -> str:
    kbit = chance.choice([150, 300, 600])
    cable.narrow(kbit)
    time.sleep(length_s)
    return f"{kbit} kbit a second"


PULLED = Fault(
    "link-down", "the cable to the engine is pulled: packets vanish, nothing is reset", _harming(_pull), AT_A_CABLE,
    0.3, 8.0, 8,
)  # fmt: skip
FLAPPING = Fault(
    "link-flap", f"the cable is pulled and plugged in {FLAPS} times", _harming(_flap), AT_A_CABLE, 1.0, 5.0, 5
)
LOSSY = Fault(
    "link-lossy", "2 to 30 % of all packets are lost, the others come up to 75 ms late (`tc netem`)", _harming(_lose),
    AT_A_CABLE, 1.0, 6.0, 6,
)  # fmt: skip
NARROW = Fault(
    "link-narrow", "150 to 600 kbit a second; packets beyond a short queue are dropped (`tc tbf`)",
    _harming(_narrow), AT_A_CABLE, 1.0, 5.0, 5,
)  # fmt: skip
