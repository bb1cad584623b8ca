"""Native routes of alert rules: set, read, muted, tested, removed; what a token for some queues sees; the audit log."""

from __future__ import annotations

import httpx
import pytest

from tests.dialects.http_requests import NativeApi
from tests.dialects.sample_jobs import bearer
from windlass.background.alerts.evaluator import CLAIM_MS, AlertEvaluator
from windlass.core.alerts.rule import AlertRule
from windlass.core.job import NewJob
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
TARGET = "slack:https://hooks.slack.com/services/T0/B0/secret"
RULE = {"kind": "failures", "pattern": "mail-*", "threshold": 2.5, "targets": [TARGET]}


async def test_a_rule_is_set_read_and_removed(native_api: NativeApi, service: Service) -> None:
    made = await native_api.ok("PUT", "/alerts/mail", RULE)
    assert (made["name"], made["threshold"], made["window_ms"], made["phase"]) == ("mail", 2.5, 600_000, "ok")
    assert made["targets"] == [TARGET]
    [shown] = (await native_api.get("/alerts"))["alerts"]
    assert shown == made == await native_api.get("/alerts/mail")
    changed = await native_api.ok("PUT", "/alerts/mail", {"kind": "oldest_age"})
    assert (changed["threshold"], changed["targets"]) == (600_000, [])
    await native_api.ok("DELETE", "/alerts/mail")
    assert (await native_api.get("/alerts"))["alerts"] == []
    assert [entry.what for entry in (await service.audits()).entries] == ["remove_alert", "set_alert", "set_alert"]


async def test_incidents(native_api: NativeApi, service: Service) -> None:
    await native_api.ok("PUT", "/alerts/idle", {"kind": "no_worker"})
    await service.enqueue([NewJob(queue="mail", name="send")])
    service.store.clock_offset_ms += CLAIM_MS
    await AlertEvaluator().run_once(service)
    [shown] = (await native_api.get("/alerts"))["alerts"]
    assert (shown["phase"], shown["figure"], shown["subjects"], shown["is_announced"]) == ("open", 1, ["mail"], True)


async def test_mute_and_test(native_api: NativeApi, service: Service) -> None:
    await native_api.ok("PUT", "/alerts/mail", RULE)
    muted = await native_api.ok("POST", "/alerts/mail/mute", {"for_ms": 60_000})
    assert muted["muted_until_ms"] > 0
    assert (await native_api.ok("POST", "/alerts/mail/mute", {"for_ms": 0}))["muted_until_ms"] == 0
    assert await native_api.ok("POST", "/alerts/mail/test") == {"targets": 1}
    [callback] = (await native_api.get("/callbacks"))["callbacks"]
    assert (callback["job"]["queue"], callback["callback"]["destination"]) == (
        "windlass.alerts", "https://hooks.slack.com/…"
    )  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        {}, {"kind": "other"}, {"kind": "failures", "threshold": 0}, {"kind": "failures", "window_ms": 90_000},
        {"kind": "engine_risk", "pattern": "q"}, {"kind": "failures", "targets": ["ftp://x"]},
        {"kind": "failures", "targets": ["mailto:a@b.c\nBcc: d@e.f"]}, {"kind": "failures", "note": "a\nb"},
        {"kind": "failures", "targets": [TARGET, TARGET]}, {"kind": "oldest_age", "threshold": 5},
        {"kind": "failures", "is_declared": True},
    ],
)  # fmt: skip
async def test_bad_rules_change_nothing(native_api: NativeApi, service: Service, body: dict[str, object]) -> None:
    assert (await native_api("PUT", "/alerts/mail", body)).status == 400
    assert (await service.alerts()).rules == []


async def test_unknown_and_declared_rules(native_api: NativeApi, service: Service) -> None:
    for method, path, body in (
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/mute", {"for_ms": 1}),
        ("POST", "/test", None),
    ):
        reply = await native_api(method, f"/alerts/none{path}", body)
        assert (reply.status, reply.code) == (404, "unknown_alert")
    await service.declare_alerts([AlertRule(name="mine", kind="no_worker")])
    for method, body in (("PUT", {"kind": "no_worker"}), ("DELETE", None)):
        reply = await native_api(method, "/alerts/mine", body)
        assert (reply.status, reply.code) == (400, "bad_input")


async def test_readers_see_rules_of_their_queues_without_secrets(client: httpx.AsyncClient, service: Service) -> None:
    for name, pattern in (("ours", "mail-*"), ("wider", "mail*"), ("all", "")):
        await service.set_alert(AlertRule(name=name, kind="failures", pattern=pattern, targets=(TARGET,)))
    await service.set_alert(AlertRule(name="engine", kind="engine_risk"))
    scoped, reader = await bearer(service, "read", queues=("mail-*",)), await bearer(service, "read")
    shown = (await client.get("/api/v1/alerts", headers=scoped)).json()["alerts"]
    assert [(alert["name"], alert["targets"]) for alert in shown] == [("ours", ["slack:https://hooks.slack.com/…"])]
    assert (await client.get("/api/v1/alerts/wider", headers=scoped)).status_code == 403
    assert len((await client.get("/api/v1/alerts", headers=reader)).json()["alerts"]) == 4
    for method, path in (("PUT", ""), ("DELETE", ""), ("POST", "/mute"), ("POST", "/test")):
        done = await client.request(method, f"/api/v1/alerts/ours{path}", headers=reader, json={})
        assert done.status_code == 403
