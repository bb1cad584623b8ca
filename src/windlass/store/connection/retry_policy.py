"""When a call that failed is repeated, and after which pause; decided without I/O, for links of both kinds."""

import random
import time

from windlass.core.errors import DataDirectoryLost, DiskFull, EngineNotPermitted, EngineUnavailable, WindlassError
from windlass.store.topology.permissions import raise_explained
from windlass.store.topology.topology import Route

from .connection import EngineReplyError

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.5

# The engine cannot serve us now, but will: the call is repeated.
TRANSIENT_KINDS = frozenset({"LOADING", "READONLY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "UNBLOCKED", "MOVED", "ASK"})
# Waiting a moment does not help: a person has to do something.
PERMANENT_ERRORS = (DiskFull, DataDirectoryLost, EngineNotPermitted)
PERMANENT_PAUSE_S = 1.0  # between attempts of what goes on for ever: such a problem comes back at once
# The engine refuses writes because it cannot store them, which is mostly for want of room.
CANNOT_STORE = "MISCONF"
# A script met a slot that is being moved key by key, and half of its keys were elsewhere.
MIGRATING_SLOT = "non local key"


class RetryPolicy:
    """Decides whether a failed call is repeated, and after which pause. It begins with the first failure.

    Every repeat is safe, even of a call that was carried out and only its reply was lost: enqueue recognises
    its ids, reports are guarded by lease tokens, and what a lost answer of take has leased goes back.
    """

    def __init__(self, route: Route, patience_s: float) -> None:
        self._route = route
        self._patience_s = patience_s
        self._give_up_at_s = time.monotonic() + patience_s
        self._pause_s = FIRST_PAUSE_S

    def pause_s_after(self, problem: WindlassError) -> float:
        if isinstance(problem, EngineReplyError) and problem.kind == CANNOT_STORE:
            raise disk_full_error(self._route, problem) from problem
        if not _is_transient(problem):
            raise_explained(problem)
        left_s = self._give_up_at_s - time.monotonic()
        if left_s <= 0:
            raise EngineUnavailable(
                f"The engine at {self._route} could not be used for {self._patience_s:g} s ({problem}). "
                "Check that it runs, that this address is right and that nothing in between blocks it."
            ) from problem
        # Jitter keeps a fleet of workers from knocking in step at an engine that comes back.
        pause_s = min(self._pause_s * random.uniform(0.5, 1.0), left_s)  # noqa: S311 (not a secret)
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
        return pause_s


def _is_transient(problem: WindlassError) -> bool:
    if isinstance(problem, EngineReplyError):
        return problem.kind in TRANSIENT_KINDS or MIGRATING_SLOT in str(problem)
    return isinstance(problem, EngineUnavailable) and not isinstance(problem, PERMANENT_ERRORS)


def pause_s_between(problem: WindlassError, usual_s: float) -> float:
    """Say how long a loop that never gives up waits before it tries again."""
    return PERMANENT_PAUSE_S if isinstance(problem, PERMANENT_ERRORS) else usual_s


def disk_full_error(route: Route, refusal: EngineReplyError) -> DiskFull:
    return DiskFull(
        f"The disk of the engine at {route} is full, or cannot be written for another reason, and no job is accepted. "
        f"Make room on it; the engine goes on by itself then, and its log says more. ({refusal})"
    )
