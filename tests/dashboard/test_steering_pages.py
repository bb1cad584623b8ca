"""Pages of queues, workers, schedules, limits, callbacks and aggregations: what they show, and what is done there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.page_client import Looker, Page
from windlass.core.access.tokens import NewToken, Role
from windlass.core.callbacks.callback import FailedDelivery
from windlass.core.ids import format_id
from windlass.core.job import Blob, Callback, NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Finish, Take, Update, WorkerInfo
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.settings import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
WORKER = b"a worker's id 16"


@pytest.fixture
def server_settings() -> Settings:
    """Nobody but the test delivers callbacks, and nobody downloads."""
    return Settings(port=0, bedrock_port=None, roles="api")


async def done(looker: Looker, page: Page, action: str, fields: dict[str, Any], **more: str) -> Page:
    """The page that says how it went."""
    answer = await looker.send(f"/do/{action}", page.form(f"/do/{action}", **fields) | more)
    assert answer.status_code == 303, answer.text
    return await looker.look(answer.headers["location"])


async def last_audited(service: Service) -> tuple[str, str, str]:
    entry = (await service.audits()).entries[0]
    return entry.what, entry.target, entry.outcome


# Queues


async def test_queues_are_found_by_a_part_of_their_name(service: Service, looker: Looker) -> None:
    await service.enqueue([NewJob(queue=queue, name="n") for queue in ("mail", "mail eu/west", "images")])
    page = await looker.look("/queues?search=MAIL")
    assert "images" not in page.text
    assert "mail eu/west" in page.text
    (link,) = [one["href"] for one in page.all("a") if one["href"].endswith("west")]
    assert "mail eu/west" in (await looker.look(link)).text


async def test_many_queues_come_in_pages(service: Service, looker: Looker) -> None:
    await service.enqueue([NewJob(queue=f"q{number:03}", name="n") for number in range(150)])
    page = await looker.look("/queues")
    assert "q099" in page.text
    assert "q100" not in page.text
    (following,) = page.all("a", rel="next")
    rest = await looker.look(following["href"])
    assert "q100" in rest.text
    assert "q149" in rest.text
    assert not rest.all("a", rel="next")


async def test_a_queue_shows_what_it_holds_and_why_it_is_paused(service: Service, looker: Looker) -> None:
    await service.enqueue([NewJob(queue="mail", name="n", lane="us"), NewJob(queue="mail", name="n", delay_ms=60_000)])
    await service.pause("mail", reason=HOSTILE)
    await service.pause("mail", lane="us", reason="the relay is down")
    await service.limit(Limit(name="gentle", matches=Matcher(queue="mail"), running=3))
    page = await looker.look("/queues/mail")
    for text in ("paused", HOSTILE, "lane us", "the relay is down", "gentle", "3 at once"):
        assert text in page.text
    assert not [one for one in page.all("script") if "src" not in one]
    assert page.all("svg", **{"class": "chart"})
    assert (await looker.look("/queues/mail?span=day")).status == 200
    assert (await looker.look("/queues/mail?span=year")).status == 400


async def test_a_queue_is_configured(service: Service, looker: Looker) -> None:
    page = await looker.look("/queues/mail")
    after = await done(
        looker, page, "configure-queue", {}, lease_ms="2m", name_lanes="yes", max_length="7", aging_ms=""
    )
    assert "mail has another" in after.text
    found = await service.configuration("mail")
    assert (found.lease_ms, found.name_lanes, found.max_length, found.aging_ms) == (120_000, True, 7, 0)
    assert await last_audited(service) == ("configure_queue", "mail", "done")


@pytest.mark.parametrize(("field", "text"), [("lease_ms", "soon"), ("max_length", "-1"), ("retention_ms", "0ms ms")])
async def test_a_property_that_cannot_be_changes_nothing(
    service: Service, looker: Looker, field: str, text: str
) -> None:
    page = await looker.look("/queues/mail")
    answer = await looker.send(
        "/do/configure-queue", page.form("/do/configure-queue") | {field: text, "fair_share": "yes"}
    )
    assert answer.status_code == 400
    assert text in answer.text
    assert (await service.configuration("mail")).fair_share is False


async def test_a_part_of_a_queue_is_paused(service: Service, looker: Looker) -> None:
    await service.configure("mail", {"name_lanes": True})
    page = await looker.look("/queues/mail")
    await done(looker, page, "pause-queue", {}, lane="us", reason="the relay is down")
    page = await done(looker, page, "pause-queue", {}, name="send")
    assert {(one.lane, one.name) for one in await service.pauses("mail")} == {("us", ""), ("", "send")}
    assert "name send" in page.text


async def test_a_part_of_a_queue_is_resumed(service: Service, looker: Looker) -> None:
    await service.pause("mail", lane="us")
    page = await looker.look("/queues/mail")
    await done(looker, page, "resume-queue", {"lane": "us"})
    assert await service.pauses("mail") == []


# Workers


async def test_workers_and_what_they_run(service: Service, looker: Looker) -> None:
    await service.register(WORKER, WorkerInfo(host=HOSTILE, pid=77, queues=("mail",), slots=4, name="app-1"))
    await service.enqueue([NewJob(queue="mail", name=HOSTILE)])
    (job,) = (await service.take(Take(queues=("mail",), worker=WORKER))).jobs
    await service.update([Update(id=job.id, token=job.lease_token, progress=0.62)])
    page = await looker.look("/workers")
    for text in ("app-1", "pid 77", HOSTILE, "1 of 4", "62 %"):
        assert text in page.text
    assert f"/jobs/{format_id(job.id)}" in [one["href"] for one in page.all("a")]
    assert not page.all("span", **{"class": "badge badge-bad"})


async def test_a_worker_that_was_not_heard_of(service: Service, looker: Looker) -> None:
    await service.register(WORKER, WorkerInfo(queues=("mail",)), beat_ms=30_000)
    service.store.clock_offset_ms += 40_000
    page = await looker.look("/workers")
    assert page.all("span", **{"class": "badge badge-bad"}) or "Nobody works" in page.text


async def test_a_worker_is_asked_to_stop(service: Service, looker: Looker) -> None:
    await service.register(WORKER, WorkerInfo(queues=("mail",), name="app-1"))
    page = await looker.look("/workers")
    asked = await looker.send("/do/stop-worker", page.form("/do/stop-worker"))
    assert "Stop app-1?" in asked.text
    assert (await service.workers())[0].stopping_since_ms is None
    page = await done(looker, Page(asked), "stop-worker", {})
    assert (await service.workers())[0].stopping_since_ms
    assert "stopping" in page.text
    assert "/do/stop-worker" not in page.actions


# Schedules


async def test_schedules_are_run_paused_resumed_and_deleted(service: Service, looker: Looker) -> None:
    job = NewJob(queue="reports", name="render")
    await service.schedule(Schedule(name="nightly", cron="30 2 * * 1-5", job=job))
    page = await looker.look("/schedules")
    assert "weekdays at 02:30" in page.text
    assert "30 2 * * 1-5" in page.text
    page = await done(looker, page, "run-schedule", {"name": "nightly"})
    assert (await service.stats(["reports"]))[0].queued == 1
    page = await done(looker, page, "pause-schedule", {"name": "nightly"})
    assert "paused" in page.text
    page = await done(looker, page, "resume-schedule", {"name": "nightly"})
    assert not (await service.schedule_of("nightly")).is_paused
    fields = page.form("/do/delete-schedule", name="nightly")
    asked = await looker.send("/do/delete-schedule", fields)
    assert "Delete the schedule nightly?" in asked.text
    assert len(await service.schedules()) == 1
    page = await done(looker, Page(asked), "delete-schedule", {"confirmed": "1"})
    assert await service.schedules() == []
    assert "Nothing is scheduled" in page.text
    assert await last_audited(service) == ("delete_schedule", "nightly", "done")


# Limits


async def test_limits_are_set_changed_and_taken_away(service: Service, looker: Looker) -> None:
    page = await looker.look("/limits")
    page = await done(looker, page, "set-limit", {}, name="one each", queue="mail", key="customer", running="1")
    (found,) = await service.limits()
    assert found.limit == Limit(name="one each", matches=Matcher(queue="mail"), running=1, key="customer")
    page = await done(looker, page, "change-limit", {"name": "one each"}, running="3")
    assert "one each allows 3 at once" in page.text
    assert (await service.limits())[0].limit.running == 3
    asked = await looker.send("/do/delete-limit", page.form("/do/delete-limit", name="one each"))
    assert len(await service.limits()) == 1
    await done(looker, Page(asked), "delete-limit", {})
    assert await service.limits() == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "x"}, "either"),
        ({"name": "x", "running": "1", "rate": "1"}, "either"),
        ({"name": "x", "running": "many"}, "whole number"),
        ({"name": "x", "rate": "5", "per": "often"}, "often"),
        ({"name": "", "running": "1"}, "name"),
        ({"name": "gentle", "running": "1"}, "already"),
    ],
)
async def test_a_limit_that_cannot_be_is_refused(
    service: Service, looker: Looker, fields: dict[str, str], said: str
) -> None:
    await service.limit(Limit(name="gentle", matches=Matcher(queue="mail"), running=3))
    page = await looker.look("/limits")
    answer = await looker.send("/do/set-limit", page.form("/do/set-limit") | fields)
    assert answer.status_code == 400
    assert said in answer.text
    assert [one.limit.running for one in await service.limits()] == [3]


async def test_how_full_limits_are(service: Service, looker: Looker) -> None:
    await service.limit(Limit(name="per customer", matches=Matcher(queue="mail"), running=2, key="customer"))
    await service.enqueue([NewJob(queue="mail", name="n", payload=Blob(b'{"customer": 7}')) for _ in range(4)])
    await service.take(Take(queues=("mail",), most=4))
    page = await looker.look("/limits")
    assert "2 of 2" in page.text
    assert page.all("svg", **{"class": "gauge gauge-full"})


async def test_who_holds_a_limit(service: Service, looker: Looker) -> None:
    await service.limit(Limit(name="per customer", matches=Matcher(queue="mail"), running=1, key="customer"))
    payloads = (b'{"customer": 7}', b'{"customer": 7}', b'{"customer": "<i>"}')
    await service.enqueue([NewJob(queue="mail", name="send", payload=Blob(one)) for one in payloads])
    first, second = (await service.take(Take(queues=("mail",), most=4))).jobs
    page = await looker.look("/limits/per%20customer")
    links = [one["href"] for one in page.all("a") if "key=" in one.get("href", "")]
    assert len(links) == 2
    shown = [await looker.look(link) for link in links]
    assert {f"/jobs/{format_id(job.id)}" for job in (first, second)} == {
        one["href"] for page in shown for one in page.all("a") if one["href"].startswith("/jobs/")
    }
    lanes = await looker.look("/queues/mail")
    assert "/limits/per%20customer" in [one["href"] for one in lanes.all("a")]
    assert (await looker.look("/limits/nothing")).status == 404


# Callbacks and aggregations


async def test_callbacks_owed_and_given_up(service: Service, looker: Looker) -> None:
    target = "https://someone:secret@receiver.example/done?key=secret"
    job = NewJob(queue="mail", name="send", callback=Callback(url=target))
    await service.enqueue([job])
    (taken,) = (await service.take(Take(queues=("mail",)))).jobs
    await service.finish([Finish(taken.id, taken.lease_token)])
    page = await looker.look("/callbacks")
    assert "https://receiver.example/done?…" in page.text
    assert "secret" not in page.answer.text
    (debt,) = (await service.take_callbacks()).callbacks
    await service.retry_callbacks([FailedDelivery(id=debt.id, token=debt.token, error=HOSTILE, give_up=True)])
    assert "Nothing is owed" in (await looker.look("/callbacks")).text
    page = await looker.look("/callbacks?state=given-up")
    assert HOSTILE in page.text
    await done(looker, page, "redeliver", {"callback": debt.key})
    assert len((await service.callbacks()).callbacks) == 1
    assert (await looker.send("/do/redeliver", page.form("/do/redeliver"))).status_code in (404, 409)


async def test_aggregations(service: Service, looker: Looker) -> None:
    assert "No downloads under way" in (await looker.look("/aggregations")).text
    order = {"url": "http://192.0.2.1/a", "aggr_limit": 2, "callback_url": "http://192.0.2.1/done"}
    for aggregation in ("shop", HOSTILE):
        order |= {"aggr_id": aggregation, "aggr_proxy": "http://192.0.2.9:3128"}
        assert (await looker.client.post("/downloader/download", json=order)).status_code == 201
    await service.publish_stats("processor", HOSTILE, {"alive": 1, "spawnedWorkers": 12, "download.response.404": 3})
    await service.publish_stats("notifier", "one", {"alive": 1, "successfulCallbacks": 7})
    page = await looker.look("/aggregations")
    told = ("12 begun", "3 answered 404", "7 delivered")
    for text in ("shop", HOSTILE, "0 of 2", "http://192.0.2.9:3128", *told):
        assert text in page.text


# Who may


async def test_readers_see_and_cannot_change(service: Service, looker: Looker) -> None:
    await service.limit(Limit(name="gentle", matches=Matcher(queue="mail"), running=3))
    await service.schedule(Schedule(name="nightly", every_ms=60_000, job=NewJob(queue="mail", name="n")))
    await service.schedule(Schedule(name="other", every_ms=60_000, job=NewJob(queue="images", name="n")))
    await service.enqueue([NewJob(queue="images", name="n")])
    made = await service.create_token(NewToken(name="r", roles=frozenset({Role.READ}), queues=("mail",)))
    while (await looker.look("/")).status == 200:  # until the server has heard of it
        pass
    assert (await looker.log_in(made.text)).status_code == 303
    for path in ("/queues", "/queues/mail", "/workers", "/schedules", "/limits", "/callbacks"):
        page = await looker.look(path)
        assert page.status == 200, path
        assert not [one for one in page.actions if "/do/" in one], path
        assert "images" not in page.text, path
        assert "other" not in page.text.replace("Waits for others", ""), path
    assert (await looker.look("/queues/images")).status == 403
    fields = {"csrf": (await looker.look("/queues")).form("/logout")["csrf"], "name": "gentle", "running": "9"}
    assert (await looker.send("/do/change-limit", fields)).status_code == 403
    assert (await service.limits())[0].limit.running == 3
