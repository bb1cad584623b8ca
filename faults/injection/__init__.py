"""All kinds of faults, by name. Files are grouped by the target of a fault; each kind is a constant."""

from . import cable_faults, clock, engine_admin, kill, proxy_faults, resources, suspend, versions
from .fault import Fault

FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        kill.WORKER,
        kill.WORKER_PROCESS,
        kill.PRODUCER,
        kill.SERVER,
        kill.LOOPS,
        kill.ENGINE,
        kill.POWER,
        suspend.WORKER,
        suspend.SERVER,
        suspend.ENGINE,
        suspend.SLOW,
        proxy_faults.CUT,
        proxy_faults.DROP,
        proxy_faults.STALL,
        proxy_faults.DELAY,
        proxy_faults.NARROW,
        proxy_faults.STORM,
        cable_faults.PULLED,
        cable_faults.FLAPPING,
        cable_faults.LOSSY,
        cable_faults.NARROW,
        resources.DISK,
        resources.MEMORY,
        engine_admin.FLUSHED,
        engine_admin.CLIENTS,
        engine_admin.FAILOVER,
        clock.JUMP,
        versions.CHANGED,
    )
}

__all__ = ["FAULTS", "Fault"]
