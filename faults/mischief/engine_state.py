"""What an operator may do to an engine under load: functions and scripts flushed, connections killed, a planned
failover."""

from __future__ import annotations

import random
import time

from ..deployment import Deployment
from ..engines import Divided, Watched
from .fault import Fault


def _flush(deployment: Deployment, length_s: float, chance: random.Random) -> str:
    deployment.engine.ask("FUNCTION", "FLUSH")
    deployment.engine.ask("SCRIPT", "FLUSH")
    time.sleep(length_s)
    return "engine"


def _clients(deployment: Deployment, length_s: float, chance: random.Random) -> str:
    deployment.engine.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    time.sleep(length_s)
    return "all connections of the engine"


def _failover(deployment: Deployment, length_s: float, chance: random.Random) -> str:
    engine = deployment.engine
    assert isinstance(engine, Watched | Divided)
    engine.fail_over(chance)
    time.sleep(length_s + 1.0)
    engine.revive()
    return "a primary"


FLUSHED = Fault("functions-flushed", "`FUNCTION FLUSH` and `SCRIPT FLUSH`", _flush, longest_s=0.5, weight=3)
CLIENTS = Fault("clients-killed", "`CLIENT KILL` of every connection", _clients, longest_s=0.5)
FAILOVER = Fault(
    "failover",
    "a planned failover (`SENTINEL FAILOVER`, `CLUSTER FAILOVER`)",
    _failover,
    ("sentinel", "cluster"),
    weight=4,
)
