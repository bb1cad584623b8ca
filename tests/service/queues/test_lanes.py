"""lanes and holders: waiting jobs by lane with the reason, and running jobs under a limit."""

from __future__ import annotations

import json

import pytest

from tests.service.helpers import new, put, take
from windlass.core.errors import BadInput, UnknownLimit
from windlass.core.job import Blob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.queue import HeldUp, Lane
from windlass.service import Service


def by_customer(customer: str) -> Blob:
    return Blob(json.dumps({"customer": customer}).encode())


def lanes(service: Service, queue: str = "q", most: int = 100) -> list[Lane]:
    found: list[Lane] = []
    cursor = ""
    while True:
        page = service.lanes(queue, most=most, cursor=cursor).wait()
        assert len(page.lanes) <= most + 1
        found += page.lanes
        cursor = page.cursor
        if not cursor:
            return found


@pytest.mark.parametrize("most", [1, 2, 100])
def test_lanes_are_listed_with_their_waiting_jobs(service: Service, most: int) -> None:
    put(service, new(), new(lane="b"), new(lane="a"), new(lane="a"))
    service.store.clock_offset_ms += 5_000
    put(service, new(lane="c", hidden=True))
    found = lanes(service, most=most)
    assert [(one.lane, one.queued, one.is_hidden) for one in found] == [
        ("", 1, False), ("c", 1, True), ("a", 2, False), ("b", 1, False),
    ]  # fmt: skip
    assert found[2].oldest_age_ms >= 5_000 > found[1].oldest_age_ms
    assert all(one.held_by is None and one.limits == () for one in found)
    assert lanes(service, "none") == []


def test_lanes_of_names(service: Service) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    put(service, new(name="send", lane="a"), new(name="make"))
    assert sorted((one.lane, one.name) for one in lanes(service)) == [("", "make"), ("a", "send")]


def test_lanes_show_what_blocks_them(service: Service) -> None:
    service.limit(Limit(name="per customer", matches=Matcher(queue="q"), running=1, key="customer")).wait()
    put(service, *(new(payload=by_customer(one)) for one in ("x", "x", "y")), new(lane="off", payload=by_customer("z")))
    service.pause("q", lane="off").wait()
    assert len(take(service, most=9)) == 2
    found = {one.limits[0]: one for one in lanes(service)}
    assert found['per customer:"x"'].held_by == HeldUp(limit="per customer", key='"x"')
    assert found['per customer:"z"'].held_by == HeldUp(pause="lane")
    assert len(found) == 2


def test_lanes_show_a_limit_with_caps_per_key(service: Service) -> None:
    service.limit(Limit(name="each", matches=Matcher(queue="q"), running=1, key="customer", own_caps=True)).wait()
    put(service, *(new(payload=by_customer("a:b=c")) for _ in range(2)))
    assert len(take(service, most=9)) == 1
    (lane,) = lanes(service)
    assert lane.limits == ('each:"a:b=c"',)
    assert lane.held_by == HeldUp(limit="each", key='"a:b=c"')


def test_who_runs_under_a_limit(service: Service) -> None:
    service.limit(Limit(name="all", matches=Matcher(queue="q"), running=9)).wait()
    service.limit(Limit(name="each", matches=Matcher(queue="q"), running=2, key="customer")).wait()
    put(service, *(new(payload=by_customer(one)) for one in ("x", "x", "y")))
    jobs = []
    for _ in range(3):
        jobs += take(service)
        service.store.clock_offset_ms += 1_000
    ids = [job.id for job in jobs]
    found = service.holders("all").wait()
    assert (found.count, [one.id for one in found.holders]) == (3, ids)
    assert found.holders[0].since_ms < found.holders[2].since_ms
    page = service.holders("all", start=1, most=1).wait()
    assert (page.count, [one.id for one in page.holders]) == (3, ids[1:2])
    (x, y) = (service.holders("each", key=key).wait() for key in ('"x"', '"y"'))
    assert (x.count, y.count) == (2, 1)
    assert service.holders("each", key="none").wait().holders == []


def test_holders_of_what_is_no_limit(service: Service) -> None:
    service.limit(Limit(name="all", matches=Matcher(queue="q"), running=9)).wait()
    service.limit(Limit(name="each", matches=Matcher(queue="q"), running=2, key="customer")).wait()
    with pytest.raises(UnknownLimit):
        service.holders("none").wait()
    with pytest.raises(BadInput, match="name a key"):
        service.holders("each").wait()
    with pytest.raises(BadInput, match="no keys"):
        service.holders("all", key="x").wait()


def test_long_names_have_cursors_too(service: Service) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    put(service, *(new(name=letter * 1_020, lane=letter * 255) for letter in "abc"))
    assert [one.lane[0] for one in lanes(service, most=1)] == ["a", "b", "c"]
