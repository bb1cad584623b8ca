"""Native routes of schedules."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.dialects.http_requests import NativeApi, segment
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Callback, Codec, NewJob
from windlass.core.retry import Backoff
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

JOB = {"queue": "reports", "name": "build"}
HOURLY = {"job": JOB, "every_ms": 3_600_000}
AFTER = "01890a5d-ac96-7000-8000-b5c1d0b7a3f2"
FULL = NewJob(
    queue="reports", name="build", priority=-3, expires_in_ms=9_000, lane="gold", unique="u", unique_check="replace",
    unique_while_kept=True, retry=Backoff(tries=5, base_ms=10), lease_ms=7_000, retake=True, timeout_ms=8_000,
    result_ttl_ms=60_000, tags=("a", "b"), trace="00-x", joins=False, on_failure="ignore", after=(parse_id(AFTER),),
    callback=Callback(url="https://example.org/x", events=("failed",), headers=(("X-A", "1"),)),
)  # fmt: skip


def make(service: Service, name: str = "nightly", queue: str = "reports", **more: Any) -> None:
    service.schedule(Schedule(name=name, job=NewJob(queue=queue, name="build", **more), every_ms=3_600_000)).wait()


async def test_a_schedule_is_made_and_read(native_api: NativeApi, service: Service) -> None:
    body = {
        "job": JOB | {"payload": {"of": [1, "ü"]}, "priority": 4, "tags": ["x"], "retry": {"tries": 2}},
        "cron": "0 3 * * 1", "timezone": "Europe/Zurich", "overlap": "skip", "misfire": "none", "misfire_after_ms": 5,
        "starts_at_ms": 1_900_000_000_000, "ends_at_ms": 2_000_000_000_000,
    }  # fmt: skip
    answer = await native_api.ok("PUT", "/schedules/nightly", body)
    known = service.schedule_of("nightly").wait()
    payload = known.schedule.job.payload
    assert payload.codec.name.lower() == native_api.encoding
    assert known.schedule.job == NewJob(
        queue="reports", name="build", priority=4, tags=("x",), retry=Backoff(tries=2), payload=payload
    )
    assert answer == await native_api.get("/schedules/nightly")
    assert await native_api.get("/schedules") == {"schedules": [answer]}
    assert {field: answer[field] for field in body if field != "job"} == {
        field: getattr(known.schedule, field) for field in body if field != "job"
    }
    assert answer["job"]["payload"] == {"of": [1, "ü"]}
    for field in ("revision", "created_at_ms", "planned_at_ms", "next_at_ms", "is_paused", "fired", "last_job"):
        assert answer[field] == getattr(known, field), field


async def test_what_was_read_can_be_put_back(native_api: NativeApi, service: Service) -> None:
    wanted = Schedule(name="full", job=FULL, every_ms=60_000)
    service.schedule(wanted).wait()
    shown = await native_api.get("/schedules/full")
    body = {field: shown[field] for field in ("job", "every_ms", "overlap", "misfire")}
    assert (await native_api.ok("PUT", "/schedules/full", body))["revision"] == shown["revision"]  # nothing was changed
    service.unschedule("full").wait()
    await native_api.ok("PUT", "/schedules/full", body)
    assert service.schedule_of("full").wait().schedule == wanted


async def test_a_payload_without_a_form_here_comes_and_goes_as_base64(native_api: NativeApi, service: Service) -> None:
    make(service, payload=Blob(b"\xff\x00", Codec.RAW))
    job = (await native_api.get("/schedules/nightly"))["job"]
    assert (job["payload_base64"], job["payload_codec"]) == (base64.b64encode(b"\xff\x00").decode(), "raw")
    await native_api.ok("PUT", "/schedules/nightly", {"job": job, "every_ms": 5_000})
    assert service.schedule_of("nightly").wait().schedule.job.payload == Blob(b"\xff\x00", Codec.RAW)


async def test_a_change_can_depend_on_the_revision(native_api: NativeApi, service: Service) -> None:
    make(service)
    before = service.schedule_of("nightly").wait()
    reply = await native_api("PUT", "/schedules/nightly?if_revision=99", HOURLY | {"overlap": "skip"})
    assert (reply.status, reply.code) == (409, "revision_conflict")
    assert (await native_api("DELETE", "/schedules/nightly?if_revision=99")).code == "revision_conflict"
    assert service.schedule_of("nightly").wait() == before
    answer = await native_api.ok(
        "PUT", f"/schedules/nightly?if_revision={before.revision}", HOURLY | {"overlap": "skip"}
    )
    assert (await native_api("DELETE", f"/schedules/nightly?if_revision={answer['revision']}")).status == 204


async def test_a_schedule_pauses_resumes_and_runs(native_api: NativeApi, service: Service) -> None:
    make(service)
    paused = await native_api.ok("POST", "/schedules/nightly/pause", {"reason": "closing"})
    assert (paused["is_paused"], paused["pause_reason"], paused["next_at_ms"]) == (True, "closing", None)
    assert paused["planned_at_ms"] is not None
    reply = await native_api("POST", "/schedules/nightly/run")
    assert (reply.status, reply.value["status"]) == (201, "queued")
    assert reply.headers["Location"] == f"/api/v1/jobs/{reply.value['id']}"
    resumed = await native_api.ok("POST", "/schedules/nightly/resume")
    assert (resumed["is_paused"], resumed["last_job"]) == (False, reply.value["id"])
    assert format_id(service.schedule_of("nightly").wait().last_job or b"") == reply.value["id"]
    assert service.stats(["reports"]).wait()[0].queued == 1


async def test_a_run_whose_unique_key_is_held_makes_nothing(native_api: NativeApi, service: Service) -> None:
    make(service, unique="one")
    first = await native_api("POST", "/schedules/nightly/run")
    again = await native_api("POST", "/schedules/nightly/run")
    assert (first.status, again.status, again.value["status"]) == (201, 200, "existing")
    assert again.value["id"] == first.value["id"]


async def test_a_run_into_a_full_queue_is_refused(native_api: NativeApi, service: Service) -> None:
    make(service)
    service.configure("reports", {"max_length": 1}).wait()
    await native_api.ok("POST", "/schedules/nightly/run")
    reply = await native_api("POST", "/schedules/nightly/run")
    assert (reply.status, reply.code) == (503, "queue_full")
    assert service.stats(["reports"]).wait()[0].queued == 1


async def test_a_schedule_is_removed_once(native_api: NativeApi, service: Service) -> None:
    make(service)
    reply = await native_api("DELETE", "/schedules/nightly")
    assert (reply.status, reply.value) == (204, None)
    assert service.schedules().wait() == []
    for method, path in (
        ("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/run"),
    ):  # fmt: skip
        reply = await native_api(method, f"/schedules/nightly{path}")
        assert (reply.status, reply.code) == (404, "unknown_schedule"), path


ODD_NAMES = ["a/b", "..", "ключ 鍵", "?", "x" * 255]


async def test_names_may_hold_any_character(native_api: NativeApi, service: Service) -> None:
    for name in ODD_NAMES:
        await native_api.ok("PUT", f"/schedules/{segment(name)}", HOURLY)
        assert (await native_api.get(f"/schedules/{segment(name)}"))["name"] == name, name
        await native_api.ok("POST", f"/schedules/{segment(name)}/pause", {})
        assert service.schedule_of(name).wait().is_paused, name
        await native_api.ok("DELETE", f"/schedules/{segment(name)}")
        assert service.schedules().wait() == [], name


BAD_NAMES = [("x" * 256, 413), ("a%01", 400), ("%80", 400)]


async def test_names_that_cannot_be_are_refused(native_api: NativeApi, service: Service) -> None:
    for path, status in BAD_NAMES:
        assert (await native_api("PUT", f"/schedules/{path}", HOURLY)).status == status, path
        for method, verb in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/run")):
            assert (await native_api(method, f"/schedules/{path}{verb}")).status == status
        assert service.schedules().wait() == [], path


BAD_SCHEDULES = [
    {},
    {"job": JOB},
    {"every_ms": 5_000},
    {"job": {"queue": "q"}, "every_ms": 5_000},
    {"job": JOB, "every_ms": 999},
    {"job": JOB, "every_ms": -1},
    {"job": JOB, "every_ms": "5s"},
    {"job": JOB, "every_ms": 5_000, "cron": "* * * * *"},
    {"job": JOB, "cron": "61 * * * *"},
    {"job": JOB, "cron": "* * * * *", "timezone": "Mars/Base"},
    {"job": JOB, "every_ms": 5_000, "timezone": "Europe/Zurich"},
    {"job": JOB, "cron": "0 0 30 2 *"},
    {"job": JOB, "repeat": "SOMETIMES"},
    {"job": JOB, "every_ms": 5_000, "overlap": "often"},
    {"job": JOB, "every_ms": 5_000, "misfire": None},
    {"job": JOB, "every_ms": 5_000, "ends_at_ms": 1},
    {"job": JOB, "every_ms": 5_000, "colour": "red"},
    {"job": JOB | {"delay_ms": 5}, "every_ms": 5_000},
    {"job": JOB | {"id": AFTER}, "every_ms": 5_000},
    {"job": JOB | {"parent": AFTER}, "every_ms": 5_000},
    {"job": JOB | {"colour": "red"}, "every_ms": 5_000},
    {"job": JOB | {"payload": 1, "payload_base64": "AA=="}, "every_ms": 5_000},
    {"job": JOB, "every_ms": 5_000, "name": "other"},
]


async def test_schedules_that_cannot_be_are_refused(native_api: NativeApi, service: Service) -> None:
    for body in BAD_SCHEDULES:
        reply = await native_api("PUT", "/schedules/nightly", body)
        assert (reply.status, reply.code) == (400, "bad_input"), body
        assert service.schedules().wait() == [], body


async def test_a_token_for_some_queues_sees_what_makes_jobs_there(native_api: NativeApi, service: Service) -> None:
    make(service, "mine", "mail")
    make(service, "theirs", "billing")
    token = service.create_token(NewToken(name="t", roles=frozenset({Role.READ}), queues=("mail",))).wait().text
    assert [item["name"] for item in (await native_api.get("/schedules", token=token))["schedules"]] == ["mine"]
    assert (await native_api("GET", "/schedules/mine", token=token)).status == 200
    assert (await native_api("GET", "/schedules/theirs", token=token)).code == "forbidden"


async def test_a_schedule_that_was_made_here_fires(native_api: NativeApi, service: Service, store: Store) -> None:
    await native_api.ok("PUT", "/schedules/nightly", HOURLY)
    store.clock_offset_ms += 3_600_000
    service.fire().wait()
    assert (await native_api.get("/schedules/nightly"))["fired"] == 1
    assert service.stats(["reports"]).wait()[0].queued == 1
