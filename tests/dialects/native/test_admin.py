"""Native routes of the deployment: info, doctor, callbacks, tokens and audit log."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.dialects.http_requests import NativeApi, segment
from windlass import __version__
from windlass.core.access.tokens import NewToken, Role
from windlass.core.callbacks.callback import FailedDelivery
from windlass.core.job import Blob, Callback, NewJob
from windlass.core.namespace.format import FIRST, KNOWN, SINCE
from windlass.core.operations import Finish, Take
from windlass.service import Service
from windlass.store.store import Store
from windlass.store.topology.namespace_format import raise_format

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


# Information and the doctor


async def test_the_server_says_what_it_is(native_api: NativeApi, service: Service, store: Store) -> None:
    before_ms = service.now().wait()
    answer = await native_api.get("/info")
    assert before_ms <= answer.pop("now_ms") <= service.now().wait()
    assert store.deployment is not None
    assert answer == {
        "version": __version__,
        "engine": {"product": "valkey", "version": store.deployment.version, "is_embedded": False},
        "partitions": 1,
        "durability": "memory",
        "namespace_format": {"number": FIRST, "needs_version": "", "known": KNOWN},
    }
    store.run_sync(raise_format([0], KNOWN))
    raised = (await native_api.get("/info"))["namespace_format"]
    assert raised == {"number": KNOWN, "needs_version": SINCE[KNOWN], "known": KNOWN}


async def test_the_doctor_looks_and_repairs(native_api: NativeApi, service: Service, store: Store) -> None:
    service.enqueue([NewJob(queue="mail", name="n")]).wait()
    _damage(store)
    found = await native_api.ok("POST", "/doctor")
    assert found["is_healthy"] is False
    [sick] = [item for item in found["findings"] if item["code"] == "queue_not_listed"]
    assert (sick["severity"], sick["repaired"], sick["is_open"]) == ("error", 0, True)
    repaired = await native_api.ok("POST", "/doctor", {"repair": True})
    [cured] = [item for item in repaired["findings"] if item["code"] == "queue_not_listed"]
    assert (cured["repaired"], cured["is_open"], repaired["is_healthy"]) == (cured["count"], False, True)
    healthy = service.doctor().wait()
    answer = await native_api.ok("POST", "/doctor", {"repair": False})
    assert (answer["jobs"], answer["queues"]) == (healthy.jobs, healthy.queues) == (1, 1)
    assert [item["code"] for item in answer["findings"]] == [item.code for item in healthy.findings]


def _damage(store: Store) -> None:
    store.open_sync()
    store._sync_connection.call("DEL", f"{store.root(0)}:queues")


NONSENSE = [
    {"repair": 1},
    {"repair": "yes"},
    {"repair": None},
    {"cure": True},
    [],
    5,
]


async def test_a_doctor_that_is_asked_nonsense_does_nothing(
    native_api: NativeApi, store: Store, service: Service
) -> None:
    service.enqueue([NewJob(queue="mail", name="n")]).wait()
    _damage(store)
    for body in NONSENSE:
        assert (await native_api("POST", "/doctor", body)).code == "bad_input", body
        assert service.queues().wait() == [], body


# Callbacks


def finish_with_callback(service: Service, *, gives_up: bool) -> bytes:
    callback = Callback(url="https://example.org/x", headers=(("X-A", "1"),))
    job = NewJob(queue="mail", name="n", payload=Blob(b'{"to":1}'), callback=callback)
    service.enqueue([job]).wait()
    [taken] = service.take(Take(queues=("mail",))).wait().jobs
    service.finish([Finish(taken.id, taken.lease_token, Blob(b"[7]"))]).wait()
    if gives_up:
        [callback] = service.take_callbacks().wait().callbacks
        service.retry_callbacks([FailedDelivery(id=callback.id, token=callback.token, error="no", give_up=True)]).wait()
    return taken.id


async def test_callbacks_are_shown_and_owed_again(native_api: NativeApi, service: Service) -> None:
    finish_with_callback(service, gives_up=True)
    assert await native_api.get("/callbacks") == {"callbacks": [], "cursor": ""}
    [shown] = (await native_api.get("/callbacks?given_up=true"))["callbacks"]
    [callback] = service.callbacks(given_up=True).wait().callbacks
    assert (shown["id"], shown["error"], shown["attempt"]) == (callback.key, "no", 1)
    assert (shown["job"]["payload"], shown["result"], shown["result_codec"]) == ({"to": 1}, [7], "json")
    assert shown["callback"]["headers"] == {"X-A": "1"}
    answer = await native_api.ok("POST", "/callbacks:redeliver", {"items": [{"id": shown["id"]}, {"id": shown["id"]}]})
    assert answer["results"][0] == {"ok": {"status": "owed"}}
    assert answer["results"][1]["error"]["code"] == "wrong_state"
    assert [item["id"] for item in (await native_api.get("/callbacks?given_up=0"))["callbacks"]] == [shown["id"]]
    assert [item.key for item in service.callbacks().wait().callbacks] == [shown["id"]]


async def test_callbacks_come_in_pages(native_api: NativeApi, service: Service) -> None:
    for _ in range(3):
        finish_with_callback(service, gives_up=False)
    first = await native_api.get("/callbacks?most=2")
    rest = await native_api.get(f"/callbacks?most=2&cursor={segment(first['cursor'])}")
    seen = [item["id"] for item in first["callbacks"] + rest["callbacks"]]
    assert (seen, rest["cursor"]) == ([item.key for item in service.callbacks().wait().callbacks], "")
    for query in ("most=0", "most=101", "given_up=perhaps", "cursor=zzz", "up=1"):
        assert (await native_api("GET", f"/callbacks?{query}")).code == "bad_input", query


BAD_ITEMS = [
    ["x"],
    [{"id": "x"}],
    [{"id": 5}],
    [{}],
    "x",
    [{"id": "01890a5d-ac96-7000-8000-b5c1d0b7a3f2-" + "9" * 20}],
    [{"id": "x" * 65}],
    [{"id": "-1"}],
]


async def test_ids_that_are_no_callbacks_are_refused(native_api: NativeApi, service: Service) -> None:
    finish_with_callback(service, gives_up=True)
    for items in BAD_ITEMS:
        assert (await native_api("POST", "/callbacks:redeliver", {"items": items})).code == "bad_input", items
        assert len(service.callbacks(given_up=True).wait().callbacks) == 1, items


async def test_a_callback_that_is_not_owed_is_unknown(native_api: NativeApi, service: Service) -> None:
    answer = await native_api.ok(
        "POST", "/callbacks:redeliver", {"items": [{"id": "01890a5d-ac96-7000-8000-b5c1d0b7a3f2-7"}]}
    )
    assert answer["results"][0]["error"]["code"] == "unknown_callback"


# Tokens


async def test_a_token_is_made_used_and_revoked(native_api: NativeApi, service: Service) -> None:
    root = service.create_token(NewToken(name="root", roles=frozenset({Role.ADMIN}))).wait().text
    body = {"name": "ci", "roles": ["read", "work"], "queues": ["mail*"], "rate": 500_000, "expires_in_ms": 60_000,
            "note": "for tests"}  # fmt: skip
    reply = await native_api("POST", "/tokens", body, token=root)
    assert (reply.status, reply.headers["Cache-Control"]) == (201, "no-store")
    made, text = reply.value["token"], reply.value["text"]
    assert text.startswith(f"wl_{made['id']}_")
    assert {field: made[field] for field in body if field != "expires_in_ms"} == {
        field: body[field] for field in body if field != "expires_in_ms"
    }
    assert made["expires_at_ms"] == made["created_at_ms"] + 60_000
    shown = (await native_api.get("/tokens", token=root))["tokens"]
    assert [item["name"] for item in shown] == ["ci", "root"]
    assert shown[0] == made
    assert not _secrets(text, shown)
    assert (await native_api("GET", "/queues", token=text)).status == 200
    assert (await native_api("DELETE", "/tokens/ci", token=root)).status == 204
    async with asyncio.timeout(20):  # servers read their tokens again within a second
        while (await native_api("GET", "/queues", token=text)).status != 401:
            pass
    assert (await native_api("GET", "/queues", token=text)).code == "unauthorized"
    assert (await native_api("DELETE", "/tokens/ci", token=root)).code == "unknown_token"


def _secrets(text: str, shown: object) -> bool:
    return text[-43:] in str(shown) or "digest" in str(shown)


BAD_TOKENS = [
    ({"name": "root", "roles": ["read"]}, 409, "token_exists"),
    ({"name": "x"}, 400, "bad_input"),
    ({"name": "x", "roles": []}, 400, "bad_input"),
    ({"name": "x", "roles": ["king"]}, 400, "bad_input"),
    ({"name": "x", "roles": "read"}, 400, "bad_input"),
    ({"name": "", "roles": ["read"]}, 400, "bad_input"),
    ({"name": "x" * 129, "roles": ["read"]}, 400, "bad_input"),
    ({"name": "é" * 100, "roles": ["read"]}, 413, "too_large"),
    ({"name": "a\nb", "roles": ["read"]}, 400, "bad_input"),
    ({"name": "x", "roles": ["admin"], "queues": ["mail"]}, 400, "bad_input"),
    ({"name": "x", "roles": ["read"], "queues": [""]}, 400, "bad_input"),
    ({"name": "x", "roles": ["read"], "queues": ["*" * 17]}, 413, "too_large"),
    ({"name": "x", "roles": ["read"], "queues": [f"q{at}" for at in range(33)]}, 400, "bad_input"),
    ({"name": "x", "roles": ["read"], "rate": -1}, 400, "bad_input"),
    ({"name": "x", "roles": ["read"], "expires_in_ms": "1h"}, 400, "bad_input"),
    ({"name": "x", "roles": ["read"], "text": "wl_mine"}, 400, "bad_input"),
]


async def test_tokens_that_cannot_be_are_refused(native_api: NativeApi, service: Service) -> None:
    root = service.create_token(NewToken(name="root", roles=frozenset({Role.ADMIN}))).wait().text
    for body, status, code in BAD_TOKENS:
        reply = await native_api("POST", "/tokens", body, token=root)
        assert (reply.status, reply.code) == (status, code), body
        assert [item.name for item in service.tokens().wait().tokens] == ["root"], body


ODD_NAMES = ["a/b", "..", "ключ 鍵", "x" * 128]


async def test_names_of_tokens_may_hold_any_character(native_api: NativeApi, service: Service) -> None:
    root = service.create_token(NewToken(name="root", roles=frozenset({Role.ADMIN}))).wait().text
    for name in ODD_NAMES:
        await native_api.ok("POST", "/tokens", {"name": name, "roles": ["read"]}, token=root)
        assert (await native_api("DELETE", f"/tokens/{segment(name)}", token=root)).status == 204, name
        assert [item.name for item in service.tokens().wait().tokens] == ["root"], name


# The audit log


async def test_an_action_is_written_down_with_who_and_how_it_went(native_api: NativeApi, service: Service) -> None:
    root = service.create_token(NewToken(name="root", roles=frozenset({Role.ADMIN}))).wait().text
    await native_api.ok("POST", f"/queues/{segment('a/b ключ')}/pause", {"reason": "down"}, token=root)
    await native_api("DELETE", "/limits/none", token=root)
    await native_api("POST", "/queues/mail/pause", {"name": "send"}, token=root)
    answer = await native_api.get("/audit", token=root)
    shown = [
        (item["who"], item["what"], item["target"], item["detail"], item["outcome"], item["peer"])
        for item in answer["entries"]
    ]
    assert shown == [
        ("root", "pause_queue", "mail", "name send: ", "names_need_lanes", "127.0.0.1"),
        ("root", "remove_limit", "none", "", "unknown_limit", "127.0.0.1"),
        ("root", "pause_queue", "a/b ключ", "down", "done", "127.0.0.1"),
    ]
    assert answer["entries"] == msgspec.to_builtins(service.audits().wait().entries)


async def test_what_nobody_may_or_can_do_is_not_written_down(native_api: NativeApi, service: Service) -> None:
    await native_api.get("/queues")
    await native_api("POST", "/queues/mail/pause", {"why": "x"})
    await native_api.raw("POST", "/queues/mail/pause", b"\xc1{")
    assert service.audits().wait().entries == []


async def test_whoever_has_no_token_is_called_local(native_api: NativeApi, service: Service) -> None:
    await native_api.ok("PATCH", "/queues/mail/configuration", {"lease_ms": 5_000, "name_lanes": None})
    [entry] = service.audits().wait().entries
    assert (entry.who, entry.what, entry.target) == ("local", "configure_queue", "mail")
    assert msgspec.json.decode(entry.detail) == {"lease_ms": 5_000, "name_lanes": None}


async def test_the_first_token_must_be_an_admin_token(native_api: NativeApi, service: Service) -> None:
    body = {"name": "ci", "roles": ["work"]}
    assert (await native_api("POST", "/tokens", body)).code == "last_admin_token"
    assert service.tokens().wait().tokens == []
    assert (await native_api("POST", "/tokens", body | {"force": True})).status == 201


async def test_the_last_admin_token_is_kept(native_api: NativeApi, service: Service) -> None:
    root = service.create_token(NewToken(name="root", roles=frozenset({Role.ADMIN}))).wait().text
    assert (await native_api("DELETE", "/tokens/root", token=root)).code == "last_admin_token"
    assert [token.name for token in service.tokens().wait().tokens] == ["root"]
    assert (await native_api("DELETE", "/tokens/root?force=true", token=root)).status == 204


async def test_no_secret_is_written_down(native_api: NativeApi, service: Service) -> None:
    body = {"name": "ci", "roles": ["work", "read"], "queues": ["mail*"], "force": True}
    reply = await native_api("POST", "/tokens", body)
    [entry] = service.audits().wait().entries
    assert (entry.what, entry.target, entry.detail) == ("create_token", "ci", "read work mail*")
    assert reply.value["text"][-43:] not in str(entry)


async def test_the_audit_log_comes_in_pages(native_api: NativeApi, service: Service) -> None:
    for number in range(5):
        await native_api.ok("POST", f"/queues/q{number}/pause")
    first = await native_api.get("/audit?most=3")
    rest = await native_api.get(f"/audit?most=3&cursor={segment(first['cursor'])}")
    targets = [item["target"] for item in first["entries"] + rest["entries"]]
    assert (targets, rest["cursor"]) == ([f"q{number}" for number in reversed(range(5))], "")
    for query in ("most=0", "most=501", "cursor=zzz", "who=me"):
        assert (await native_api("GET", f"/audit?{query}")).code == "bad_input", query


async def test_an_action_that_cannot_be_written_down_still_counts(
    native_api: NativeApi, service: Service, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """The key of the audit log has another type, so the engine refuses to append to it."""
    store._sync_connection.call("SET", f"{store.root(0)}:audit", "x")
    assert await native_api.ok("POST", "/queues/mail/pause") == {"was_paused": False}
    assert len(service.pauses("mail").wait()) == 1
    assert "this line is its only record" in caplog.text
    assert "pause_queue" in caplog.text


async def test_tokens_for_some_queues_are_told_nothing_about_all(native_api: NativeApi, service: Service) -> None:
    token = service.create_token(NewToken(name="t", roles=frozenset({Role.READ}), queues=("mail",))).wait().text
    for path in ("/callbacks", "/audit"):
        assert (await native_api("GET", path, token=token)).code == "forbidden"
    assert (await native_api("GET", "/info", token=token)).status == 200
