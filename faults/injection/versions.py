"""Rolling deploys and rollbacks: a process is stopped as by an operator, and started with the other version."""

from __future__ import annotations

import random
import time

from ..deployment import Deployment
from .fault import NO_TARGET, Fault


def _change(deployment: Deployment, length_s: float, rng: random.Random) -> str:
    changeable = deployment.changeable
    if not changeable:
        return NO_TARGET
    process = rng.choice(changeable)
    process.stop()
    time.sleep(length_s)
    version = deployment.change_version(process)
    process.start()
    return f"{process.name} now {version}"


CHANGED = Fault(
    "version-change",
    "a server, worker or producer is stopped and started with the other version, forwards or back",
    _change,
    ("versions",),
    shortest_s=0.0,
    longest_s=0.5,
    weight=16,
)
