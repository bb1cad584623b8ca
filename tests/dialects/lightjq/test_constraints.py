"""LightJQ constraints: matchers, rates with fractions, running jobs; limited jobs are skipped."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.lightjq.lightjq_client import QUEUE, LightJqClient, hold
from tests.dialects.sample_jobs import ABSENT
from windlass.background.scheduler import Scheduler
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.validation.limits import check_limit
from windlass.dialects.lightjq.constraints import RATE_MAX, RATE_MIN, rate_per_period
from windlass.service import Service
from windlass.store.store import Store

on_valkey = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


@given(st.floats(RATE_MIN, RATE_MAX))
def test_a_rate_with_a_fraction_is_converted_to_whole_numbers(rate: float) -> None:
    jobs, per_ms = rate_per_period(rate)
    check_limit(Limit(name="n", matches=Matcher(), rate=jobs, per_ms=per_ms))
    assert math.isclose(jobs * 1000 / per_ms, rate, rel_tol=1e-6)


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(2, (1, 500)), (1, (1, 1000)), (0.5, (1, 2000)), (2.5, (1, 400)), (1 / 3, (1, 3000)), (0.1, (1, 10_000))],
)
def test_common_rates_are_exact(rate: float, expected: tuple[int, int]) -> None:
    assert rate_per_period(rate) == expected


async def names(service: Service, worker: str, most: int = 10) -> list[str]:
    """Return the names of the jobs that may start now."""
    found = []
    for _ in range(most):
        job = await hold(service, worker)
        if job is None:
            break
        found.append(job.name)
    return found


@pytest.mark.anyio
@on_valkey
class TestConstraints:
    async def test_a_constraint_is_set_listed_and_removed(self, lightjq: LightJqClient) -> None:
        assert (await lightjq("GET", "/constraint")).body == []
        first = await lightjq.constrain(
            matcher={"name": "a", "argument": {"user.id": 7, "vip": True}}, rate=2.5, capacity=4, per="city"
        )
        second = await lightjq.constrain(max_running=0, unknown="field")
        listed = {one["constraint_id"]: one for one in (await lightjq("GET", "/constraint")).body}
        assert listed[first] == {
            "constraint_id": first, "name": None, "queues": [QUEUE], "rate": 2.5, "capacity": 4, "max_running": None,
            "matcher": {"name": "a", "argument": {"user.id": 7, "vip": True}}, "per": "city", "levels": [],
        }  # fmt: skip
        [level] = listed[second].pop("levels")
        assert (level["per"], level["running"], level["room"]) == (None, 0, 0)
        assert listed[second] == {
            "constraint_id": second, "name": None, "queues": [QUEUE], "matcher": {"name": None, "argument": {}},
            "rate": None, "capacity": None, "max_running": 0, "per": None,
        }  # fmt: skip
        assert (await lightjq("DELETE", f"/constraint/{first}")).status == 204
        for gone in (first, ABSENT, "nonsense", "%2E%2E", "x" * 300):
            response = await lightjq("DELETE", f"/constraint/{gone}")
            assert (response.status, response.error) == (404, "unknown_limit")
        assert [one["constraint_id"] for one in (await lightjq("GET", "/constraint")).body] == [second]

    async def test_limits_of_other_dialects_are_not_constraints(self, lightjq: LightJqClient, service: Service) -> None:
        await service.limit(Limit(name="mine", matches=Matcher(queue=QUEUE), running=1))
        assert (await lightjq("GET", "/constraint")).body == []
        assert (await lightjq("DELETE", "/constraint/mine")).status == 404
        assert [one.limit.name for one in await service.limits()] == ["mine"]

    async def test_invalid_constraints_are_refused(self, lightjq: LightJqClient, service: Service) -> None:
        wrong: list[Any] = [
            None, [], {}, {"matcher": {}}, {"rate": 1}, {"capacity": 1}, {"rate": 1, "capacity": 1, "max_running": 1},
            {"rate": 0, "capacity": 1}, {"rate": -1, "capacity": 1}, {"rate": "1", "capacity": 1},
            {"rate": math.nan, "capacity": 1}, {"rate": math.inf, "capacity": 1}, {"rate": 1e-300, "capacity": 1},
            {"rate": 1, "capacity": 0}, {"rate": 1, "capacity": 1.5}, {"rate": 1, "capacity": 2**32},
            {"max_running": -1}, {"max_running": "1"}, {"max_running": True}, {"max_running": 1, "per": 5},
            {"max_running": 1, "per": ""}, {"max_running": 1, "per": "x" * 256}, {"max_running": 1, "matcher": "n"},
            {"max_running": 1, "matcher": {"nmae": "n"}}, {"max_running": 1, "matcher": {"name": 5}},
            {"max_running": 1, "matcher": {"argument": {"a": [1]}}},
            {"max_running": 1, "matcher": {"argument": {"a": b"x"}}},
            {"max_running": 1, "matcher": {"argument": {"a": 2**64 - 1}}},
            {"max_running": 1, "matcher": {"argument": {"": 1}}},
            {"max_running": 1, "matcher": {"argument": {5: 1}}},
            {"max_running": 1, "matcher": {"argument": {"a": math.nan}}},
            {"max_running": 1, "matcher": {"argument": {str(n): n for n in range(17)}}},
        ]  # fmt: skip
        for body in wrong:
            response = await lightjq("POST", "/constraint", body)
            assert (response.status, response.error) == (400, "bad_input"), (body, response)
        assert await service.limits() == []

    async def test_jobs_at_once(self, lightjq: LightJqClient, service: Service) -> None:
        worker = await lightjq.register()
        await lightjq.constrain(matcher={"name": "a"}, max_running=1)
        first = await lightjq.push("a", priority=-5)
        for name in ("a", "b", "a", "b"):
            await lightjq.push(name)
        assert await names(service, worker) == ["a", "b", "b"]  # what is limited blocks nobody
        [constraint] = (await lightjq("GET", "/constraint")).body
        [level] = constraint["levels"]
        assert (level["running"], level["room"]) == (1, 0)
        await lightjq.succeed(worker, first)
        assert await names(service, worker) == ["a"]

    async def test_a_bucket_starts_full_and_fills_by_its_rate(
        self, lightjq: LightJqClient, service: Service, store: Store
    ) -> None:
        worker = await lightjq.register()
        await lightjq.constrain(matcher={"name": "fast"}, rate=2, capacity=2)
        await lightjq.constrain(matcher={"name": "slow"}, rate=0.01, capacity=3)
        for name in ("fast", "slow"):
            for _ in range(10):
                await lightjq.push(name)
        found = await names(service, worker, 3)
        assert found.count("fast") >= 2
        slow = (await names(service, worker)).count("slow") + found.count("slow")
        assert slow == 3
        store.clock_offset_ms += 150_000  # one token and a half
        assert (await names(service, worker)).count("slow") == 1
        store.clock_offset_ms += 50_000  # the other half
        assert (await names(service, worker)).count("slow") == 1

    async def test_a_job_needs_room_under_every_constraint_at_once(
        self, lightjq: LightJqClient, service: Service
    ) -> None:
        worker = await lightjq.register()
        await lightjq.constrain(matcher={"name": "a"}, max_running=2)
        await lightjq.constrain(matcher={"argument": {"vip": False}}, max_running=1)
        for vip in (False, False, True, True):
            await lightjq.push("a", {"vip": vip})
        jobs = [await hold(service, worker) for _ in range(3)]
        assert [job is not None for job in jobs] == [True, True, False]
        levels = {one["max_running"]: one["levels"][0] for one in (await lightjq("GET", "/constraint")).body}
        assert [levels[cap]["running"] for cap in (2, 1)] == [2, 1]

    async def test_each_value_of_a_field_has_its_own_limit(self, lightjq: LightJqClient, service: Service) -> None:
        worker = await lightjq.register()
        constraint = await lightjq.constrain(max_running=1, per="who")
        for who in ("x", "x", "y", b"y", 5, None, None, "y", b"y", {"deep": [1]}, {1: {None: 2}}):
            await lightjq.push("n", {"who": who})
        await lightjq.push("n")
        assert len(await names(service, worker, 20)) == 7
        [listed] = (await lightjq("GET", "/constraint")).body
        assert '"x"' in {one["per"] for one in listed["levels"] if one["running"] == 1}
        await lightjq("DELETE", f"/constraint/{constraint}")
        assert len(await names(service, worker, 20)) == 5

    async def test_a_constraint_applies_to_waiting_jobs_and_counts_running_jobs(
        self, lightjq: LightJqClient, service: Service
    ) -> None:
        worker = await lightjq.register()
        for _ in range(3):
            await lightjq.push("a")
        assert await names(service, worker, 1) == ["a"]
        constraint = await lightjq.constrain(matcher={"name": "a"}, max_running=1)
        assert await names(service, worker) == []
        await lightjq("DELETE", f"/constraint/{constraint}")
        assert await names(service, worker) == ["a", "a"]

    async def test_retries_need_tokens_too(self, lightjq: LightJqClient, service: Service, store: Store) -> None:
        worker = await lightjq.register()
        await lightjq.constrain(matcher={"name": "a"}, rate=0.001, capacity=2)
        job_id = await lightjq.push("a")
        for _ in range(2):
            assert await names(service, worker, 1) == ["a"]
            await lightjq.fail(worker, job_id)
            store.clock_offset_ms += 3_000
            await Scheduler().tick(service)
        assert await names(service, worker) == []
        assert (await lightjq.status(job_id))["status"] == "retrying"
        store.clock_offset_ms += 1_000_000
        assert await names(service, worker) == ["a"]

    async def test_jobs_of_other_queues_are_not_limited(self, lightjq: LightJqClient, service: Service) -> None:
        await lightjq.constrain(max_running=0)
        [state] = await service.limits()
        assert state.limit.matches.queue == QUEUE
        assert state.limit.name.startswith("lightjq-")
