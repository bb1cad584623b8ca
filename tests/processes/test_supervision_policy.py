"""Rules of supervision: pauses before restarts, and steps of a stop."""

from __future__ import annotations

from windlass.pauses import Pauses
from windlass.processes.supervision_policy import RestartBackoff, StopOrder, graceful_stop

PAUSES = Pauses(0.5, 3.0)


def test_pauses_grow_with_each_quick_exit_up_to_the_longest() -> None:
    backoff = RestartBackoff(PAUSES, steady_s=60.0)
    assert [backoff.pause_after(1.0) for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert backoff.quick_exits == 5


def test_a_steady_run_makes_the_pauses_short_again() -> None:
    backoff = RestartBackoff(PAUSES, steady_s=60.0)
    for _ in range(4):
        backoff.pause_after(59.9)
    assert backoff.pause_after(60.0) == 0.5
    assert backoff.quick_exits == 0
    assert [backoff.pause_after(0.0) for _ in range(2)] == [0.5, 1.0]


def test_each_request_to_stop_takes_the_next_step_and_the_last_one_repeats() -> None:
    policy = graceful_stop(grace_s=30.0, unwind_s=10.0)
    steps = [policy.step(requests) for requests in (1, 2, 3, 4)]
    assert [step.order for step in steps] == [StopOrder.STOP, StopOrder.NOW, StopOrder.KILL, StopOrder.KILL]
    assert [step.patience_s for step in steps[:2]] == [40.0, 10.0]
