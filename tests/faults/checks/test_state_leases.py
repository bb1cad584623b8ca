"""Double leases seen from the states that jobs enter, where workers learn nothing of their leases."""

from __future__ import annotations

import pytest

from faults.checks import FinalState, Guarantees, check_entries
from faults.history import Entry, JobFacts

JOB, OTHER = "1" * 32, "2" * 32


def findings(*states: str, guarantees: Guarantees | None = None) -> list[str]:
    """Judge the states that a job enters one after the other; `missed`: events may be missing."""
    entries = []
    for at, state in enumerate(states, 1):
        for number, job in enumerate((JOB, OTHER) if at == 1 else (JOB,)):
            facts = JobFacts(outcome=state) if state == "missed" else JobFacts(id=job, outcome=state)
            number += at * 10
            entries.append(Entry(at_ns=number, client="watch", n=number, call="state", phase="ok", jobs=(facts,)))
    return [finding.rule for finding in check_entries(entries, FinalState(), guarantees or Guarantees())]


@pytest.mark.parametrize(
    "states",
    [
        ("queued", "dispatched", "running", "finished"),
        ("queued", "dispatched", "dispatched", "running"),  # the first worker refused it
        ("running", "queued", "running", "scheduled", "running"),
        ("running", "missed", "running"),
    ],
)
def test_each_lease_ends_before_the_next(states: tuple[str, ...]) -> None:
    assert findings(*states) == []


@pytest.mark.parametrize("second", ["running", "dispatched"])
def test_a_running_job_that_is_given_again_is_found(second: str) -> None:
    assert findings("queued", "dispatched", "running", second) == ["double lease"]
    relaxed = Guarantees(may_lose_reports=True, lost_allowed="any")
    assert findings("queued", "dispatched", "running", second, guarantees=relaxed) == []
