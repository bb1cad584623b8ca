"""pause and resume of a queue, a lane or a name: running jobs continue, and waiting jobs are taken at once
afterwards."""

from __future__ import annotations

import asyncio

import pytest

from tests.service.helpers import new, put, take
from windlass.core.errors import BadInput, NamesNeedLanes
from windlass.core.operations import Filter, Finish, LeaseRef, Take
from windlass.service import Service
from windlass.store.store import Store


def test_nothing_is_taken_from_a_paused_queue(service: Service) -> None:
    put(service, new(), new())
    (running,) = take(service)
    assert service.pause("q", reason="deploy").wait() is True
    assert take(service) == []
    assert service.finish([Finish(running.id, running.lease_token)]).wait() == [None]
    assert service.resume("q").wait() is True
    assert len(take(service)) == 1


def test_a_pause_says_since_when_and_why(service: Service) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    service.pause("q", reason="deploy").wait()
    service.pause("q", lane="acme", reason="unpaid").wait()
    service.pause("q", name="mail").wait()
    whole, mail, acme = service.pauses("q").wait()
    assert (whole.lane, whole.name, whole.reason) == ("", "", "deploy")
    assert (mail.name, mail.reason) == ("mail", "")
    assert (acme.lane, acme.reason) == ("acme", "unpaid")
    assert whole.since_ms > 1_700_000_000_000
    (stats,) = service.stats(["q"]).wait()
    assert stats.is_paused


def test_pausing_twice_and_resuming_twice(service: Service) -> None:
    assert service.pause("q", reason="a").wait() is True
    assert service.pause("q", reason="b").wait() is False
    assert [one.reason for one in service.pauses("q").wait()] == ["b"]
    assert service.resume("q").wait() is True
    assert service.resume("q").wait() is False


def test_a_paused_lane_blocks_no_other(service: Service) -> None:
    put(service, new(lane="a"), new(lane="b"), new(), new(lane="a"))
    service.pause("q", lane="a").wait()
    assert [job.lane for job in take(service, most=9)] == ["b", ""]
    service.resume("q", lane="a").wait()
    assert [job.lane for job in take(service, most=9)] == ["a", "a"]


def test_a_paused_name_blocks_no_other(service: Service) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    put(service, *(new(name=name, lane=lane) for lane in "xyzuvw" for name in ("mail", "sms")))
    service.pause("q", name="mail").wait()
    assert {job.name for job in take(service, most=99)} == {"sms"}
    assert take(service, wants=Filter(only=("mail",))) == []
    service.resume("q", name="mail").wait()
    assert len(take(service, most=99, wants=Filter(only=("mail",)))) == 6


def test_a_name_can_be_paused_only_where_there_are_names(service: Service) -> None:
    with pytest.raises(NamesNeedLanes):
        service.pause("q", name="mail").wait()


@pytest.mark.parametrize("wrong", [{"lane": "a", "name": "b"}, {"lane": 7}, {"name": "\n"}, {"reason": 1}])
def test_a_wrong_pause_is_refused(service: Service, wrong: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        service.pause("q", **wrong)  # type: ignore[arg-type]


@pytest.mark.anyio
@pytest.mark.parametrize("what", [{}, {"lane": "a"}, {"name": "n"}])
async def test_a_waiting_taker_is_woken_by_resume(store: Store, what: dict[str, str]) -> None:
    service = Service(store)
    async with store:
        await service.configure("q", {"name_lanes": True})
        await service.pause("q", **what)
        waiting = asyncio.ensure_future(_take(service))
        await asyncio.sleep(0.02)
        await service.enqueue([new(lane="a")])
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await service.resume("q", **what)
        async with asyncio.timeout(5):
            assert len((await waiting).jobs) == 1


async def _take(service: Service) -> object:
    return await service.take(Take(queues=("q",), wait_ms=20_000))


def test_scheduled_jobs_come_due_in_a_paused_queue_and_wait(service: Service) -> None:
    put(service, new(delay_ms=1000))
    service.pause("q").wait()
    service.store.clock_offset_ms += 1000
    assert take(service) == []
    service.resume("q").wait()
    assert len(take(service)) == 1


def test_a_pause_takes_no_lease_away(service: Service) -> None:
    put(service, new(lane="a", retake=True, lease_ms=1_000))
    (job,) = take(service)
    service.pause("q", lane="a").wait()
    service.store.clock_offset_ms += 1_000
    assert take(service) == []
    (answer,) = service.extend([LeaseRef(job.id, job.lease_token)]).wait()
    assert getattr(answer, "code", None) is None
