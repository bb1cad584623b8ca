"""A client's wall clock jumps, forwards or backwards, by up to a day."""

from __future__ import annotations

import random
import time

from ..deployment import Deployment
from .fault import Fault


def _jump(deployment: Deployment, length_s: float, chance: random.Random) -> str:
    found = [*deployment.members("client")]
    if not found:
        return "nobody"
    members = chance.sample(found, min(3, len(found)))
    by_s = chance.choice([-86_400, -3_600, -30, 30, 3_600, 86_400])
    for member in members:
        deployment.shift_clock(member, by_s)
    time.sleep(length_s)
    for member in members:
        deployment.shift_clock(member, 0.0)
    return f"{', '.join(member.name for member in members)}: {by_s:+d} s"


JUMP = Fault("clock-jump", "the wall clock of some clients jumps by up to a day, and back", _jump, weight=3)
