"""Jumps of a client's wall clock, forwards or backwards, by up to a day."""

from __future__ import annotations

import random
import time

from ..deployment import Deployment
from .fault import NO_TARGET, Fault


def _jump(deployment: Deployment, length_s: float, rng: random.Random) -> str:
    clients = [*deployment.processes("client")]
    if not clients:
        return NO_TARGET
    targets = rng.sample(clients, min(3, len(clients)))
    by_s = rng.choice([-86_400, -3_600, -30, 30, 3_600, 86_400])
    for process in targets:
        deployment.shift_clock(process, by_s)
    time.sleep(length_s)
    for process in targets:
        deployment.shift_clock(process, 0.0)
    return f"{', '.join(process.name for process in targets)}: {by_s:+d} s"


JUMP = Fault("clock-jump", "the wall clock of some clients jumps by up to a day, and back", _jump, weight=3)
