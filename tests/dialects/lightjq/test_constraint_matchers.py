"""LightJQ constraints with a name, on several queues, and with conditions beyond equality."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.dialects.http_requests import NativeApi
from tests.dialects.lightjq.lightjq_client import QUEUE, LightJqClient, hold
from tests.support.engine_process import EngineProcess
from tests.support.stores import make_store
from windlass.core.errors import CrossPartition
from windlass.core.job import NewJob
from windlass.core.limits.condition import Condition
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Take
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


async def _listed(lightjq: LightJqClient) -> list[dict[str, Any]]:
    return list((await lightjq("GET", "/constraint")).body)


async def _startable(service: Service, lightjq: LightJqClient) -> list[Any]:
    """Return the field `n` of the arguments of the jobs that may start now."""
    worker, found = await lightjq.register(max_jobs=100), []
    while (job := await hold(service, worker)) is not None:
        found.append(job.payload.data[-1])
    return sorted(found)


async def test_a_named_constraint_is_replaced(lightjq: LightJqClient, service: Service) -> None:
    for cap in (5, 1, 2):
        assert await lightjq.constrain(name="mail", matcher={"name": "send"}, max_running=cap) == "mail"
    unnamed = await lightjq.constrain(max_running=9)
    first, second = sorted(await _listed(lightjq), key=lambda one: one["max_running"])
    assert (first["constraint_id"], first["name"], first["max_running"]) == ("mail", "mail", 2)
    assert (second["constraint_id"], second["name"]) == (unnamed, None)
    for _ in range(4):
        await lightjq.push("send")
    worker = await lightjq.register()
    assert [await hold(service, worker) is not None for _ in range(3)] == [True, True, False]
    await lightjq.constrain(name="mail", matcher={"name": "send"}, max_running=3)  # the running jobs count
    assert [await hold(service, worker) is not None for _ in range(2)] == [True, False]
    assert (await lightjq("DELETE", "/constraint/mail")).status == 204
    assert (await lightjq("DELETE", "/constraint/mail")).status == 404
    assert [one["constraint_id"] for one in await _listed(lightjq)] == [unnamed]


async def test_services_that_set_a_constraint_at_once_make_one(lightjq: LightJqClient) -> None:
    await asyncio.gather(*(lightjq.constrain(name="a/b c", max_running=1) for _ in range(10)))
    assert [one["name"] for one in await _listed(lightjq)] == ["a/b c"]
    assert (await lightjq("DELETE", "/constraint/a%2Fb%20c")).status == 204


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("", 400),
        (7, 400),
        ("x" * 121, 400),
        ("ü" * 61, 413),
        ("a\nb", 400),
        ("01890a5d-ac96-774b-bcce-b302099a8057", 400),
    ],
)
async def test_bad_names_are_refused(lightjq: LightJqClient, service: Service, name: Any, status: int) -> None:
    response = await lightjq("POST", "/constraint", {"name": name, "max_running": 1})
    assert (response.status, bool(response.body["message"])) == (status, True)
    assert await service.limits() == []


async def test_a_constraint_applies_to_its_queues(lightjq: LightJqClient, service: Service) -> None:
    await lightjq.constrain(name="both", queues=["mail", QUEUE, "mail"], max_running=1)
    [listed] = await _listed(lightjq)
    assert (listed["queues"], listed["matcher"]) == (["mail", QUEUE], {"name": None, "argument": {}})
    for queue in ("mail", QUEUE, "other", "other"):
        await service.enqueue([NewJob(queue=queue, name="n")])
    assert len((await service.take(Take(queues=("mail",), most=5))).jobs) == 1
    assert (await service.take(Take(queues=(QUEUE,), most=5))).jobs == []
    assert len((await service.take(Take(queues=("other",), most=5))).jobs) == 2
    await lightjq.constrain(name="both", queues=["other"], max_running=0)
    assert len((await service.take(Take(queues=(QUEUE,), most=5))).jobs) == 1


@pytest.mark.parametrize("queues", [[], [""], "mail", [7], ["q"] * 101, ["x" * 256], ["a\tb"]])
async def test_bad_queues_are_refused(lightjq: LightJqClient, service: Service, queues: Any) -> None:
    response = await lightjq("POST", "/constraint", {"queues": queues, "max_running": 1})
    assert (response.status, response.error) == (400, "bad_input")
    assert await service.limits() == []


MATCHED = {
    "in": ({"argument": {"n": {"in": [1, "2"]}}}, {1}),
    "range": ({"argument": {"n": {"gt": 1, "lte": 3}}}, {2, 3}),
    "not": ({"argument": {"n": {"not": 2}}}, {1, 3, 4}),
    "exists": ({"argument": {"odd": {"exists": True}}}, {1, 3}),
    "does not exist": ({"argument": {"odd": {"exists": False}}}, {2, 4}),
    "prefix": ({"argument": {"user.mail": {"prefix": "ann@"}}}, {1, 2}),
    "glob of a field": ({"argument": {"user.mail": {"glob": "*@b.?om"}}}, {2, 4}),
    "glob of the name": ({"name": {"glob": "send_*"}}, {1, 2}),
    "names": ({"name": {"in": ["send_mail", "y"]}}, {1, 4}),
    "not a name": ({"name": {"not": {"prefix": "send"}}}, {3, 4}),
    "not a matcher": ({"not": {"name": "x", "argument": {"n": 3}}}, {1, 2, 4}),
    "together": ({"name": {"prefix": "send"}, "argument": {"n": {"gte": 2}}, "not": {"name": "y"}}, {2}),
}


@pytest.mark.parametrize("case", MATCHED)
async def test_conditions(lightjq: LightJqClient, service: Service, case: str) -> None:
    matcher, expected = MATCHED[case]
    await lightjq.constrain(name="c", matcher=matcher, max_running=0)
    [listed] = await _listed(lightjq)
    assert {"name": None, "argument": {}} | matcher == listed["matcher"]
    mails = ("ann@a.com", "ann@b.com", "bob@a.com", "bob@b.com")
    for n, name in enumerate(("send_mail", "send_sms", "x", "y"), 1):
        odd = {"odd": None} if n % 2 else {}
        await lightjq.push(name, {**odd, "user": {"mail": mails[n - 1]}, "n": n})
    assert set(await _startable(service, lightjq)) == {1, 2, 3, 4} - expected


BAD: list[tuple[Any, str]] = [
    ({"name": {}}, "empty"), ({"name": {"gt": 1}}, "condition on fields"), ({"name": {"exists": True}}, "fields"),
    ({"name": {"in": [1]}}, "must be text"), ({"name": {"like": "x"}}, "like"), ({"argument": {"a": {}}}, "empty"),
    ({"argument": {"a": {"in": []}}}, "in"), ({"argument": {"a": {"in": list(range(101))}}}, "100"),
    ({"argument": {"a": {"gt": "1"}}}, "gt"), ({"argument": {"a": {"gt": float("nan")}}}, "finite"),
    ({"argument": {"a": {"lt": 2**64 - 1}}}, "lt"), ({"argument": {"a": {"glob": ""}}}, "glob"),
    ({"argument": {"a": {"prefix": 7}}}, "prefix"), ({"argument": {"a": {"exists": 1}}}, "exists"),
    ({"argument": {"a": {"eq": 1}}}, "eq"), ({"argument": {"a": {"not": [1]}}}, "not"),
    ({"not": {}}, "needs a condition"),
    ({"not": {"nmae": "n"}}, "nmae"), ({"queue": "x"}, "queue"),
    ({"not": {"not": {"not": {"not": {"not": {"name": "n"}}}}}}, "4 levels"),
    ({"argument": {str(n): {"gt": 1, "lt": 2, "not": 3} for n in range(16)}}, "32 conditions"),
]  # fmt: skip


@pytest.mark.parametrize(("matcher", "word"), BAD)
async def test_bad_matchers_are_refused(lightjq: LightJqClient, service: Service, matcher: Any, word: str) -> None:
    response = await lightjq("POST", "/constraint", {"matcher": matcher, "max_running": 1})
    assert (response.status, response.error) == (400, "bad_input"), response
    assert word in response.body["message"]
    assert await service.limits() == []


async def test_a_matcher_that_is_nested_without_end_is_refused(lightjq: LightJqClient) -> None:
    levels = 5_000
    matcher = b"\x81\xa3not" * levels + b"\x80"
    body = b"\x82\xabmax_running\x01\xa7matcher" + matcher
    assert (await lightjq.raw("POST", "/constraint", body)).status == 400


async def test_too_many_stars_are_refused(lightjq: LightJqClient) -> None:
    response = await lightjq("POST", "/constraint", {"matcher": {"name": {"glob": "*a" * 17}}, "max_running": 1})
    assert (response.status, response.error) == (413, "too_large")


async def test_the_native_api_has_the_same_conditions(native_api: NativeApi, service: Service) -> None:
    matches = {
        "queue": {"in": ["a", "b"]}, "name": {"glob": "s*"}, "lane": {"not": "x"},
        "payload": {"n": {"gte": 1}, "m": 7}, "not": {"payload": {"k": {"exists": True}}},
    }  # fmt: skip
    assert await native_api.ok("PUT", "/limits/l", {"matches": matches, "running": 1}) == {"changed": 0}
    [shown] = (await native_api.get("/limits"))["limits"]
    assert shown["matches"] == matches


async def test_bad_native_matchers_are_problems(client: httpx.AsyncClient, service: Service) -> None:
    for matches, word in [
        ({"name": {"gt": 1}}, "on fields"),
        ({"payload": {"a": {}}}, "empty"),
        ({"not": {}}, "needs"),
    ]:
        response = await client.put("/api/v1/limits/l", json={"matches": matches, "running": 1})
        assert (response.status_code, response.json()["code"]) == (400, "bad_input")
        assert word in response.json()["detail"]
    assert await service.limits() == []


async def test_queues_of_several_partitions_have_no_common_limit(engine: EngineProcess) -> None:
    store = make_store(engine, partitions=4)
    async with store:
        service = Service(store)
        here = [queue for queue in map(str, range(50)) if store.partition_of_queue(queue) == 0][:2]
        there = next(queue for queue in map(str, range(50)) if store.partition_of_queue(queue) == 1)
        both = Limit(name="l", matches=Matcher(queue=Condition(in_=(*here, there))), running=1)
        with pytest.raises(CrossPartition, match="several partitions"):
            await service.limit(both)
        with pytest.raises(CrossPartition, match="must name its queue"):
            await service.limit(Limit(name="l", matches=Matcher(queue=Condition(glob="*")), running=1))
        await service.limit(Limit(name="l", matches=Matcher(queue=Condition(in_=tuple(here))), running=1))
        await service.enqueue([NewJob(queue=queue, name="n") for queue in (*here, there)])
        taken = await service.take(Take(queues=(*here, there), most=5))
        assert sorted(job.queue in here for job in taken.jobs) == [False, True]
