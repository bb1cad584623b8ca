"""fire: due occurrences create their jobs, each of them once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.service.helpers import another, counts, new, put, read, take
from tests.service.schedules.schedule_builders import check, fire, now_ms, pass_time, scheduled
from tests.support.namespace import send_command
from windlass.core.errors import CrossPartition
from windlass.core.job import Blob
from windlass.core.limits.limit import LimitTable
from windlass.core.operations import Finish, Listing, WorkerInfo
from windlass.core.states import State
from windlass.service import Service
from windlass.store.commands import schedules as calls
from windlass.store.commands.command import Flow
from windlass.store.store import Store

HOUR_MS, MINUTE_MS = 3_600_000, 60_000


def planned(service: Service) -> list[int]:
    page = service.jobs(Listing(queue="q", state="queued", most=500)).wait()
    return [job.planned_at_ms or 0 for job in page.jobs]


def test_an_occurrence_makes_a_job_that_says_where_it_is_from(service: Service) -> None:
    status = service.schedule(scheduled("daily", every_ms=HOUR_MS, payload=Blob(b"7"), priority=4, tags=("t",))).wait()
    assert fire(service) == 0
    pass_time(service, HOUR_MS)
    assert fire(service) == 1
    (job,) = take(service)
    assert (job.schedule, job.planned_at_ms, job.run_at_ms) == ("daily", status.next_at_ms, status.next_at_ms)
    assert (job.payload, job.priority, job.tags) == (Blob(b"7"), 4, ("t",))
    after = service.schedule_of("daily").wait()
    assert (after.fired, after.last_job, after.last_planned_at_ms) == (1, job.id, status.next_at_ms)
    assert status.next_at_ms is not None
    assert after.next_at_ms == status.next_at_ms + HOUR_MS
    assert fire(service) == 0
    check(service)


def test_a_relative_expiry_counts_from_the_firing(service: Service) -> None:
    service.schedule(scheduled(expires_in_ms=5_000)).wait()
    pass_time(service, 1_000)
    fire(service)
    (job,) = take(service)
    assert job.expires_at_ms is not None
    assert 4_000 < job.expires_at_ms - job.created_at_ms <= 5_000


def test_a_cron_in_its_zone(service: Service) -> None:
    service.schedule(scheduled(cron="0 9 * * *", timezone="America/New_York", misfire="all")).wait()
    pass_time(service, 3 * 24 * HOUR_MS)
    assert fire(service) == 3
    hours = {datetime.fromtimestamp(at / 1000, UTC).hour for at in planned(service)}
    assert hours <= {13, 14}


@pytest.mark.parametrize(
    ("misfire", "expected", "missed"), [("all", [0, 1, 2, 3], 0), ("latest", [3], 3), ("none", [], 4)]
)
def test_missed_occurrences(service: Service, misfire: Any, expected: list[int], missed: int) -> None:
    first = service.schedule(scheduled(every_ms=HOUR_MS, misfire=misfire)).wait().next_at_ms
    assert first is not None
    pass_time(service, 4 * HOUR_MS + 10 * MINUTE_MS)
    assert fire(service) == len(expected)
    assert planned(service) == [first + slot * HOUR_MS for slot in expected]
    status = service.schedule_of("s").wait()
    assert (status.fired, status.missed, status.next_at_ms) == (len(expected), missed, first + 4 * HOUR_MS)


def test_one_that_is_in_time_makes_up_for_those_that_were_missed(service: Service) -> None:
    first = service.schedule(scheduled(every_ms=HOUR_MS, misfire="latest")).wait().next_at_ms
    assert first is not None
    pass_time(service, 4 * HOUR_MS + 10_000)
    assert fire(service) == 1
    assert planned(service) == [first + 3 * HOUR_MS]


def test_making_up_for_many_goes_step_by_step(service: Service) -> None:
    service.schedule(scheduled(every_ms=1_000, misfire="all")).wait()
    pass_time(service, 130_500)
    step = service.fire().wait()
    assert (step.done, step.next_at_ms) == (50, step.now_ms)
    assert fire(service) == 80
    instants = planned(service)
    assert len(set(instants)) == 130
    assert instants == sorted(instants)


def test_big_payloads_are_made_few_at_a_time(service: Service) -> None:
    service.schedule(scheduled(every_ms=100_000, misfire="all", payload=Blob(b"x" * 1_000_000))).wait()
    pass_time(service, 550_000)
    assert service.fire().wait().done == 2
    assert fire(service) == 3


def test_many_schedules_at_once(service: Service) -> None:
    for number in range(45):
        service.schedule(scheduled(f"s{number}", queue=f"q{number % 3}")).wait()
    pass_time(service, 1_500)
    assert fire(service) == 45
    assert {service.schedule_of(f"s{number}").wait().fired for number in range(45)} == {1}


def test_the_end(service: Service) -> None:
    until = now_ms(service) + 3_000
    service.schedule(scheduled(misfire="all", ends_at_ms=until)).wait()
    pass_time(service, 60_000)
    assert fire(service) in (2, 3)
    status = service.schedule_of("s").wait()
    assert (status.next_at_ms, status.is_paused) == (None, False)
    check(service)
    assert service.fire().wait().next_at_ms is None


# Overlap


def test_skip_while_one_has_not_ended(service: Service) -> None:
    service.schedule(scheduled(overlap="skip")).wait()
    pass_time(service, 1_000)
    assert fire(service) == 1
    for _ in range(2):
        pass_time(service, 1_000)
        assert fire(service) == 0
    (job,) = take(service)
    pass_time(service, 1_000)
    assert fire(service) == 0
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    pass_time(service, 1_000)
    assert fire(service) == 1
    status = service.schedule_of("s").wait()
    assert (status.fired, status.skipped) == (2, 3)
    check(service)


def test_replace_cancels_the_one_that_waits(service: Service) -> None:
    service.schedule(scheduled(overlap="replace")).wait()
    pass_time(service, 1_000)
    fire(service)
    first = service.schedule_of("s").wait().last_job
    pass_time(service, 1_000)
    assert fire(service) == 1
    assert first is not None
    timeline = service.job([first]).one().wait()
    assert (timeline.job.state, timeline.attempts[0].reason) == (State.CANCELLED, "replaced")
    assert counts(service) == {"queued": 1, "cancelled": 1}


def test_replace_asks_the_one_that_runs_to_stop(service: Service) -> None:
    service.register(b"w" * 16, WorkerInfo()).wait()
    service.schedule(scheduled(overlap="replace")).wait()
    pass_time(service, 1_000)
    fire(service)
    (job,) = take(service, worker=b"w" * 16)
    pass_time(service, 1_000)
    assert fire(service) == 1
    assert read(service, job.id).is_cancel_requested
    assert counts(service) == {"queued": 1, "running": 1}


def test_allow_lets_them_pile_up_and_a_later_skip_sees_them(service: Service) -> None:
    service.schedule(scheduled()).wait()
    for _ in range(25):
        pass_time(service, 1_000)
        assert fire(service) == 1
    check(service)
    service.schedule(scheduled(overlap="skip")).wait()
    pass_time(service, 1_000)
    assert fire(service) == 0


def test_remembers_the_last_jobs(service: Service) -> None:
    service.schedule(scheduled()).wait()
    assert service.schedule_of("s").wait().last_jobs == ()
    made: list[bytes | None] = []
    for _ in range(23):
        pass_time(service, 1_000)
        fire(service)
        made.append(service.schedule_of("s").wait().last_job)
    (status,) = service.schedules().wait()
    assert status.last_jobs == tuple(made[:-21:-1])


def test_a_unique_key_of_the_job_skips_too(service: Service) -> None:
    service.schedule(scheduled(unique="u")).wait()
    (other,) = put(service, new(unique="u"))
    pass_time(service, 1_000)
    assert fire(service) == 0
    status = service.schedule_of("s").wait()
    assert (status.fired, status.skipped, status.last_job) == (0, 1, None)
    assert counts(service) == {"queued": 1}
    service.delete([other.id]).one().wait()
    pass_time(service, 1_000)
    assert fire(service) == 1


def test_a_full_queue_misses_the_occurrence_and_goes_on(service: Service) -> None:
    service.configure("q", {"max_length": 1}).wait()
    put(service, new())
    service.schedule(scheduled()).wait()
    pass_time(service, 1_000)
    assert fire(service) == 0
    assert service.schedule_of("s").wait().missed == 1
    take(service)
    pass_time(service, 1_000)
    assert fire(service) == 1


# Once


def _flow(call: object) -> Flow[Any]:
    return (yield call)  # type: ignore[misc]


def test_the_second_with_the_same_occurrence_changes_nothing(service: Service) -> None:
    service.schedule(scheduled()).wait()
    pass_time(service, 1_000)
    found = service.store.run_sync(_flow(calls.due(0)))
    fires = [service._plan_firing(one, found.now_ms) for one in found.due]
    answers = [service.store.run_sync(_flow(calls.fire(fires, found.now_ms, LimitTable(), 0)))[0] for _ in range(2)]
    assert answers[0] == 1
    assert answers[1].code == "revision_conflict"
    assert counts(service) == {"queued": 1}


@pytest.mark.parametrize("change", ["pause", "edit", "remove", "resume"])
def test_a_change_between_looking_and_firing_counts(service: Service, change: str) -> None:
    service.schedule(scheduled()).wait()
    pass_time(service, 1_000)
    found = service.store.run_sync(_flow(calls.due(0)))
    fires = [service._plan_firing(one, found.now_ms) for one in found.due]
    if change == "edit":
        service.schedule(scheduled(payload=Blob(b"2"))).wait()
    elif change == "remove":
        service.unschedule("s").wait()
    else:
        service.pause_schedule("s").wait()
        if change == "resume":
            service.resume_schedule("s").wait()
    (answer,) = service.store.run_sync(_flow(calls.fire(fires, found.now_ms, LimitTable(), 0)))
    assert answer.code == ("unknown_schedule" if change == "remove" else "revision_conflict")
    assert counts(service) == {}
    if change == "edit":
        assert fire(service) == 1
        assert take(service)[0].payload == Blob(b"2")


@pytest.mark.anyio
async def test_ten_processes_fire_each_occurrence_once(service: Service, store: Store) -> None:
    others = [another(service) for _ in range(4)]
    async with store:
        for number in range(10):
            await service.schedule(scheduled(f"s{number}", misfire="all"))
        for one in (service, *others):
            one.store.clock_offset_ms += 20_500
        for _ in range(8):
            await asyncio.gather(*(one.fire() for one in (service, *others) for _ in range(2)))
        statuses = await service.schedules()
        assert [one.fired for one in statuses] == [20] * 10
        page = await service.jobs(Listing(queue="q", state="queued", most=500))
        made = [(job.schedule, job.planned_at_ms) for job in page.jobs]
        assert len(made) == len(set(made)) == 200
        for one in others:
            await one.store.close()


def test_a_schedule_that_cannot_be_computed_is_paused_and_the_others_go_on(service: Service) -> None:
    """Another version of the zone data may not know its zone."""
    service.schedule(scheduled("bad", cron="* * * * *", timezone="Europe/Berlin")).wait()
    service.schedule(scheduled("good", every_ms=90_000)).wait()
    key = f"{service.store.root(0)}:s:bad"
    definition = send_command(service.store, "HGET", key, "definition")
    send_command(service.store, "HSET", key, "definition", definition.replace(b"Europe/Berlin", b"Europe/Nirgen"))
    pass_time(service, 2 * MINUTE_MS)
    assert fire(service) == 1
    status = service.schedule_of("bad").wait()
    assert status.is_paused
    assert "Europe/Nirgen" in status.pause_reason


QUEUES = ("q", "r", "t", "u", "v")  # of three partitions, two at least


@pytest.fixture
def divided(divided_store: Callable[[int], Store]) -> Service:
    store = divided_store(3)
    assert len({store.partition_of_queue(queue) for queue in QUEUES}) > 1
    return Service(store)


def test_schedules_live_with_their_queues_and_are_found_by_name(divided: Service) -> None:
    service = divided
    for queue in QUEUES:
        service.schedule(scheduled(f"of {queue}", queue=queue)).wait()
    assert [one.schedule.name for one in service.schedules().wait()] == sorted(f"of {queue}" for queue in QUEUES)
    service.pause_schedule("of q").wait()
    service.unschedule("of u").wait()
    pass_time(service, 1_000)
    assert fire(service) == 3
    service.resume_schedule("of q").wait()
    pass_time(service, 1_000)
    assert fire(service) == 4
    assert service.run_schedule("of r").wait().status == "queued"
    for queue, expected in zip(QUEUES, (1, 3, 2, 0, 2), strict=True):
        assert counts(service, queue).get("queued", 0) == expected


def test_a_schedule_does_not_move_to_another_partition(divided: Service) -> None:
    service = divided
    other = next(
        one for one in QUEUES if service.store.partition_of_queue(one) != service.store.partition_of_queue("q")
    )
    service.schedule(scheduled()).wait()
    with pytest.raises(CrossPartition, match="remove it first"):
        service.schedule(scheduled(queue=other)).wait()
    assert service.schedule_of("s").wait().schedule.job.queue == "q"


def test_a_job_that_waits_for_others_is_made_like_any_other(service: Service) -> None:
    (first,) = put(service, new("r"))
    service.schedule(scheduled(overlap="skip", after=(first.id,))).wait()
    pass_time(service, 1_000)
    assert fire(service) == 1
    pass_time(service, 1_000)
    assert fire(service) == 0
    status = service.schedule_of("s").wait()
    assert (status.fired, status.skipped, status.missed) == (1, 1, 0)
    assert status.last_job is not None
    assert read(service, status.last_job).state is State.WAITING
    check(service)
