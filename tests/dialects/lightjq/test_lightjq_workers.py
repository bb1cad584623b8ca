"""LightJQ workers: registration, removal, reports, and reports that are refused."""

from __future__ import annotations

import asyncio
import itertools
import math
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.dialects.lightjq.lightjq_client import QUEUE, LightJqClient, hold
from tests.dialects.sample_jobs import ABSENT
from windlass.background.recoverer import Recoverer
from windlass.background.scheduler import Scheduler
from windlass.core.ids import parse_id
from windlass.core.job import Blob, Codec
from windlass.core.operations import LeaseRef, WorkerInfo
from windlass.core.states import State
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


async def held(lightjq: LightJqClient, service: Service, *, accept_ms: int = 0, **fields: Any) -> tuple[str, str]:
    """Return a worker and the job that it holds."""
    worker = await lightjq.register()
    job_id = await lightjq.push(**fields)
    assert await hold(service, worker, accept_ms=accept_ms) is not None
    return worker, job_id


async def state_of(service: Service, job_id: str) -> State:
    return (await service.job([parse_id(job_id)]).one()).job.state


async def test_a_worker_registers_with_and_without_a_url(lightjq: LightJqClient, service: Service) -> None:
    plain = await lightjq.register(name="same", max_jobs=1, extra=1)
    pushed = await lightjq.register(name="same", max_jobs=7, url="http://127.0.0.1:9/base/")
    assert plain != pushed
    assert {str(uuid.UUID(bytes=one.id)): one.info for one in await service.workers()} == {
        plain: WorkerInfo(name="same", slots=1, queues=(QUEUE,)),
        pushed: WorkerInfo(name="same", slots=7, queues=(QUEUE,), url="http://127.0.0.1:9/base"),
    }


async def test_invalid_workers_are_refused(lightjq: LightJqClient, service: Service) -> None:
    wrong: list[dict[str, Any]] = [
        {"name": ""}, {"name": 5}, {"name": None}, {"name": "a\nb"}, {"name": "x" * 256}, {"max_jobs": 0},
        {"max_jobs": -1}, {"max_jobs": "5"}, {"max_jobs": 1.5}, {"max_jobs": True}, {"max_jobs": 10**9},
        {"max_jobs": None}, {"url": 5}, {"url": "nowhere"}, {"url": "ftp://h/"}, {"url": "http://"},
        {"url": "http://u:p@h/"}, {"url": "http://h/?q=1"}, {"url": "http://h/#f"}, {"url": "http://h\r\nx: y"},
        {"url": "file:///etc/passwd"}, {"url": "http://h:0"}, {"url": "http://h" + "x" * 2_048},
    ]  # fmt: skip
    for fields in wrong:
        response = await lightjq("POST", "/worker", {"name": "w", "max_jobs": 1} | fields)
        assert (response.status, response.error) == (400, "bad_input"), (fields, response)
    for body in ({}, {"name": "w"}, {"max_jobs": 1}, [], None):
        assert (await lightjq("POST", "/worker", body)).status == 400
    assert await service.workers() == []


async def test_a_url_that_must_not_be_called_is_refused_at_once(lightjq: LightJqClient, service: Service) -> None:
    """The dispatcher checks the address again at each call."""
    for url in (
        "http://10.0.0.1/",
        "http://169.254.169.254/latest",
        "http://[fe80::1]:80",
        "http://0.0.0.0:1",
        "http://127.1/",
    ):
        response = await lightjq("POST", "/worker", {"name": "w", "max_jobs": 1, "url": url})
        assert (response.status, response.error) == (400, "bad_input"), (url, response)
    for url in ("http://127.0.0.1:9", "http://localhost:9", "http://[::1]:9", "http://nowhere.invalid/"):
        await lightjq.register(url=url)


async def test_jobs_of_a_removed_worker_are_requeued(lightjq: LightJqClient, service: Service) -> None:
    worker, job_id = await held(lightjq, service)
    assert (await lightjq("DELETE", "/worker", worker=worker)).status == 204
    assert await lightjq.status(job_id) == {"status": "queued", "retry_count": 0}
    assert (await lightjq("DELETE", "/worker", worker=worker)).status == 404
    assert (await lightjq.succeed(worker, job_id)).status == 409


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/worker"), ("POST", "/done")])
async def test_the_header_of_a_worker_is_needed(
    lightjq: LightJqClient, service: Service, method: str, path: str
) -> None:
    _, job_id = await held(lightjq, service)
    body = {"job_id": job_id, "type": "success"}
    for worker, status in (("", 400), (ABSENT, 404), ("nonsense", 404), ("x" * 1000, 404)):
        response = await lightjq.raw(
            method, path, msgspec.msgpack.encode(body), {"worker-id": worker} if worker else {}
        )
        if (path, worker) == ("/done", ABSENT):
            status = 409  # whether the worker exists is not checked here
        assert (response.status, bool(response.error)) == (status, True), worker
    assert await state_of(service, job_id) is State.RUNNING


@pytest.mark.parametrize(
    "form", [str, str.upper, lambda text: text.replace("-", ""), "{{{}}}".format, "urn:uuid:{}".format]
)
@pytest.mark.parametrize("unknown", [ABSENT, str(uuid.UUID(int=0)), str(uuid.UUID(int=2**128 - 1))])
async def test_an_unknown_worker_of_any_form_is_not_found(
    lightjq: LightJqClient, unknown: str, form: Callable[[str], str]
) -> None:
    for method, path in (("DELETE", "/worker"), ("POST", "/worker/beat")):
        response = await lightjq.raw(method, path, b"", {"worker-id": form(unknown)})
        assert (response.status, response.error) == (404, "unknown_worker")


# Reports


async def test_a_report_may_use_job_id_or_id(lightjq: LightJqClient, service: Service) -> None:
    for names in ({"job_id"}, {"id"}, {"job_id", "id"}):
        worker, job_id = await held(lightjq, service)
        body = dict.fromkeys(names, job_id) | {"type": "success", "finished_at": "2026-01-31T12:00:00.5+09:00"}
        assert (await lightjq("POST", "/done", body, worker)).status == 204
        assert (await lightjq.status(job_id))["status"] == "done"


async def test_invalid_reports_are_refused(lightjq: LightJqClient, service: Service) -> None:
    worker, job_id = await held(lightjq, service)
    success: dict[str, Any] = {"job_id": job_id, "type": "success"}
    failure: dict[str, Any] = success | {"type": "failure", "reason": "other", "should_retry": True, "message": "m"}
    wrong: list[Any] = [
        None, [], {}, {"type": "success"}, {"job_id": job_id}, success | {"type": "other"}, success | {"type": None},
        success | {"job_id": 5}, success | {"job_id": None}, success | {"id": ABSENT},
        success | {"finished_at": "yesterday"}, success | {"finished_at": 5}, success | {"finished_at": "2026-01-31"},
        success | {"finished_at": "2026-13-31T00:00:00Z"}, success | {"finished_at": ""},
        *({key: value for key, value in failure.items() if key != left} for left in failure),
        *(failure | {"reason": reason} for reason in ("server_issue", "unknown", "", None, 5)),
        *(failure | {"should_retry": value} for value in (1, None, "yes")),
        *(failure | {"message": value} for value in (None, 5, b"bytes")),
    ]  # fmt: skip
    for body in wrong:
        response = await lightjq("POST", "/done", body, worker)
        assert (response.status, response.error) == (400, "bad_input"), (body, response)
    bad_value = msgspec.msgpack.encode(success)[1:]
    for content in (b"\x83" + bad_value + b"\xa6result\xa1\xff", b"\x83" + bad_value + b"\xa6result\xc1", b"{}", b""):
        assert (await lightjq.raw("POST", "/done", content, {"worker-id": worker})).status == 400
    assert await state_of(service, job_id) is State.RUNNING


async def test_an_outcome_that_is_too_large(lightjq: LightJqClient, service: Service) -> None:
    worker, job_id = await held(lightjq, service, keep_result=True)
    assert (await lightjq.succeed(worker, job_id, result=b"x" * 2**20)).status == 413
    assert (await lightjq.fail(worker, job_id, error=b"x" * 2**15)).status == 413
    assert await state_of(service, job_id) is State.RUNNING


async def test_an_unknown_job(lightjq: LightJqClient, service: Service) -> None:
    worker = await lightjq.register()
    for job_id in (ABSENT, "nonsense", ""):
        assert (await lightjq.succeed(worker, job_id)).status == 404
        assert (await lightjq.fail(worker, job_id)).status == 404
    cancelled = await lightjq.push()
    await lightjq("DELETE", f"/job/{cancelled}")
    assert (await lightjq.succeed(worker, cancelled)).status == 404


async def test_only_the_holder_reports(lightjq: LightJqClient, service: Service) -> None:
    worker, job_id = await held(lightjq, service)
    waiting = await lightjq.push()
    other = await lightjq.register()
    for who, job in ((other, job_id), (other, waiting), (worker, waiting)):
        for report in (lightjq.succeed, lightjq.fail):
            response = await report(who, job)
            assert (response.status, response.error) == (409, "stale_lease")
    assert await state_of(service, job_id) is State.RUNNING
    assert await state_of(service, waiting) is State.QUEUED


async def test_only_one_of_two_concurrent_reports_counts(lightjq: LightJqClient, service: Service) -> None:
    for _ in range(5):
        worker, job_id = await held(lightjq, service, keep_result=True, max_retry=0)
        good, bad = await asyncio.gather(lightjq.succeed(worker, job_id, result=1), lightjq.fail(worker, job_id))
        assert sorted((good.status, bad.status)) == [204, 409]
        assert (await lightjq.status(job_id))["status"] == ("done" if good.status == 204 else "error")


async def test_a_late_success_does_not_revive_a_failed_job(lightjq: LightJqClient, service: Service) -> None:
    worker, job_id = await held(lightjq, service, max_retry=0)
    await lightjq.fail(worker, job_id)
    response = await lightjq.succeed(worker, job_id)
    assert (response.status, response.error) == (409, "already_ended")
    assert (await lightjq.status(job_id))["status"] == "error"


async def test_a_report_after_the_timeout_changes_nothing(
    lightjq: LightJqClient, service: Service, store: Store
) -> None:
    worker, job_id = await held(lightjq, service, timeout=10, max_retry=1)
    store.clock_offset_ms += 10_500
    await Recoverer().tick(service)
    found = await lightjq.status(job_id)
    assert (found["status"], found["reason"], found["worker_id"]) == ("retrying", "timeout", worker)
    assert "timeout" in found["message"]
    assert (await lightjq.succeed(worker, job_id)).status == 409
    assert (await lightjq.status(job_id))["status"] == "retrying"
    [known] = await service.workers()
    assert known.running_count == 0  # its slot is free


async def test_timeouts_count_against_the_retries(lightjq: LightJqClient, service: Service, store: Store) -> None:
    worker, job_id = await held(lightjq, service, timeout=10, max_retry=0)
    store.clock_offset_ms += 10_500
    await Recoverer().tick(service)
    found = await lightjq.status(job_id)
    assert (found["status"], found["reason"]) == ("error", "timeout")
    assert (await lightjq.succeed(worker, job_id)).status == 409


async def test_the_report_of_an_attempt_that_was_given_to_another(
    lightjq: LightJqClient, service: Service, store: Store
) -> None:
    late, job_id = await held(lightjq, service, timeout=10)
    store.clock_offset_ms += 10_500
    await Recoverer().tick(service)
    store.clock_offset_ms += 2_000
    await Scheduler().tick(service)
    now = await lightjq.register()
    assert await hold(service, now) is not None
    assert (await lightjq.succeed(late, job_id)).status == 409
    assert (await lightjq.succeed(now, job_id)).status == 204


@pytest.mark.parametrize("ends_well", [True, False])
async def test_a_report_before_its_push_was_answered(lightjq: LightJqClient, service: Service, ends_well: bool) -> None:
    worker, job_id = await held(lightjq, service, accept_ms=5_000, keep_result=True, max_retry=0)
    job = (await service.job([parse_id(job_id)]).one()).job
    assert job.state is State.DISPATCHED
    report = lightjq.succeed(worker, job_id, result=1) if ends_well else lightjq.fail(worker, job_id)
    assert (await report).status == 204
    [late] = await service.accept([LeaseRef(job.id, job.lease_token)])
    assert isinstance(late, Exception)  # the 202 that is read now finds nothing to accept
    found = await lightjq.status(job_id)
    assert (found["status"], found["worker_id"]) == ("done" if ends_well else "error", worker)


# Retries


async def test_should_retry_false_ends_the_job(lightjq: LightJqClient, service: Service) -> None:
    worker, job_id = await held(lightjq, service, max_retry=10)
    assert (await lightjq.fail(worker, job_id, should_retry=False)).status == 204
    assert (await lightjq.status(job_id))["status"] == "error"


async def test_pauses_grow_up_to_their_cap_and_retries_end(
    lightjq: LightJqClient, service: Service, store: Store
) -> None:
    worker, job_id = await held(lightjq, service, max_retry=11)
    pauses = []
    for count in range(11):
        await lightjq.fail(worker, job_id)
        read = await service.job([parse_id(job_id)]).one()
        found = await lightjq.status(job_id)
        assert (found["status"], found["retry_count"]) == ("retrying", count)
        pauses.append(read.job.run_at_ms - read.attempts[-1].ended_at_ms)
        if await hold(service, worker) is not None:  # the first pauses may pass on a busy machine
            assert await service.now() >= read.job.run_at_ms, "not before its time"
            continue
        store.clock_offset_ms += pauses[-1] + 1_000
        await Scheduler().tick(service)
        assert await hold(service, worker) is not None
    for count, pause in enumerate(pauses):
        expected = min(1_000 * 2**count, 300_000)
        assert math.floor(expected * 0.9) <= pause <= math.ceil(expected * 1.1), (count, pause)
    assert all(after > before for before, after in itertools.pairwise(pauses[2:9]))
    await lightjq.fail(worker, job_id)
    found = await lightjq.status(job_id)
    assert (found["status"], found["retry_count"]) == ("error", 11)


async def test_a_retry_keeps_its_priority_and_its_age(lightjq: LightJqClient, service: Service, store: Store) -> None:
    worker, first = await held(lightjq, service, priority=5)
    later = await lightjq.push(priority=6)
    same = await lightjq.push(priority=5)
    await lightjq.fail(worker, first)
    store.clock_offset_ms += 2_000
    await Scheduler().tick(service)
    order = [(job.key if job else "") for job in [await hold(service, worker) for _ in range(3)]]
    assert order[2] == later
    assert set(order[:2]) == {first, same}


async def test_the_smallest_priority_is_next_over_all_names_ties_by_age(
    lightjq: LightJqClient, service: Service
) -> None:
    worker = await lightjq.register()
    pushed = [(priority, await lightjq.push(name, priority=priority)) for priority in (3, -7, 0, 3) for name in "abc"]
    order = [(job.key if job else "") for job in [await hold(service, worker) for _ in pushed]]
    assert order == [job_id for _, job_id in sorted(pushed, key=lambda one: one[0])]


async def test_a_failure_is_stored_with_its_attempt(lightjq: LightJqClient, service: Service) -> None:
    worker, job_id = await held(lightjq, service, max_retry=0)
    await lightjq.fail(worker, job_id, message="<b>no</b>", error=b"\x00")
    [attempt] = (await service.job([parse_id(job_id)]).one()).attempts
    assert attempt.error == Blob(msgspec.msgpack.encode({"message": "<b>no</b>", "error": b"\x00"}), Codec.MSGPACK)
    assert attempt.reason == "other"
