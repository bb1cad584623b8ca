"""LightJQ's constraints: matchers, rates with fractions, jobs at once; what is limited is passed over."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.lightjq.lightjq_client import QUEUE, Light, hold
from tests.dialects.sample_jobs import ABSENT
from windlass.background.scheduler import Scheduler
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.validation.limits import check_limit
from windlass.dialects.lightjq.constraints import RATE_MAX, RATE_MIN, rate_per_period
from windlass.service import Service
from windlass.store.store import Store

on_valkey = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


@given(st.floats(RATE_MIN, RATE_MAX))
def test_a_rate_is_whole_numbers_of_the_engine_without_losing_its_fraction(rate: float) -> None:
    jobs, per_ms = rate_per_period(rate)
    check_limit(Limit(name="n", matches=Matcher(), rate=jobs, per_ms=per_ms))
    assert math.isclose(jobs * 1000 / per_ms, rate, rel_tol=1e-6)


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(2, (1, 500)), (1, (1, 1000)), (0.5, (1, 2000)), (2.5, (1, 400)), (1 / 3, (1, 3000)), (0.1, (1, 10_000))],
)
def test_plain_rates_are_exact(rate: float, expected: tuple[int, int]) -> None:
    assert rate_per_period(rate) == expected


async def names(service: Service, worker: str, most: int = 10) -> list[str]:
    """Of the jobs that may start now."""
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
    async def test_a_constraint_comes_is_listed_and_goes(self, light: Light) -> None:
        assert (await light("GET", "/constraint")).body == []
        first = await light.constrain(
            matcher={"name": "a", "argument": {"user.id": 7, "vip": True}}, rate=2.5, capacity=4, per="city"
        )
        second = await light.constrain(max_running=0, unknown="field")
        listed = {one["constraint_id"]: one for one in (await light("GET", "/constraint")).body}
        assert listed[first] == {
            "constraint_id": first, "matcher": {"name": "a", "argument": {"user.id": 7, "vip": True}}, "rate": 2.5,
            "capacity": 4, "max_running": None, "per": "city", "levels": [],
        }  # fmt: skip
        [level] = listed[second].pop("levels")
        assert (level["per"], level["running"], level["room"]) == (None, 0, 0)
        assert listed[second] == {
            "constraint_id": second, "matcher": {"name": None, "argument": {}}, "rate": None, "capacity": None,
            "max_running": 0, "per": None,
        }  # fmt: skip
        assert (await light("DELETE", f"/constraint/{first}")).status == 204
        for gone in (first, ABSENT, "nonsense", "%2E%2E", "x" * 300):
            said = await light("DELETE", f"/constraint/{gone}")
            assert (said.status, said.error) == (404, "unknown_limit")
        assert [one["constraint_id"] for one in (await light("GET", "/constraint")).body] == [second]

    async def test_limits_that_were_set_elsewhere_are_not_constraints(self, light: Light, service: Service) -> None:
        await service.limit(Limit(name="mine", matches=Matcher(queue=QUEUE), running=1))
        assert (await light("GET", "/constraint")).body == []
        assert (await light("DELETE", "/constraint/mine")).status == 404
        assert [one.limit.name for one in await service.limits()] == ["mine"]

    async def test_what_is_wrong_with_a_constraint_is_said(self, light: Light, service: Service) -> None:
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
            said = await light("POST", "/constraint", body)
            assert (said.status, said.error) == (400, "bad_input"), (body, said)
        assert await service.limits() == []

    async def test_jobs_at_once(self, light: Light, service: Service) -> None:
        worker = await light.register()
        await light.constrain(matcher={"name": "a"}, max_running=1)
        first = await light.push("a", priority=-5)
        for name in ("a", "b", "a", "b"):
            await light.push(name)
        assert await names(service, worker) == ["a", "b", "b"]  # what is limited blocks nobody
        [constraint] = (await light("GET", "/constraint")).body
        [level] = constraint["levels"]
        assert (level["running"], level["room"]) == (1, 0)
        await light.succeed(worker, first)
        assert await names(service, worker) == ["a"]

    async def test_a_bucket_starts_full_and_fills_by_its_rate(
        self, light: Light, service: Service, store: Store
    ) -> None:
        worker = await light.register()
        await light.constrain(matcher={"name": "fast"}, rate=2, capacity=2)
        await light.constrain(matcher={"name": "slow"}, rate=0.01, capacity=3)
        for name in ("fast", "slow"):
            for _ in range(10):
                await light.push(name)
        found = await names(service, worker, 3)
        assert found.count("fast") >= 2
        slow = (await names(service, worker)).count("slow") + found.count("slow")
        assert slow == 3
        store.clock_offset_ms += 150_000  # one token and a half
        assert (await names(service, worker)).count("slow") == 1
        store.clock_offset_ms += 50_000  # the other half
        assert (await names(service, worker)).count("slow") == 1

    async def test_a_job_needs_room_under_every_constraint_at_once(self, light: Light, service: Service) -> None:
        worker = await light.register()
        await light.constrain(matcher={"name": "a"}, max_running=2)
        await light.constrain(matcher={"argument": {"vip": False}}, max_running=1)
        for vip in (False, False, True, True):
            await light.push("a", {"vip": vip})
        jobs = [await hold(service, worker) for _ in range(3)]
        assert [job is not None for job in jobs] == [True, True, False]
        levels = {one["max_running"]: one["levels"][0] for one in (await light("GET", "/constraint")).body}
        assert [levels[cap]["running"] for cap in (2, 1)] == [2, 1]

    async def test_each_value_of_a_field_for_itself(self, light: Light, service: Service) -> None:
        worker = await light.register()
        constraint = await light.constrain(max_running=1, per="who")
        for who in ("x", "x", "y", b"y", 5, None, None, "y", b"y", {"deep": [1]}, {1: {None: 2}}):
            await light.push("n", {"who": who})
        await light.push("n")
        assert len(await names(service, worker, 20)) == 7
        [listed] = (await light("GET", "/constraint")).body
        assert '"x"' in {one["per"] for one in listed["levels"] if one["running"] == 1}
        await light("DELETE", f"/constraint/{constraint}")
        assert len(await names(service, worker, 20)) == 5

    async def test_a_constraint_reaches_jobs_that_wait_and_counts_those_that_run(
        self, light: Light, service: Service
    ) -> None:
        worker = await light.register()
        for _ in range(3):
            await light.push("a")
        assert await names(service, worker, 1) == ["a"]
        constraint = await light.constrain(matcher={"name": "a"}, max_running=1)
        assert await names(service, worker) == []
        await light("DELETE", f"/constraint/{constraint}")
        assert await names(service, worker) == ["a", "a"]

    async def test_retries_need_tokens_too(self, light: Light, service: Service, store: Store) -> None:
        worker = await light.register()
        await light.constrain(matcher={"name": "a"}, rate=0.001, capacity=2)
        job_id = await light.push("a")
        for _ in range(2):
            assert await names(service, worker, 1) == ["a"]
            await light.fail(worker, job_id)
            store.clock_offset_ms += 3_000
            await Scheduler().tick(service)
        assert await names(service, worker) == []
        assert (await light.status(job_id))["status"] == "retrying"
        store.clock_offset_ms += 1_000_000
        assert await names(service, worker) == ["a"]

    async def test_jobs_of_other_queues_are_none_of_its_business(self, light: Light, service: Service) -> None:
        await light.constrain(max_running=0)
        [state] = await service.limits()
        assert state.limit.matches.queue == QUEUE
        assert state.limit.name.startswith("lightjq-")
