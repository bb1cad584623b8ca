"""Rules of supervision: how long a restart waits, in which steps a stop proceeds, the words for an exit code.

It has no I/O and no clock.

The supervisor of the embedded engine loads this module in a bare interpreter, so it imports as little as possible.
"""

from __future__ import annotations

import signal
from enum import Enum
from typing import NamedTuple

from windlass.pauses import Pauses

RESTART_PAUSES = Pauses(0.5, 30.0)
STEADY_S = 60.0  # a process that has run this long resets its pause


class RestartBackoff:
    """Pauses before the restarts of one child. They grow while the child ends soon after its start."""

    def __init__(self, pauses: Pauses, steady_s: float) -> None:
        self._pauses = pauses
        self._steady_s = steady_s  # a child that ran this long has not failed at its start
        self.quick_exits = 0  # in a row

    def pause_after(self, ran_s: float) -> float:
        """Return the pause after an exit of a child that ran for `ran_s`. A child that could not start ran for 0 s."""
        self.quick_exits = self.quick_exits + 1 if ran_s < self._steady_s else 0
        return self._pauses.after(max(1, self.quick_exits))


class StopOrder(Enum):
    """Order to a child. The values are also the messages that a supervisor sends."""

    STOP = b"stop"  # finish the work in progress, within the grace period
    NOW = b"now"  # abandon the work in progress
    KILL = b"kill"  # never sent: SIGKILL


class StopStep(NamedTuple):
    order: StopOrder
    patience_s: float  # then the child is killed


class StopPolicy:
    """Steps of a stop. Each further request takes the next step at once."""

    def __init__(self, *steps: StopStep) -> None:
        self.steps = steps

    def step(self, requests: int) -> StopStep:
        """Return the step after so many requests to stop, at least one."""
        return self.steps[min(requests, len(self.steps)) - 1]


def graceful_stop(grace_s: float, unwind_s: float) -> StopPolicy:
    """Return the policy of children that work for others: finish, then abandon, then kill.

    `unwind_s` is the time that a child needs, beyond the grace period, to close its connections.
    """
    return StopPolicy(
        StopStep(StopOrder.STOP, grace_s + unwind_s),
        StopStep(StopOrder.NOW, unwind_s),
        StopStep(StopOrder.KILL, unwind_s),
    )


def describe_exit(code: int) -> str:
    """Describe the end of a process: "ended with exit code 1", "was ended by SIGKILL"."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
