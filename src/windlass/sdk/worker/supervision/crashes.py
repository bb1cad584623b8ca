"""Crash of a job's process: the same rule for a child of a pool and for a whole worker process."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.job import Attempt
from windlass.sdk.failures import encode_error
from windlass.sdk.worker.outcome import AttemptFailed, AttemptFailure

CRASHES = ("crashed", "out_of_memory")


def is_first_crash(before: Sequence[Attempt]) -> bool:
    return not any(attempt.reason in CRASHES for attempt in before)


def make_crash(
    before: Sequence[Attempt], max_crashes: int, kind: str, message: str, reason: str = "crashed"
) -> AttemptFailed:
    """Make the failure of a crash. A job that crashes `max_crashes` times fails, whatever tries are left."""
    crashes = 1 + sum(attempt.reason in CRASHES for attempt in before)
    error = encode_error(kind, f"{message} (crash {crashes} of at most {max_crashes})")
    return AttemptFailed(AttemptFailure(reason=reason, error=error, is_final=crashes >= max_crashes))
