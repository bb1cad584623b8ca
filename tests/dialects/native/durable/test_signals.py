"""Native routes of people and programs to durable jobs: signals, rewinds, a fresh retry, signal URLs."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.dialects.sample_jobs import ABSENT, HOSTILE, bearer, failed, finished, path, put, running, state_of
from tests.support.api_client import Api
from windlass.core.durable import SIGNAL_NAME_MAX, SIGNAL_VALUE_MAX, SIGNALS_MAX, Signal, StoreStep, Suspend, Wait
from windlass.core.ids import format_id
from windlass.core.job import Blob, Job
from windlass.core.operations import Fail
from windlass.service import Service
from windlass.settings import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

REQUEST_ID = "8d6e1c0e-6f0c-4a53-9a43-0b8d8a0f4c11"


async def suspended(service: Service, signal: str = "approval", **more: Any) -> Job:
    """A job that waits for a signal."""
    job = await running(service, **more)
    waits = (Wait(name="wait", kind="signal", signal=signal),)
    await service.suspend([Suspend(id=job.id, token=job.lease_token, waits=waits)]).one()
    return job


async def failed_with_steps(service: Service, *names: str) -> bytes:
    job = await running(service)
    for name in names:
        await service.store_steps([StoreStep(id=job.id, token=job.lease_token, name=name, value=Blob(b"1"))]).one()
    await service.fail([Fail(id=job.id, token=job.lease_token, then="final")]).one()
    return job.id


async def steps_of(service: Service, job_id: bytes) -> list[str]:
    return [step.name for step in (await service.durable_states([job_id]).one()).steps]


# Signals


async def test_a_job_that_waits_receives_its_signal(api: Api, service: Service) -> None:
    job = await suspended(service)
    answer = await api.post(path(job.id, "/signals"), {"name": "approval", "value": {"approved": True}})
    assert (answer.status, answer.body) == (200, {"outcome": "received"})
    [step] = (await api.get(path(job.id, "/steps"))).body["steps"]
    assert (step["name"], step["signal"], step["value"]) == ("wait", "approval", {"approved": True})
    assert await state_of(service, job.id) == "queued"


async def test_a_signal_that_comes_first_is_kept(api: Api, service: Service) -> None:
    job_id = await put(service)
    for value in (1, None):
        answer = await api.post(path(job_id, "/signals"), {"name": "approval", "value": value})
        assert (answer.status, answer.body) == (200, {"outcome": "kept"})
    signals = (await api.get(path(job_id, "/steps"))).body["signals"]
    assert [(signal["name"], signal["value"]) for signal in signals] == [("approval", 1), ("approval", None)]


async def test_a_signal_may_be_bytes(api: Api, service: Service) -> None:
    job_id = await put(service)
    encoded = base64.b64encode(b"\xff\x00").decode()
    await api.post(path(job_id, "/signals"), {"name": "approval", "value_base64": encoded})
    [signal] = (await api.get(path(job_id, "/steps"))).body["signals"]
    assert (signal["value_base64"], signal["value_codec"]) == (encoded, "raw")


async def test_a_repeated_request_has_no_effect(api: Api, service: Service) -> None:
    job_id = await put(service)
    body = {"name": "approval", "value": 1, "request_id": REQUEST_ID}
    outcomes = [(await api.post(path(job_id, "/signals"), body)).body["outcome"] for _ in range(2)]
    assert outcomes == ["kept", "repeated"]
    assert len((await service.durable_states([job_id]).one()).signals) == 1


async def test_signals_of_a_batch_each_have_their_own_result(api: Api, service: Service) -> None:
    job = await suspended(service)
    items = [{"id": job_id, "name": "approval", "value": 1} for job_id in (ABSENT, format_id(job.id))]
    answer = await api.post("/api/v1/jobs:signals", {"items": items})
    unknown, done = answer.body["results"]
    assert (unknown["error"]["code"], done["ok"]) == ("unknown_job", {"outcome": "received"})


async def test_a_full_mailbox_refuses(json_api: Api, service: Service) -> None:
    job_id = await put(service)
    await service.signal([Signal(id=job_id, name="approval", value=Blob(b"1"))] * SIGNALS_MAX)
    answer = await json_api.post(path(job_id, "/signals"), {"name": "approval", "value": 1})
    assert (answer.status, answer.body["code"]) == (409, "mailbox_full")


async def test_an_ended_job_gets_no_signals(json_api: Api, service: Service) -> None:
    for job_id in (await finished(service), await failed(service, queue="other")):
        answer = await json_api.post(path(job_id, "/signals"), {"name": "approval", "value": 1})
        assert (answer.status, answer.body["code"]) == (409, "already_ended")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "approval"},
        {"value": 1},
        {"name": "", "value": 1},
        {"name": "n" * (SIGNAL_NAME_MAX + 1), "value": 1},
        {"name": "a", "value": 1, "request_id": "x"},
        {"name": "a", "value": 1, "value_base64": "AA=="},
        {"name": "a", "value": 1, "more": 1},
    ],
)
async def test_bad_signals_are_refused(api: Api, service: Service, body: dict[str, Any]) -> None:
    job_id = await put(service)
    answer = await api.post(path(job_id, "/signals"), body)
    assert (answer.status, answer.body["code"]) == (400, "bad_input")
    assert not (await service.job([job_id]).one()).job.is_durable


async def test_a_signal_that_is_too_large_is_refused(json_api: Api, service: Service) -> None:
    body = {"name": "approval", "value": "x" * SIGNAL_VALUE_MAX}
    answer = await json_api.post(path(await put(service), "/signals"), body)
    assert (answer.status, answer.body["code"]) == (413, "too_large")


# Rewind, and retry from the beginning


async def test_a_rewind_drops_a_step_and_those_after_it(api: Api, service: Service) -> None:
    job_id = await failed_with_steps(service, "a", "b", "c")
    answer = await api.post(path(job_id, "/rewind"), {"step": "b"})
    assert (answer.status, answer.body) == (200, {"dropped": 2})
    assert (await steps_of(service, job_id), await state_of(service, job_id)) == (["a"], "failed")


async def test_a_rewind_without_a_step_drops_all(api: Api, service: Service) -> None:
    job_id = await failed_with_steps(service, "a", "b")
    answer = await api.post(path(job_id, "/rewind"))
    assert (answer.body, await steps_of(service, job_id)) == ({"dropped": 2}, [])


async def test_rewinds_that_are_refused(api: Api, service: Service) -> None:
    ended, held = await failed_with_steps(service, "a"), await running(service, queue="other")
    unknown = await api.post(path(ended, "/rewind"), {"step": "z"})
    wrong = await api.post(path(held.id, "/rewind"), {})
    absent = await api.post(path(ABSENT, "/rewind"), {})
    assert [(answer.status, answer.body["code"]) for answer in (unknown, wrong, absent)] == [
        (404, "unknown_step"),
        (409, "wrong_state"),
        (404, "unknown_job"),
    ]
    batch = await api.post("/api/v1/jobs:rewind", {"items": [{"id": format_id(ended), "step": "z"}]})
    assert batch.body["results"][0]["error"]["code"] == "unknown_step"


async def test_a_retry_keeps_the_steps(api: Api, service: Service) -> None:
    job_id = await failed_with_steps(service, "a", "b")
    assert (await api.post(path(job_id, "/retry"))).body == {"outcome": "queued"}
    assert await steps_of(service, job_id) == ["a", "b"]


async def test_a_fresh_retry_drops_the_steps(api: Api, service: Service) -> None:
    job_id = await failed_with_steps(service, "a", "b")
    plain = await failed(service, queue="other")
    items = [{"id": format_id(job_id), "fresh": True}, {"id": format_id(plain), "fresh": True}]
    answer = await api.post("/api/v1/jobs:retry", {"items": items})
    assert [result["ok"] for result in answer.body["results"]] == [{"outcome": "queued"}] * 2
    assert await steps_of(service, job_id) == []


async def test_a_fresh_retry_that_is_refused_drops_nothing(api: Api, service: Service) -> None:
    job = await suspended(service)
    answer = await api.post(path(job.id, "/retry"), {"fresh": True})
    assert (answer.status, answer.body["code"]) == (409, "wrong_state")
    assert await steps_of(service, job.id) == ["wait"]


# Access


async def test_a_token_of_other_queues_is_refused(json_api: Api, service: Service) -> None:
    theirs = format_id((await suspended(service, queue="theirs")).id)
    headers = await bearer(service, "produce", queues=("mine",))
    signal, link = {"name": "approval", "value": 1}, {"signal": "approval"}
    answers = [
        await json_api.post(path(theirs, "/signals"), signal, **headers),
        await json_api.post("/api/v1/jobs:signals", {"items": [signal | {"id": theirs}]}, **headers),
        await json_api.post(path(theirs, "/signal-url"), link, **headers),
    ]
    assert {answer.status for answer in answers} == {403}


async def test_signals_and_rewinds_are_audited(json_api: Api, service: Service) -> None:
    job, ended = await suspended(service), await failed_with_steps(service, "a")
    await json_api.post(path(job.id, "/signals"), {"name": "approval", "value": 1})
    await json_api.post(path(ended, "/rewind"), {"step": "z"})
    await json_api.post(path(job.id, "/signal-url"), {"signal": "approval"})
    entries = (await service.audits()).entries
    assert [(entry.what, entry.target, entry.detail, entry.outcome) for entry in reversed(entries)] == [
        ("signal", format_id(job.id), "approval", "done"),
        ("rewind", format_id(ended), "z", "unknown_step"),
        ("signal_url", format_id(job.id), "approval", "done"),
    ]


async def test_ids_that_are_none_are_refused(json_api: Api, service: Service) -> None:
    bodies = (("/signals", {"name": "a", "value": 1}), ("/rewind", {}), ("/signal-url", {"signal": "a"}))
    for rest, body in bodies:
        for name in HOSTILE:
            answer = await json_api.post(path(name, rest), body)
            assert answer.status in (400, 404), (name, answer)


# Signal URLs; tests/dashboard/test_signal_link.py opens them


async def test_a_signal_url_names_the_server_as_the_client_does(json_api: Api, service: Service) -> None:
    job = await suspended(service)
    now_ms = await service.now()
    answer = await json_api.post(path(job.id, "/signal-url"), {"signal": "approval", "expires_in_ms": 60_000})
    url, token = answer.body["url"], answer.body["token"]
    assert (answer.status, url) == (200, f"{str(json_api.client.base_url).rstrip('/')}/signals/{token}")
    assert 60_000 <= answer.body["expires_at_ms"] - now_ms < 120_000
    forwarded = await json_api.post(path(job.id, "/signal-url"), {"signal": "a"}, x_forwarded_proto="https")
    assert forwarded.body["url"].startswith("https://")


async def test_signal_urls_that_are_refused(api: Api, service: Service) -> None:
    job_id = await put(service)
    for body in ({}, {"signal": ""}, {"signal": "a", "expires_in_ms": 0}, {"signal": "a", "more": 1}):
        assert (await api.post(path(job_id, "/signal-url"), body)).status == 400
    absent = await api.post(path(ABSENT, "/signal-url"), {"signal": "a"})
    ended = await api.post(path(await failed(service, queue="other"), "/signal-url"), {"signal": "a"})
    assert [(answer.status, answer.body["code"]) for answer in (absent, ended)] == [
        (404, "unknown_job"),
        (409, "already_ended"),
    ]


class TestPublicUrl:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, roles="api", public_url="https://jobs.example.com/w/")

    async def test_the_setting_names_the_server(self, json_api: Api, service: Service) -> None:
        answer = await json_api.post(path(await put(service), "/signal-url"), {"signal": "a"})
        assert answer.body["url"].startswith("https://jobs.example.com/w/signals/")


class TestWithoutDashboard:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, roles="api", dashboard=False)

    async def test_there_are_no_signal_urls(self, json_api: Api, service: Service) -> None:
        answer = await json_api.post(path(await put(service), "/signal-url"), {"signal": "a"})
        assert (answer.status, answer.body["code"]) == (400, "bad_setting")
