"""Pages of queues, workers, schedules, limits, callbacks and aggregations, with their actions."""

from __future__ import annotations

import html
import re
from typing import Any

import msgspec
import pytest

from tests.dashboard.page_client import Page, PageClient
from windlass.core.access.tokens import NewToken, Role
from windlass.core.callbacks.callback import FailedDelivery
from windlass.core.ids import format_id
from windlass.core.job import Blob, Callback, Cap, NewJob
from windlass.core.limits.condition import Condition
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Finish, Take, Update, WorkerInfo
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.settings import Settings
from windlass.wire.limits import parse_matcher

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
WORKER = b"a worker's id 16"


@pytest.fixture
def server_settings() -> Settings:
    """Without the roles that deliver callbacks and download: only the test does that."""
    return Settings(port=0, bedrock_port=None, roles="api")


async def done(page_client: PageClient, page: Page, action: str, fields: dict[str, Any], **more: str) -> Page:
    """Send the form of an action. Return the page with its message."""
    answer = await page_client.send(f"/do/{action}", page.form(f"/do/{action}", **fields) | more)
    assert answer.status_code == 303, answer.text
    return await page_client.get(answer.headers["location"])


async def last_audited(service: Service) -> tuple[str, str, str]:
    entry = (await service.audits()).entries[0]
    return entry.what, entry.target, entry.outcome


# Queues


async def test_searches_queues_by_part_of_their_name(service: Service, page_client: PageClient) -> None:
    await service.enqueue([NewJob(queue=queue, name="n") for queue in ("mail", "mail eu/west", "images")])
    page = await page_client.get("/queues?search=MAIL")
    assert "images" not in page.text
    assert "mail eu/west" in page.text
    (address,) = [link["href"] for link in page.all("a") if link["href"].endswith("west")]
    assert "mail eu/west" in (await page_client.get(address)).text


async def test_pages_of_queues(service: Service, page_client: PageClient) -> None:
    await service.enqueue([NewJob(queue=f"q{number:03}", name="n") for number in range(150)])
    page = await page_client.get("/queues")
    assert "q099" in page.text
    assert "q100" not in page.text
    (following,) = page.all("a", rel="next")
    rest = await page_client.get(following["href"])
    assert "q100" in rest.text
    assert "q149" in rest.text
    assert not rest.all("a", rel="next")


async def test_shows_a_queue_with_its_pauses_and_limits(service: Service, page_client: PageClient) -> None:
    await service.enqueue([NewJob(queue="mail", name="n", lane="us"), NewJob(queue="mail", name="n", delay_ms=60_000)])
    await service.pause("mail", reason=HOSTILE)
    await service.pause("mail", lane="us", reason="the relay is down")
    await service.limit(Limit(name="gentle", matches=Matcher(queue="mail"), running=3))
    page = await page_client.get("/queues/mail")
    for text in ("paused", HOSTILE, "lane us", "the relay is down", "gentle", "3 at once"):
        assert text in page.text
    assert not [script for script in page.all("script") if "src" not in script]
    assert page.all("svg", **{"class": "chart"})
    assert (await page_client.get("/queues/mail?span=day")).status == 200
    assert (await page_client.get("/queues/mail?span=year")).status == 400


async def test_a_queue_reports_names_that_no_worker_knows(service: Service, page_client: PageClient) -> None:
    await service.enqueue([NewJob(queue="mail", name="send_mial"), NewJob(queue="mail", name=HOSTILE)])
    await service.register(b"w" * 16, WorkerInfo(queues=("mail",), names=("send_mail",)))
    page = await page_client.get("/queues/mail")
    assert 'No worker has a task called "send_mial"; did you mean "send_mail"?' in page.text
    assert HOSTILE in page.text
    assert not page.all("img", src="x")
    (link,) = [link["href"] for link in page.all("a") if "send_mial" in link["href"]]
    listed = await page_client.get(link)
    assert len([row for row in listed.all("tr") if "data-key" in row]) == 1
    assert "No worker" not in (await page_client.get("/queues/other")).text


async def test_configures_a_queue(service: Service, page_client: PageClient) -> None:
    await service.configure("mail", {"history_length": 0})
    page = await page_client.get("/queues/mail")
    after = await done(
        page_client, page, "configure-queue", {}, lease_ms="2m", name_lanes="yes", max_length="7", aging_ms=""
    )
    assert "Changed lease, max length, name lanes of mail." in after.text
    found = await service.configuration("mail")
    assert (found.lease_ms, found.name_lanes, found.max_length, found.aging_ms) == (120_000, True, 7, 0)
    assert await last_audited(service) == ("configure_queue", "mail", "done")


async def test_lease_renewal_is_shown_and_changed(service: Service, page_client: PageClient) -> None:
    for queue in ("mail", "job_queue_mail"):
        await service.configure(queue, {"history_length": 0})
    plain = await page_client.get("/queues/mail")
    assert len(plain.all("select", name="lease_renewal")) == 1
    assert "Lease renewal no (default: no)" not in plain.text
    fixed = await page_client.get("/queues/job_queue_mail")
    assert "Lease renewal no (default: no)" in fixed.text
    # The options of its form show which one is chosen: one more `no` than on the other page.
    chosen = [[option["value"] for option in page.all("option") if "selected" in option] for page in (plain, fixed)]
    assert chosen[1].count("no") == chosen[0].count("no") + 1
    after = await done(page_client, fixed, "configure-queue", {}, lease_renewal="yes")
    assert "Changed lease renewal of job_queue_mail." in after.text
    assert (await service.configuration("job_queue_mail")).lease_renewal
    assert "Lease renewal yes (default: no)" in after.text


async def test_indexed_fields_are_changed_and_removed(service: Service, page_client: PageClient) -> None:
    await service.configure("orders", {"index": ("id",)})
    page = await page_client.get("/queues/orders")
    after = await done(page_client, page, "configure-queue", {}, index=" order_id, customer.email ,")
    assert "Changed index of orders." in after.text
    assert "Indexed fields order_id, customer.email (default: none)" in after.text
    assert (await service.configuration("orders")).index == ("order_id", "customer.email")
    unchanged = await done(page_client, after, "configure-queue", {})
    assert "Nothing was changed." in unchanged.text
    after = await done(page_client, after, "configure-queue", {}, index="")
    assert (await service.configuration("orders")).index == ()


@pytest.mark.parametrize(
    ("field", "text"), [("index", "a..b"), ("lease_ms", "soon"), ("max_length", "-1"), ("retention_ms", "0ms ms")]
)
async def test_refuses_an_invalid_property(service: Service, page_client: PageClient, field: str, text: str) -> None:
    await service.configure("mail", {"history_length": 0})
    page = await page_client.get("/queues/mail")
    answer = await page_client.send(
        "/do/configure-queue", page.form("/do/configure-queue") | {field: text, "fair_share": "yes"}
    )
    assert answer.status_code == 400
    assert text in answer.text
    assert (await service.configuration("mail")).fair_share is False


async def test_pauses_a_lane_and_a_name(service: Service, page_client: PageClient) -> None:
    await service.configure("mail", {"name_lanes": True})
    page = await page_client.get("/queues/mail")
    await done(page_client, page, "pause-queue", {}, lane="us", reason="the relay is down")
    page = await done(page_client, page, "pause-queue", {}, name="send")
    assert {(pause.lane, pause.name) for pause in await service.pauses("mail")} == {("us", ""), ("", "send")}
    assert "name send" in page.text


async def test_resumes_a_lane(service: Service, page_client: PageClient) -> None:
    await service.pause("mail", lane="us")
    page = await page_client.get("/queues/mail")
    await done(page_client, page, "resume-queue", {"lane": "us"})
    assert await service.pauses("mail") == []


# Workers


async def test_shows_workers_with_their_jobs(service: Service, page_client: PageClient) -> None:
    await service.register(WORKER, WorkerInfo(host=HOSTILE, pid=77, queues=("mail",), slots=4, name="app-1"))
    await service.enqueue([NewJob(queue="mail", name=HOSTILE)])
    (job,) = (await service.take(Take(queues=("mail",), worker=WORKER))).jobs
    await service.update([Update(id=job.id, token=job.lease_token, progress=0.62)])
    page = await page_client.get("/workers")
    for text in ("app-1", "pid 77", HOSTILE, "1 of 4", "62 %"):
        assert text in page.text
    assert f"/jobs/{format_id(job.id)}" in [link["href"] for link in page.all("a")]
    assert not page.all("span", **{"class": "badge badge-bad"})


async def test_shows_tasks_versions_and_memory_of_workers(service: Service, page_client: PageClient) -> None:
    info = WorkerInfo(
        name="app-1", names=("send_mail", HOSTILE), version="1.4.2", python="3.13.5", memory_bytes=187 * 2**20
    )
    await service.register(WORKER, info)
    page = await page_client.get("/workers")
    for text in ("2 tasks", "send_mail", HOSTILE, "1.4.2", "Python 3.13.5", "187 MiB"):
        assert text in page.text, text
    await service.register(WORKER, WorkerInfo(name="app-1"))  # of an earlier version
    page = await page_client.get("/workers")
    assert page.text.count("–") == 3


async def test_parts_of_servers_do_not_count_as_workers(service: Service, page_client: PageClient) -> None:
    part = WorkerInfo(name="downloads", component="downloads", host="server-1", slots=30, memory_bytes=2**20)
    await service.register(b"a part of server", part)
    page = await page_client.get("/workers")
    assert "No workers" in page.text
    assert "Workers 0 Busy slots 0 of 0 Lost 0" in page.text
    assert "Server processes" in page.text
    assert "downloads server-1 0 of 30 1.0 MiB" in page.text
    assert "/do/stop-worker" not in page.actions
    await service.register(WORKER, WorkerInfo(name="app-1", slots=4))
    page = await page_client.get("/workers")
    assert "Workers 1 Busy slots 0 of 4 Lost 0" in page.text


async def test_marks_a_lost_worker(service: Service, page_client: PageClient) -> None:
    await service.register(WORKER, WorkerInfo(queues=("mail",)), beat_ms=30_000)
    service.store.clock_offset_ms += 40_000
    page = await page_client.get("/workers")
    assert page.all("span", **{"class": "badge badge-bad"}) or "No workers" in page.text


async def test_stops_a_worker(service: Service, page_client: PageClient) -> None:
    await service.register(WORKER, WorkerInfo(queues=("mail",), name="app-1"))
    page = await page_client.get("/workers")
    question = await page_client.send("/do/stop-worker", page.form("/do/stop-worker"))
    assert "Stop app-1?" in question.text
    assert (await service.workers())[0].stopping_since_ms is None
    page = await done(page_client, Page(question), "stop-worker", {})
    assert (await service.workers())[0].stopping_since_ms
    assert "stopping" in page.text
    assert "/do/stop-worker" not in page.actions


# Schedules


async def test_runs_pauses_resumes_and_deletes_a_schedule(service: Service, page_client: PageClient) -> None:
    job = NewJob(queue="reports", name="render")
    await service.schedule(Schedule(name="nightly", cron="30 2 * * 1-5", job=job))
    page = await page_client.get("/schedules")
    assert "weekdays at 02:30" in page.text
    assert "30 2 * * 1-5" in page.text
    page = await done(page_client, page, "run-schedule", {"name": "nightly"})
    assert (await service.stats(["reports"]))[0].queued == 1
    page = await done(page_client, page, "pause-schedule", {"name": "nightly"})
    assert "paused" in page.text
    page = await done(page_client, page, "resume-schedule", {"name": "nightly"})
    assert not (await service.schedule_of("nightly")).is_paused
    fields = page.form("/do/delete-schedule", name="nightly")
    question = await page_client.send("/do/delete-schedule", fields)
    assert "Delete the schedule nightly?" in question.text
    assert len(await service.schedules()) == 1
    page = await done(page_client, Page(question), "delete-schedule", {"confirmed": "1"})
    assert await service.schedules() == []
    assert "No schedules" in page.text
    assert await last_audited(service) == ("delete_schedule", "nightly", "done")


# Limits


async def test_sets_changes_and_deletes_a_limit(service: Service, page_client: PageClient) -> None:
    page = await page_client.get("/limits")
    page = await done(page_client, page, "set-limit", {}, name="one each", queue="mail", key="customer", running="1")
    (found,) = await service.limits()
    assert found.limit == Limit(name="one each", matches=Matcher(queue="mail"), running=1, key="customer")
    page = await done(page_client, page, "change-limit", {"name": "one each"}, running="3")
    assert "one each allows 3 at once" in page.text
    assert (await service.limits())[0].limit.running == 3
    question = await page_client.send("/do/delete-limit", page.form("/do/delete-limit", name="one each"))
    assert len(await service.limits()) == 1
    await done(page_client, Page(question), "delete-limit", {})
    assert await service.limits() == []


async def test_a_limit_has_conditions(service: Service, page_client: PageClient) -> None:
    page = await page_client.get("/limits")
    typed = '{"name": {"prefix": "send_"}, "payload": {"size": {"gt": 1000}, "plan": {"not": "gold"}}}'
    page = await done(page_client, page, "set-limit", {}, name="large", matches=typed, running="1")
    assert "large allows 1 at once, for name~send_* size>1000" in page.text
    wanted = Matcher(
        name=Condition(prefix="send_"), payload={"size": Condition(gt=1000), "plan": Condition(not_="gold")}
    )
    (found,) = await service.limits()
    assert found.limit == Limit(name="large", matches=wanted, running=1)
    (shown,) = re.findall(r'name="matches"[^>]*>\s*({.*?})</textarea>', page.answer.text)
    assert parse_matcher(html.unescape(shown)) == wanted, "the form shows the conditions, ready to change"
    page = await done(page_client, page, "change-limit", {"name": "large"}, running="2")
    assert (await service.limits())[0].limit == Limit(name="large", matches=wanted, running=2)
    page = await done(page_client, page, "change-limit", {"name": "large"}, running="2", matches=' {"queue": "q"} ')
    assert (await service.limits())[0].limit == Limit(name="large", matches=Matcher(queue="q"), running=2)
    await done(page_client, page, "change-limit", {"name": "large"}, matches=" ", running="3")
    assert (await service.limits())[0].limit == Limit(name="large", matches=Matcher(queue="q"), running=3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "x", "running": "1", "matches": "plan"}, "is not a matcher"),
        ({"name": "x", "running": "1", "matches": '{"payload": {"a": {"like": 7}}}'}, "like"),
        ({"name": "x", "running": "1", "matches": '{"payload": {"a": {}}}'}, "empty"),
        ({"name": "x", "running": "1", "matches": "{}", "queue": "mail"}, "either"),
        ({"name": "x"}, "either"),
        ({"name": "x", "running": "1", "rate": "1"}, "either"),
        ({"name": "x", "running": "many"}, "whole number"),
        ({"name": "x", "rate": "5", "per": "often"}, "often"),
        ({"name": "", "running": "1"}, "name"),
        ({"name": "gentle", "running": "1"}, "already"),
    ],
)
async def test_refuses_an_invalid_limit(
    service: Service, page_client: PageClient, fields: dict[str, str], message: str
) -> None:
    await service.limit(Limit(name="gentle", matches=Matcher(queue="mail"), running=3))
    page = await page_client.get("/limits")
    answer = await page_client.send("/do/set-limit", page.form("/do/set-limit") | fields)
    assert answer.status_code == 400
    assert message in answer.text
    assert [state.limit.running for state in await service.limits()] == [3]


async def test_shows_how_full_a_limit_is(service: Service, page_client: PageClient) -> None:
    await service.limit(Limit(name="per customer", matches=Matcher(queue="mail"), running=2, key="customer"))
    await service.enqueue([NewJob(queue="mail", name="n", payload=Blob(b'{"customer": 7}')) for _ in range(4)])
    await service.take(Take(queues=("mail",), most=4))
    page = await page_client.get("/limits")
    assert "2 of 2" in page.text
    assert page.all("svg", **{"class": "gauge gauge-full"})


async def test_shows_the_jobs_that_hold_a_limit(service: Service, page_client: PageClient) -> None:
    await service.limit(Limit(name="per customer", matches=Matcher(queue="mail"), running=1, key="customer"))
    payloads = (b'{"customer": 7}', b'{"customer": 7}', b'{"customer": "<i>"}')
    await service.enqueue([NewJob(queue="mail", name="send", payload=Blob(payload)) for payload in payloads])
    first, second = (await service.take(Take(queues=("mail",), most=4))).jobs
    page = await page_client.get("/limits/per%20customer")
    addresses = [link["href"] for link in page.all("a") if "key=" in link.get("href", "")]
    assert len(addresses) == 2
    shown = [await page_client.get(address) for address in addresses]
    assert {f"/jobs/{format_id(job.id)}" for job in (first, second)} == {
        link["href"] for page in shown for link in page.all("a") if link["href"].startswith("/jobs/")
    }
    lanes = await page_client.get("/queues/mail")
    assert "/limits/per%20customer" in [link["href"] for link in lanes.all("a")]
    assert (await page_client.get("/limits/nothing")).status == 404


async def test_changes_the_cap_of_a_key(service: Service, page_client: PageClient) -> None:
    each = Limit(name="per shop", matches=Matcher(queue="feeds"), running=4, key="shop", own_caps=True)
    await service.limit(each)
    for shop in ("acme", HOSTILE):
        feed = NewJob(
            queue="feeds", name="fetch", payload=Blob(msgspec.json.encode({"shop": shop})),
            cap=Cap(limit="per shop", running=1),
        )  # fmt: skip
        await service.enqueue([feed] * 3)
    held = (await service.take(Take(queues=("feeds",), most=9))).jobs
    assert len(held) == 2
    page = await page_client.get("/limits/per%20shop")
    addresses = [link["href"] for link in page.all("a") if "key=" in link.get("href", "")]
    assert len(addresses) == 2
    for address in addresses:
        page = await page_client.get(address)
        jobs = [link["href"] for link in page.all("a") if link["href"].startswith("/jobs/")]
        assert len(jobs) == 1, "the running job of the key"
        page = await done(page_client, page, "set-cap", {"name": "per shop"}, running="3")
        assert "Up to 3 jobs of" in page.text
    shops = (await service.aggregations("per shop")).aggregations
    assert {(shop.key, shop.cap) for shop in shops} == {("acme", 3), (HOSTILE, 3)}
    for wrong, status in (("0", 400), ("many", 400), ("", 400)):
        answer = await page_client.send("/do/set-cap", page.form("/do/set-cap") | {"running": wrong})
        assert answer.status_code == status
    gone = page.form("/do/set-cap") | {"key": "nothing", "running": "3"}
    assert (await page_client.send("/do/set-cap", gone)).status_code == 404
    assert {shop.cap for shop in (await service.aggregations("per shop")).aggregations} == {3}


# Callbacks and aggregations


async def test_shows_pending_and_given_up_callbacks(service: Service, page_client: PageClient) -> None:
    target = "https://someone:secret@receiver.example/done?key=secret"
    job = NewJob(queue="mail", name="send", callback=Callback(url=target))
    await service.enqueue([job])
    (taken,) = (await service.take(Take(queues=("mail",)))).jobs
    await service.finish([Finish(taken.id, taken.lease_token)])
    page = await page_client.get("/callbacks")
    assert "https://receiver.example/done?…" in page.text
    assert "secret" not in page.answer.text
    (leased,) = (await service.take_callbacks()).callbacks
    await service.retry_callbacks([FailedDelivery(id=leased.id, token=leased.token, error=HOSTILE, give_up=True)])
    assert "No pending callbacks" in (await page_client.get("/callbacks")).text
    page = await page_client.get("/callbacks?state=given-up")
    assert HOSTILE in page.text
    await done(page_client, page, "redeliver", {"callback": leased.key})
    assert len((await service.callbacks()).callbacks) == 1
    assert (await page_client.send("/do/redeliver", page.form("/do/redeliver"))).status_code in (404, 409)


async def test_shows_aggregations(service: Service, page_client: PageClient) -> None:
    assert "No downloads" in (await page_client.get("/aggregations")).text
    order = {"url": "http://192.0.2.1/a", "aggr_limit": 2, "callback_url": "http://192.0.2.1/done"}
    for aggregation in ("shop", HOSTILE):
        order |= {"aggr_id": aggregation, "aggr_proxy": "http://user:hush@192.0.2.9:3128"}
        assert (await page_client.http.post("/downloader/download", json=order)).status_code == 201
    await service.publish_stats("processor", HOSTILE, {"alive": 1, "spawnedWorkers": 12, "download.response.404": 3})
    await service.publish_stats("notifier", "one", {"alive": 1, "successfulCallbacks": 7})
    page = await page_client.get("/aggregations")
    counters = ("12 started", "3 answered 404", "7 delivered")
    for text in ("shop", HOSTILE, "0 of 2", "http://192.0.2.9:3128", *counters):
        assert text in page.text
    assert "hush" not in page.answer.text
    (address,) = [link["href"] for link in page.all("a") if "key=%22shop" in link.get("href", "")]
    page = await done(page_client, await page_client.get(address), "set-cap", {}, running="7")
    assert "Up to 7 jobs of shop may run at once." in page.text
    assert "0 of 7" in (await page_client.get("/aggregations")).text


# Permissions


async def test_the_role_read_for_one_queue(service: Service, page_client: PageClient) -> None:
    await service.limit(Limit(name="gentle", matches=Matcher(queue="mail"), running=3))
    await service.schedule(Schedule(name="nightly", every_ms=60_000, job=NewJob(queue="mail", name="n")))
    await service.schedule(Schedule(name="other", every_ms=60_000, job=NewJob(queue="images", name="n")))
    await service.enqueue([NewJob(queue="images", name="n"), NewJob(queue="mail", name="n")])
    made = await service.create_token(NewToken(name="r", roles=frozenset({Role.READ}), queues=("mail",)))
    while (await page_client.get("/")).status == 200:  # until the server knows the token
        pass
    assert (await page_client.log_in(made.text)).status_code == 303
    for path in ("/queues", "/queues/mail", "/tasks", "/workers", "/schedules", "/limits", "/callbacks"):
        page = await page_client.get(path)
        assert page.status == 200, path
        assert not [action for action in page.actions if "/do/" in action], path
        assert "images" not in page.text, path
        assert "other" not in page.text, path
    assert (await page_client.get("/queues/images")).status == 403
    fields = {"csrf": (await page_client.get("/queues")).form("/logout")["csrf"], "name": "gentle", "running": "9"}
    assert (await page_client.send("/do/change-limit", fields)).status_code == 403
    assert (await service.limits())[0].limit.running == 3
