"""When a call that failed is repeated, and after which pause; decided without I/O, for links of both kinds."""

import random
import time

from windlass.core.errors import EngineUnavailable, WindlassError
from windlass.store.connection import EngineReplyError
from windlass.store.topology import Route

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.5

# The engine cannot serve us now, but will: the call is repeated.
PASSING_KINDS = frozenset({"LOADING", "READONLY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "UNBLOCKED", "MOVED", "ASK"})
# A script met a slot that is being moved key by key, and half of its keys were elsewhere.
TORN_SLOT = "non local key"


class Patience:
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
        if not _is_passing(problem):
            raise problem
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


def _is_passing(problem: WindlassError) -> bool:
    if isinstance(problem, EngineReplyError):
        return problem.kind in PASSING_KINDS or TORN_SLOT in str(problem)
    return isinstance(problem, EngineUnavailable)
