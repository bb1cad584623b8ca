"""Actions of an operator on an engine under load: flushed functions, killed connections, a planned failover."""

from __future__ import annotations

import random
import time

from ..deployment import Deployment
from ..engines import ClusterEngine, SentinelEngine
from .fault import Fault


def _flush(deployment: Deployment, length_s: float, rng: random.Random) -> str:
    deployment.engine.send_command("FUNCTION", "FLUSH")
    deployment.engine.send_command("SCRIPT", "FLUSH")
    time.sleep(length_s)
    return "engine"


def _kill_clients(deployment: Deployment, length_s: float, rng: random.Random) -> str:
    deployment.engine.send_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    time.sleep(length_s)
    return "all connections of the engine"


def _fail_over(deployment: Deployment, length_s: float, rng: random.Random) -> str:
    engine = deployment.engine
    assert isinstance(engine, SentinelEngine | ClusterEngine)
    engine.fail_over(rng)
    time.sleep(length_s + 1.0)
    engine.revive()
    return "a primary"


FLUSHED = Fault("functions-flushed", "`FUNCTION FLUSH` and `SCRIPT FLUSH`", _flush, longest_s=0.5, weight=3)
CLIENTS = Fault("clients-killed", "`CLIENT KILL` of every connection", _kill_clients, longest_s=0.5)
FAILOVER = Fault(
    "failover",
    "a planned failover (`SENTINEL FAILOVER`, `CLUSTER FAILOVER`)",
    _fail_over,
    ("sentinel", "cluster"),
    weight=4,
)
