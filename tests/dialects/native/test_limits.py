"""Native routes of limits."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import msgspec
import pytest

from tests.dialects.http_requests import NativeApi, segment
from tests.support.api_client import Api
from windlass.core.access.tokens import NewToken, Role
from windlass.core.job import Blob, NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Take
from windlass.server import open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


def enqueue(service: Service, count: int = 1, payload: object = None) -> None:
    blob = Blob(msgspec.json.encode(payload))
    service.enqueue([NewJob(queue="mail", name="send", payload=blob)] * count).wait()


def names(service: Service) -> list[str]:
    return [item.limit.name for item in service.limits().wait()]


@pytest.fixture
def msgpack(client: httpx.AsyncClient) -> NativeApi:
    """Encode values that JSON cannot express."""
    return NativeApi(Api(client, "msgpack"))


async def test_a_limit_is_set_and_holds(native_api: NativeApi, service: Service) -> None:
    enqueue(service, 3)
    assert await native_api.ok("PUT", "/limits/two", {"matches": {"queue": "mail"}, "running": 2}) == {"changed": 3}
    assert len(service.take(Take(queues=("mail",), most=5)).wait().jobs) == 2
    [shown] = (await native_api.get("/limits"))["limits"]
    [state] = service.limits().wait()
    assert shown.pop("levels") == msgspec.to_builtins(state.levels)
    assert shown == {
        "name": "two", "matches": {"queue": "mail", "name": "", "lane": "", "payload": {}}, "running": 2, "rate": None,
        "per_ms": 1_000, "burst": 0, "key": "", "own_caps": False,
    }  # fmt: skip


async def test_a_limit_per_key_shows_its_keys(native_api: NativeApi, service: Service) -> None:
    matches = {"name": "send", "payload": {"plan": "free", "user.age": 7, "is_new": True, "extra": None}}
    await native_api.ok("PUT", "/limits/each", {"matches": matches, "running": 1, "key": "customer"})
    enqueue(service, 2, {"plan": "free", "user": {"age": 7}, "is_new": True, "extra": None, "customer": 5})
    service.take(Take(queues=("mail",), most=5)).wait()
    [shown] = (await native_api.get("/limits"))["limits"]
    assert shown["matches"] == {"queue": "", "lane": "", **matches}
    assert [(item["key"], item["running"], item["room"]) for item in shown["levels"]] == [("5", 1, 0)]


async def test_a_limit_of_the_same_name_is_changed(native_api: NativeApi, service: Service) -> None:
    await native_api.ok("PUT", "/limits/x", {"running": 2})
    await native_api.ok("PUT", "/limits/x", {"rate": 5, "per_ms": 60_000, "burst": 2})
    assert [item.limit for item in service.limits().wait()] == [
        Limit(name="x", matches=Matcher(), rate=5, per_ms=60_000, burst=2)
    ]


async def test_a_limit_is_taken_away_once(native_api: NativeApi, service: Service) -> None:
    service.limit(Limit(name="x", matches=Matcher(), running=0)).wait()
    enqueue(service)
    assert service.take(Take(queues=("mail",))).wait().jobs == []
    assert await native_api.ok("DELETE", "/limits/x") == {"changed": 1}
    assert len(service.take(Take(queues=("mail",))).wait().jobs) == 1
    reply = await native_api("DELETE", "/limits/x")
    assert (reply.status, reply.code) == (404, "unknown_limit")


ODD_NAMES = ["a/b", "..", "ключ 鍵", "50%", "x" * 128]


async def test_names_may_hold_any_character(native_api: NativeApi, service: Service) -> None:
    for name in ODD_NAMES:
        await native_api.ok("PUT", f"/limits/{segment(name)}", {"running": 1})
        assert [item["name"] for item in (await native_api.get("/limits"))["limits"]] == [name], name
        await native_api.ok("DELETE", f"/limits/{segment(name)}")
        assert names(service) == [], name


BAD_LIMITS = [
    {},
    {"running": 1, "rate": 1},
    {"running": -1},
    {"running": 2**32},
    {"running": "1"},
    {"rate": 0},
    {"rate": 1, "per_ms": 0},
    {"rate": 1, "burst": -1},
    {"running": 1, "key": "x" * 256},
    {"running": 1, "key": 5},
    {"running": 1, "matches": {"queue": "x" * 256}},
    {"running": 1, "matches": {"colour": "red"}},
    {"running": 1, "matches": {"payload": {"a": [1]}}},
    {"running": 1, "matches": {"payload": {"": 1}}},
    {"running": 1, "matches": {"payload": {"a": 2**63}}},
    {"running": 1, "matches": {"payload": {"a": "x" * 1025}}},
    {"running": 1, "matches": {"payload": {f"f{at}": at for at in range(17)}}},
    {"running": 1, "matches": None},
    {"running": 1, "name": "y"},
    [],
]


async def test_limits_that_cannot_be_are_refused(native_api: NativeApi, service: Service) -> None:
    service.limit(Limit(name="x", matches=Matcher(), running=9)).wait()
    for body in BAD_LIMITS:
        reply = await native_api("PUT", "/limits/x", body)
        assert (reply.status, reply.code) == (400, "bad_input"), body
        assert [item.limit.running for item in service.limits().wait()] == [9], body


BAD_VALUES = [float("nan"), float("inf"), 2**64 - 1, "é" * 1000]


async def test_a_value_that_no_field_can_have_is_refused(msgpack: NativeApi, service: Service) -> None:
    for value in BAD_VALUES:
        reply = await msgpack("PUT", "/limits/x", {"running": 1, "matches": {"payload": {"a": value}}})
        assert reply.status == (413 if value == "é" * 1000 else 400), value
        assert names(service) == [], value


@pytest.mark.parametrize("number", [2**70, -(2**63) - 1])
async def test_a_number_that_only_json_can_say_is_refused(json_api: Api, service: Service, number: int) -> None:
    body = b'{"running":1,"matches":{"payload":{"a":%d}}}' % number
    answer = await json_api.raw("PUT", "/api/v1/limits/x", body, {"content-type": "application/json"})
    assert (answer.status, answer.body["code"]) == (400, "bad_input")
    assert names(service) == []


BAD_NAMES = [("x" * 129, "too_large"), ("a%07", "bad_input"), ("%c3", "bad_input")]


async def test_names_that_cannot_be_are_refused(native_api: NativeApi, service: Service) -> None:
    for path, code in BAD_NAMES:
        assert (await native_api("PUT", f"/limits/{path}", {"running": 1})).code == code, path
        assert (await native_api("DELETE", f"/limits/{path}")).code == code, path
        assert names(service) == [], path


async def test_a_token_for_some_queues_sees_the_limits_of_these(native_api: NativeApi, service: Service) -> None:
    for name, queue in (("mine", "mail"), ("theirs", "billing"), ("everybody", "")):
        service.limit(Limit(name=name, matches=Matcher(queue=queue), running=1)).wait()
    token = service.create_token(NewToken(name="t", roles=frozenset({Role.READ}), queues=("mail",))).wait().text
    assert [item["name"] for item in (await native_api.get("/limits", token=token))["limits"]] == ["mine"]


async def test_limits_of_several_partitions_need_a_queue(divided_store: Callable[[int], Store]) -> None:
    async with (
        open_server(divided_store(2), Settings(port=0, bedrock_port=0, roles="api")) as running,
        httpx.AsyncClient(base_url=running.url) as client,
    ):
        native_api = NativeApi(Api(client, "json"))
        reply = await native_api("PUT", "/limits/x", {"running": 1})
        assert (reply.status, reply.code) == (409, "cross_partition")
        await native_api.ok("PUT", "/limits/x", {"running": 1, "matches": {"queue": "mail"}})
        assert [item["name"] for item in (await native_api.get("/limits"))["limits"]] == ["x"]


async def test_the_cap_of_a_key_is_changed(native_api: NativeApi, service: Service) -> None:
    service.limit(Limit(name="each", matches=Matcher(queue="mail"), running=1, key="who", own_caps=True)).wait()
    enqueue(service, 3, {"who": "ann"})
    assert len(service.take(Take(queues=("mail",), most=5)).wait().jobs) == 1
    expected = {"key": "ann", "queued": 2, "scheduled": 0, "running": 1, "cap": 2, "note": "n"}
    assert await native_api.ok("PUT", "/limits/each/cap", {"key": "ann", "running": 2, "note": "n"}) == expected
    assert len(service.take(Take(queues=("mail",), most=5)).wait().jobs) == 1
    assert (await native_api.ok("PUT", "/limits/each/cap", {"key": "ann", "running": 3}))["note"] == "n"
    (entry, *_) = service.audits().wait().entries
    assert (entry.what, entry.target, entry.detail) == ("set_cap", "each", '{"running":3,"key":"ann"}')


async def test_caps_that_cannot_be_changed(native_api: NativeApi, service: Service) -> None:
    service.limit(Limit(name="each", matches=Matcher(queue="mail"), running=1, key="who", own_caps=True)).wait()
    for path, body, status, code in (
        ("/limits/each/cap", {"key": "ann", "running": 2}, 404, "unknown_limit_key"),
        ("/limits/none/cap", {"key": "ann", "running": 2}, 404, "unknown_limit"),
        ("/limits/each/cap", {"key": "ann"}, 400, "bad_input"),
        ("/limits/each/cap", {"key": "ann", "running": 0}, 400, "bad_input"),
        ("/limits/each/cap", {"running": 2}, 400, "bad_input"),
    ):
        reply = await native_api("PUT", path, body)
        assert (reply.status, reply.code) == (status, code), body
