"""Retry policy: whether a failed call is repeated, and after which pause. No I/O; shared by async and sync."""

import time

from windlass.core.errors import DataDirectoryLost, DiskFull, EngineNotPermitted, EngineUnavailable, WindlassError
from windlass.pauses import Pauses
from windlass.store.topology.permissions import raise_explained
from windlass.store.topology.topology import NodeRoute

from .connection import EngineReplyError

# A lost connection is often back at once. Jitter keeps a fleet of workers from reconnecting together.
PAUSES = Pauses(0.005, 0.5, jitter=0.5)

# The engine cannot serve the call now but soon will, so the call is repeated.
TRANSIENT_KINDS = frozenset(
    {"LOADING", "READONLY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "UNBLOCKED", "MOVED", "ASK"}
)
# Waiting does not help: an operator has to act.
PERMANENT_ERRORS = (DiskFull, DataDirectoryLost, EngineNotPermitted)
PERMANENT_PAUSE_S = 1.0  # between attempts of a loop that never gives up; such an error returns at once
# The engine refuses writes because it cannot store them, mostly because the disk is full.
CANNOT_STORE = "MISCONF"
# A script met a slot that is migrating key by key, and half of its keys were on another node.
MIGRATING_SLOT = "non local key"


class RetryPolicy:
    """Backoff of one failed call, created at its first failure.

    Every repeat is safe, even if the engine executed the call and only its reply was lost: enqueue recognises
    its ids, lease tokens guard reports, and jobs leased by a lost reply of take return to the queue.
    """

    def __init__(self, route: NodeRoute, patience_s: float) -> None:
        self._route = route
        self._patience_s = patience_s
        self._give_up_at_s = time.monotonic() + patience_s
        self._failures = 0

    def pause_s_after(self, problem: WindlassError) -> float:
        """Return the pause before the next attempt, or raise if the call must not be repeated."""
        if isinstance(problem, EngineReplyError) and problem.kind == CANNOT_STORE:
            raise disk_full_error(self._route, problem) from problem
        if not _is_transient(problem):
            raise_explained(problem)
        left_s = self._give_up_at_s - time.monotonic()
        if left_s <= 0:
            raise EngineUnavailable(
                f"The engine at {self._route} could not be used for {self._patience_s:g} s ({problem}). "
                "Check that it runs, that this address is right and that no firewall blocks it."
            ) from problem
        self._failures += 1
        return min(PAUSES.after(self._failures), left_s)


def _is_transient(problem: WindlassError) -> bool:
    if isinstance(problem, EngineReplyError):
        return problem.kind in TRANSIENT_KINDS or MIGRATING_SLOT in str(problem)
    return isinstance(problem, EngineUnavailable) and not isinstance(problem, PERMANENT_ERRORS)


def pause_s_between(problem: WindlassError, usual_s: float) -> float:
    """Return how long a loop that never gives up waits before its next attempt."""
    return PERMANENT_PAUSE_S if isinstance(problem, PERMANENT_ERRORS) else usual_s


def disk_full_error(route: NodeRoute, refusal: EngineReplyError) -> DiskFull:
    return DiskFull(
        f"The disk of the engine at {route} is full or cannot be written, so no job is accepted. "
        f"Free disk space; the engine then continues by itself. Its log has the details. ({refusal})"
    )
