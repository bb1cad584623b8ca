"""Every kind of fault there is, by name. One kind a constant; files by what they are done to."""

from . import clocks, engine_state, killing, link, network, resources, stopping
from .fault import Fault

FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        killing.WORKER,
        killing.PRODUCER,
        killing.SERVER,
        killing.LOOPS,
        killing.ENGINE,
        stopping.WORKER,
        stopping.SERVER,
        stopping.ENGINE,
        stopping.SLOW,
        network.CUT,
        network.DROP,
        network.STALL,
        network.DELAY,
        network.NARROW,
        network.STORM_OF,
        link.PULLED,
        link.FLAPPING,
        link.LOSSY,
        link.NARROW,
        resources.DISK,
        resources.MEMORY,
        engine_state.FLUSHED,
        engine_state.CLIENTS,
        engine_state.FAILOVER,
        clocks.JUMP,
    )
}

__all__ = ["FAULTS", "Fault"]
