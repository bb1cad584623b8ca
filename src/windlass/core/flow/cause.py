"""Causes of ends: a job that ended because of a job that it waited for, and the first job of such a chain.

The last attempt of a job that ended because of another job names that job."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.core.errors import BadInput
from windlass.core.ids import parse_id
from windlass.core.job import Attempt, Timeline

MEMBER_REASONS = frozenset({"member_failed", "member_cancelled"})


def blamed_member(attempt: Attempt | None) -> bytes | None:
    """Return the id of the job because of which this attempt ended; None: it ended by itself."""
    if attempt is None or attempt.reason not in MEMBER_REASONS or attempt.error is None:
        return None
    try:
        return parse_id(msgspec.json.decode(attempt.error.data, type=str))
    except (msgspec.MsgspecError, BadInput):  # a worker may report any reason and any error
        return None


def direct_cause(timeline: Timeline) -> bytes | None:
    """Return the id of the job because of which a job ended; None: it ended by itself, or has not ended."""
    last = timeline.attempts[-1] if timeline.attempts else None
    # The reason of an earlier attempt is not the reason of the end.
    is_final = timeline.job.state.is_ended and last is not None and last.ended_at_ms == timeline.job.ended_at_ms
    return blamed_member(last) if is_final else None


def trace_cause(job_id: bytes, known: Mapping[bytes, Timeline]) -> Timeline | None:
    """Return the job that caused the end of a job: the last one of the chain that is known. None: there is none."""
    seen = {job_id}
    cause: Timeline | None = None
    member = direct_cause(known[job_id]) if job_id in known else None
    while member is not None and member not in seen and member in known:
        cause = known[member]
        seen.add(member)
        member = direct_cause(cause)
    return cause
