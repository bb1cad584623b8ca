"""promote: due scheduled jobs, in bounded steps."""

from __future__ import annotations

from tests.service.helpers import counts, new, put, take
from windlass.service import Service


def test_a_job_becomes_queued_when_its_time_has_come(service: Service) -> None:
    (job,) = put(service, new(delay_ms=10_000))
    due_at_ms = service.job([job.id]).one().wait().job.run_at_ms
    early = service.promote().wait()
    assert (early.done, early.next_at_ms) == (0, due_at_ms)
    service.store.clock_offset_ms += 10_000
    late = service.promote().wait()
    assert (late.done, late.next_at_ms) == (1, None)
    assert counts(service) == {"queued": 1}


def test_nothing_is_due(service: Service) -> None:
    step = service.promote().wait()
    assert (step.done, step.next_at_ms) == (0, None)


def test_a_later_job_does_not_hide_an_earlier_one_that_comes_after_it(service: Service) -> None:
    late, early = put(service, new(delay_ms=60_000), new(delay_ms=10_000))
    service.store.clock_offset_ms += 11_000
    assert service.promote().wait().done == 1
    assert take(service, lease_ms=3_600_000)[0].id == early.id
    service.store.clock_offset_ms += 50_000
    assert service.promote().wait().done == 1
    assert take(service)[0].id == late.id


def test_order_is_by_priority_then_time(service: Service) -> None:
    delays = ((1_000, 0), (3_000, -1), (2_000, 0), (1_500, 0))
    put(service, *(new(delay_ms=delay_ms, priority=priority, name=str(delay_ms)) for delay_ms, priority in delays))
    service.store.clock_offset_ms += 5_000
    service.promote().wait()
    assert [job.name for job in take(service, most=4)] == ["3000", "1000", "1500", "2000"]


def test_five_thousand_due_jobs_are_promoted_in_steps(service: Service) -> None:
    jobs = put(service, *(new(delay_ms=3_600_000) for _ in range(5_000)))
    service.store.clock_offset_ms += 7_200_000
    steps = 0
    total = 0
    while (step := service.promote().wait()).done:
        steps += 1
        total += step.done
        assert step.done <= 200
        assert counts(service) == {
            key: value for key, value in (("queued", total), ("scheduled", 5_000 - total)) if value
        }
    assert (steps, total, step.next_at_ms) == (25, 5_000, None)
    assert [job.id for job in take(service, most=1_000)] == [job.id for job in jobs[:1_000]]


def test_a_taker_needs_no_scheduler(service: Service) -> None:
    put(service, *(new(delay_ms=3_600_000) for _ in range(300)))
    service.store.clock_offset_ms += 7_200_000
    assert len(take(service, most=300)) + len(take(service, most=300)) == 300


def test_many_queues_in_one_step(service: Service) -> None:
    put(service, *(new(queue=f"q{number}", delay_ms=3_600_000) for number in range(120)))
    service.store.clock_offset_ms += 7_200_000
    assert [service.promote().wait().done for _ in range(4)] == [50, 50, 20, 0]


def test_a_deleted_job_leaves_a_timer_that_is_set_right(service: Service) -> None:
    first, _ = put(service, new(delay_ms=1_000), new(delay_ms=60_000))
    service.delete([first.id]).one().wait()
    service.store.clock_offset_ms += 2_000
    step = service.promote().wait()
    assert step.done == 0
    assert step.next_at_ms == service.stats(["q"]).wait()[0].next_due_at_ms


def test_jobs_with_lanes_and_names_go_to_their_lanes(service: Service) -> None:
    from windlass.core.operations import Filter

    service.configure("q", {"name_lanes": True}).wait()
    put(service, new(name="a", delay_ms=1_000), new(name="b", delay_ms=1_000))
    service.store.clock_offset_ms += 2_000
    service.promote().wait()
    assert [job.name for job in take(service, most=5, wants=Filter(glob="b*"))] == ["b"]
