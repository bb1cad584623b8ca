"""Fair share: lanes of equal priority take turns by weight, whatever their length."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.helpers import new, put, take
from tests.support.engine_process import EngineProcess
from windlass.core.errors import BadInput
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Finish
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

_namespaces = itertools.count(1)


def fair(service: Service, **more: bool | int) -> None:
    service.configure("q", {"fair_share": True, **more}).wait()


def lanes_of(jobs: list[object]) -> str:
    return "".join(job.lane or "-" for job in jobs)  # type: ignore[attr-defined]


def one_by_one(service: Service, count: int) -> str:
    return lanes_of([job for _ in range(count) for job in take(service)])


def test_a_long_lane_does_not_stop_a_short_one(service: Service) -> None:
    fair(service)
    put(service, *(new(lane="a") for _ in range(20)), *(new(lane="b") for _ in range(3)))
    assert one_by_one(service, 7) == "abababa"


def test_a_batch_is_as_fair_as_single_takes(service: Service) -> None:
    fair(service)
    put(service, *(new(lane=lane) for lane in "aaaaabbbcc"))
    assert lanes_of(take(service, most=10)) == "abcabcabaa"


def test_the_default_lane_takes_its_turn(service: Service) -> None:
    fair(service)
    put(service, *(new() for _ in range(5)), *(new(lane="a") for _ in range(5)))
    assert Counter(one_by_one(service, 6)) == {"-": 3, "a": 3}


def test_shares_follow_the_weights(service: Service) -> None:
    fair(service)
    assert service.set_weights("q", {"a": 3, "c": 2}).wait() == {"a": 3, "c": 2}
    put(service, *(new(lane=lane) for lane in "abc" for _ in range(60)))
    assert Counter(one_by_one(service, 60)) == {"a": 30, "c": 20, "b": 10}
    service.set_weights("q", {"a": 1, "c": 1}).wait()
    assert service.set_weights("q", {}).wait() == {}
    after = Counter(one_by_one(service, 30))
    assert max(after.values()) - min(after.values()) <= 2


def test_who_was_idle_gets_no_credit(service: Service) -> None:
    fair(service)
    put(service, *(new(lane="a") for _ in range(30)))
    one_by_one(service, 20)
    put(service, *(new(lane="b") for _ in range(20)))
    counted = Counter(one_by_one(service, 10))
    assert counted == {"a": 5, "b": 5}


def test_priority_comes_before_share(service: Service) -> None:
    fair(service)
    put(service, *(new(lane="a", priority=-1) for _ in range(3)), *(new(lane="b") for _ in range(3)))
    assert one_by_one(service, 6) == "aaabbb"


def test_a_tenant_with_many_names_has_one_share(service: Service) -> None:
    fair(service, name_lanes=True)
    put(service, *(new(lane="a", name=f"n{at}") for at in range(30)), *(new(lane="b") for _ in range(10)))
    assert Counter(one_by_one(service, 10)) == {"a": 5, "b": 5}


def test_shares_hold_under_a_common_limit(service: Service) -> None:
    fair(service)
    service.limit(Limit(name="l", matches=Matcher(queue="q"), running=1)).wait()
    put(service, *(new(lane="a") for _ in range(40)), *(new(lane=lane) for lane in "bcdefgh" for _ in range(4)))
    seen = ""
    for _ in range(32):
        (job,) = take(service, most=3)
        seen += job.lane
        service.finish([Finish(job.id, job.lease_token)]).wait()
    assert Counter(seen) == dict.fromkeys("abcdefgh", 4)


def test_it_can_be_switched_on_and_off_while_jobs_wait(service: Service) -> None:
    put(service, *(new(lane=lane) for lane in "aaaabbbb"))
    fair(service)
    assert one_by_one(service, 4) in ("abab", "baba")
    service.configure("q", {"fair_share": None}).wait()
    assert one_by_one(service, 4) == "aabb"


@pytest.mark.parametrize("weights", [{"a": 0}, {"a": 101}, {"a": 1.5}, {"a\n": 1}, [("a", 1)]])
def test_a_wrong_weight_is_refused(service: Service, weights: object) -> None:
    with pytest.raises(BadInput):
        service.set_weights("q", weights)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def fast_engine() -> Iterator[EngineProcess]:
    with EngineProcess("valkey", config=("--save", "", "--appendonly", "no")) as process:
        yield process


@given(
    weights=st.lists(st.integers(1, 6), min_size=2, max_size=5),
    batches=st.lists(st.integers(1, 7), min_size=5, max_size=20),
    names=st.booleans(),
    limited=st.booleans(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_share_is_ever_further_off_than_one_turn(
    fast_engine: EngineProcess, weights: list[int], batches: list[int], names: bool, limited: bool
) -> None:
    """While all lanes have jobs, what two of them got, by weight, differs by one job of each at most."""
    namespace = f"fair{next(_namespaces)}"
    service = Service(Store(parse_url(fast_engine.unix_url), namespace=namespace, is_test=True))
    try:
        fair(service, name_lanes=names)
        service.set_weights("q", {f"{lane}": weight for lane, weight in enumerate(weights)}).wait()
        if limited:
            service.limit(Limit(name="l", matches=Matcher(queue="q"), running=1000, key="k")).wait()
        total = sum(batches)
        jobs = [new(lane=f"{lane}", name=f"n{at % 3}") for at in range(total) for lane in range(len(weights))]
        put(service, *jobs)
        got = Counter({f"{lane}": 0 for lane in range(len(weights))})
        for most in batches:
            got.update(job.lane for job in take(service, most=most))
            shares = [(got[f"{lane}"] / weight, 1 / weight) for lane, weight in enumerate(weights)]
            for (one, turn), (other, other_turn) in itertools.combinations(shares, 2):
                assert abs(one - other) <= turn + other_turn + 1e-9, f"{got} of {weights}"
    finally:
        service.store.close_sync()
