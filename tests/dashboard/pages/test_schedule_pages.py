"""Page of a schedule with its runs, and the forms that create and edit schedules."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.dashboard.page_client import Page, PageClient
from windlass.core.access.tokens import NewToken, Role
from windlass.core.callbacks.callback import Callback
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Finish, Take
from windlass.core.retry import Backoff
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

REPORT = NewJob(queue="reports", name="render", payload=Blob(b'{"of":"sales"}'), result_ttl_ms=3_600_000)


async def schedule(service: Service, **more: Any) -> Schedule:
    given: dict[str, Any] = {"name": "nightly", "cron": "30 2 * * 1-5", "timezone": "Europe/Madrid", "job": REPORT}
    return (await service.schedule(Schedule(**(given | more)))).schedule


def typed(page: Page) -> dict[str, str]:
    """Return the hidden fields of the form and the values of its inputs."""
    inputs = {
        field["name"]: field.get("value", "") for field in page.all("input") if field.get("id", "").startswith("s-")
    }
    (rule,) = (field["value"] for field in page.all("input", name="rule") if "checked" in field)
    return page.form("/do/set-schedule") | inputs | {"rule": rule}


async def send(page_client: PageClient, fields: dict[str, str]) -> Page:
    """Send the form, and return the page that follows."""
    answer = await page_client.send("/do/set-schedule", fields)
    return await page_client.get(answer.headers["location"]) if answer.status_code == 303 else Page(answer)


# One schedule


async def test_shows_the_last_runs_and_the_next_occurrences(
    service: Service, store: Store, page_client: PageClient
) -> None:
    await schedule(service)
    finished, waiting = [(await service.run_schedule("nightly")).id for _ in range(2)]
    (job,) = (await service.take(Take(queues=("reports",)))).jobs
    assert job.id == finished
    store.clock_offset_ms += 5_000
    await service.finish([Finish(job.id, job.lease_token, Blob(b"1"))])
    page = await page_client.get("/schedules/nightly")
    rows = [row["data-key"] for row in page.all("tr") if "data-key" in row]
    assert [row.replace("-", "") for row in rows] == [waiting.hex(), finished.hex()]
    for words in (
        "2 in all",
        "weekdays at 02:30, Europe/Madrid",
        "Times in Europe/Madrid.",
        ", 02:30",
        "5 s",
        '"sales"',
    ):
        assert words in page.text, words
    assert page.text.count(", 02:30") == 5
    listed = await page_client.get("/schedules")
    assert listed.all("a", href="/schedules/nightly")
    assert "weekdays at 02:30 Europe/Madrid 30 2 * * 1-5" in listed.text


async def test_says_that_jobs_of_runs_were_removed(service: Service, page_client: PageClient) -> None:
    await schedule(service, job=NewJob(queue="reports", name="render"))
    assert "No runs yet" in (await page_client.get("/schedules/nightly")).text
    await service.run_schedule("nightly")
    (job,) = (await service.take(Take(queues=("reports",)))).jobs
    await service.finish([Finish(job.id, job.lease_token)])
    page = await page_client.get("/schedules/nightly")
    assert "1 of the last runs has ended, and its job was removed." in page.text
    assert "No runs yet" not in page.text


async def test_pauses_with_a_reason_and_deletes_on_its_page(service: Service, page_client: PageClient) -> None:
    await schedule(service)
    page = await page_client.get("/schedules/nightly")
    await page_client.send("/do/pause-schedule", page.form("/do/pause-schedule") | {"reason": "year-end closing"})
    page = await page_client.get("/schedules/nightly")
    assert "Paused: year-end closing" in page.text
    assert "None while the schedule is paused." in page.text
    answer = await page_client.send("/do/delete-schedule", page.form("/do/delete-schedule") | {"confirmed": "1"})
    assert answer.headers["location"] == "/schedules"
    assert (await page_client.get("/schedules/nightly")).status == 404


# The form


async def test_lists_many_schedules_by_page_and_search(service: Service, page_client: PageClient) -> None:
    for number in range(102):
        await schedule(service, name=f"report-{number:03}")
    first = await page_client.get("/schedules")
    assert "Schedules 102" in first.text
    assert "report-099" in first.text
    assert "report-100" not in first.text
    (following,) = (link["href"] for link in first.all("a", rel="next"))
    second = await page_client.get(following)
    assert "report-101" in second.text
    assert "report-099" not in second.text
    assert not second.all("a", rel="next")
    found = await page_client.get("/schedules?search=T-10")
    assert "report-100" in found.text
    assert "report-099" not in found.text
    assert "No matching schedules" in (await page_client.get("/schedules?search=nothing")).text


async def test_creates_a_schedule(service: Service, page_client: PageClient) -> None:
    fields = typed(await page_client.get("/new-schedule")) | {
        "name": "hourly", "rule": "every", "every": "1h", "queue": "mail", "job": "send_digest",
        "payload": '{"to": 7}', "priority": "-3", "attempts": "4", "timeout": "10m", "keep_result": "7d", "lane": "eu",
        "tags": "digest, daily", "overlap": "skip", "misfire": "none", "misfire_after": "5m",
        "starts": "2030-01-01 00:00", "ends": "2031-01-01 00:00",
    }  # fmt: skip
    page = await send(page_client, fields)
    assert "Saved the schedule hourly." in page.text
    assert page.answer.url.path == "/schedules/hourly"
    stored = (await service.schedule_of("hourly")).schedule
    assert stored == Schedule(
        name="hourly", every_ms=3_600_000, overlap="skip", misfire="none", misfire_after_ms=300_000,
        starts_at_ms=1_893_456_000_000, ends_at_ms=1_924_992_000_000,
        job=NewJob(
            queue="mail", name="send_digest", payload=Blob(b'{"to":7}'), priority=-3, retry=Backoff(tries=4),
            timeout_ms=600_000, result_ttl_ms=604_800_000, lane="eu", tags=("digest", "daily"),
        ),
    )  # fmt: skip
    entry = (await service.audits(most=1)).entries[0]
    assert (entry.what, entry.target, entry.outcome) == ("set_schedule", "hourly", "done")


async def test_shows_errors_beside_their_fields_and_loses_nothing(service: Service, page_client: PageClient) -> None:
    wrong = {
        "name": "", "cron": "61 * * * *", "timezone": "Europe/Atlantis", "queue": "", "job": "send", "payload": "{oops",
        "priority": "high", "attempts": "three", "timeout": "soon", "keep_result": "-1d", "starts": "tomorrow",
        "misfire_after": "", "tags": "kept, too", "lane": "la",
    }  # fmt: skip
    page = await send(page_client, typed(await page_client.get("/new-schedule")) | wrong)
    assert page.status == 400
    assert "Nothing was saved. Correct the 11 marked fields." in page.text
    marked = {field["name"] for tag in ("input", "textarea") for field in page.all(tag, aria_invalid="true")}
    assert marked == set(wrong) - {"job", "tags", "lane"}
    for name in marked:
        assert page.all("p", id=f"s-{name}-error"), name
    shown = typed(page)
    assert {name: shown[name] for name in wrong if name != "payload"} == {
        name: text for name, text in wrong.items() if name != "payload"
    }
    assert "{oops" in page.text
    assert "'Europe/Atlantis' is not a time zone" in page.text
    assert await service.schedules() == []
    entry = (await service.audits(most=1)).entries[0]
    assert (entry.what, entry.outcome) == ("set_schedule", "bad_input")


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        ({"rule": "every", "every": "10ms"}, "every", "The shortest interval is 1s."),
        ({"rule": "every", "every": "often"}, "every", "'often' is not a duration"),
        ({"rule": "repeat", "repeat": "SOMETIMES"}, "repeat", "must begin with"),
        ({"cron": ""}, "cron", "Enter minute, hour, day, month and weekday"),
        ({"name": "nightly"}, "name", "A schedule named nightly exists."),
        ({"cron": "0 0 1 1 *", "ends": "2001-01-01"}, "", "This schedule would never fire"),
        ({"priority": "9999999999"}, "priority", "The priority must be between"),
        ({"attempts": "-2"}, "attempts", "between 0"),
    ],
)
async def test_refuses(
    service: Service, page_client: PageClient, wrong: dict[str, str], field: str, words: str
) -> None:
    before = await schedule(service)
    fields = typed(await page_client.get("/new-schedule")) | {"name": "other", "queue": "mail", "job": "send"} | wrong
    page = await send(page_client, fields)
    assert (page.status, words in page.text) == (400, True), page.text
    assert bool(field) == bool(page.all("p", id=f"s-{field}-error"))
    assert [status.schedule for status in await service.schedules()] == [before]


async def test_edits_and_keeps_what_the_form_does_not_show(service: Service, page_client: PageClient) -> None:
    job = NewJob(queue="reports", name="render", unique="one", callback=Callback(url="https://x.example/done"))
    before = await schedule(service, job=job)
    form = await page_client.get("/schedules/nightly/edit")
    same = await send(page_client, typed(form))
    assert "Nothing was changed." in same.text
    assert (await service.schedule_of("nightly")).schedule == before
    await send(page_client, typed(form) | {"cron": "0 4 * * *", "priority": "5"})
    after = (await service.schedule_of("nightly")).schedule
    assert (after.cron, after.timezone, after.job.priority) == ("0 4 * * *", "Europe/Madrid", 5)
    assert (after.job.unique, after.job.callback, after.job.payload) == (job.unique, job.callback, job.payload)


async def test_does_not_replace_the_change_of_another_person(service: Service, page_client: PageClient) -> None:
    await schedule(service)
    mine = typed(await page_client.get("/schedules/nightly/edit")) | {"cron": "0 4 * * *"}
    await schedule(service, cron="0 5 * * *")
    page = await send(page_client, mine)
    assert page.status == 409
    assert "Nothing was saved: this schedule was changed after you opened the form." in page.text
    assert typed(page)["cron"] == "0 4 * * *"
    assert (await service.schedule_of("nightly")).schedule.cron == "0 5 * * *"
    (checkbox,) = page.all("input", name="overwrite")
    assert "checked" not in checkbox
    await send(page_client, typed(page) | {"overwrite": checkbox["value"]})
    assert (await service.schedule_of("nightly")).schedule.cron == "0 4 * * *"


async def test_previews_what_is_typed(page_client: PageClient) -> None:
    page = await page_client.get("/schedule-preview?rule=cron&cron=15+6+*+*+MON&timezone=Asia/Tokyo")
    assert page.text.startswith("every Monday at 06:15, Asia/Tokyo")
    assert (page.text.count("Mon "), page.text.count(", 06:15")) == (5, 5)
    assert "in " in page.text
    interval = await page_client.get("/schedule-preview?rule=every&every=90s")
    assert len(interval.all("time")) == 5
    wrong = await page_client.get("/schedule-preview?rule=cron&cron=nonsense")
    assert (wrong.status, "is not a cron expression" in wrong.text) == (200, True)
    over = await page_client.get("/schedule-preview?rule=cron&cron=0+0+1+1+*&ends=2001-01-01")
    assert over.text == "It has no next occurrence: check the rule, the start and the end."


class TestPayloadsAreHidden:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, roles="api", dashboard_hide_payloads=True)

    async def test_keeps_a_hidden_payload(self, service: Service, page_client: PageClient) -> None:
        await schedule(service)
        assert "sales" not in (await page_client.get("/schedules/nightly")).text
        form = await page_client.get("/schedules/nightly/edit")
        assert "sales" not in form.text
        await send(page_client, typed(form) | {"cron": "0 4 * * *"})
        after = (await service.schedule_of("nightly")).schedule
        assert (after.cron, after.job.payload) == ("0 4 * * *", REPORT.payload)


async def test_only_admins_change_schedules(service: Service, page_client: PageClient) -> None:
    await schedule(service)
    reader = await service.create_token(NewToken(name="reader", roles=frozenset({Role.READ, Role.PRODUCE})))
    headers = {"authorization": f"Bearer {reader.text}"}
    page = await page_client.get("/schedules/nightly", **headers)
    assert page.status == 200
    assert not any(action.startswith("/do/") for action in page.actions)
    assert not page.all("a", href="/schedules/nightly/edit")
    assert not (await page_client.get("/schedules", **headers)).all("a", href="/new-schedule")
    for path in ("/new-schedule", "/schedules/nightly/edit", "/schedule-preview"):
        assert (await page_client.get(path, **headers)).status == 403, path
    fields = {"name": "x", "queue": "reports", "job": "n", "rule": "every", "every": "1h"}
    assert (await page_client.send("/do/set-schedule", fields, **headers)).status_code == 403
    assert len(await service.schedules()) == 1


async def test_hides_a_schedule_of_another_queue(service: Service, page_client: PageClient) -> None:
    await schedule(service)
    mailer = await service.create_token(NewToken(name="m", roles=frozenset({Role.READ}), queues=("mail",)))
    page = await page_client.get("/schedules/nightly", authorization=f"Bearer {mailer.text}")
    assert (page.status, "render" in page.text) == (403, False)


async def test_refuses_a_form_of_another_site(service: Service, page_client: PageClient) -> None:
    fields = typed(await page_client.get("/new-schedule")) | {"name": "x", "queue": "mail", "job": "n"}
    answers = await asyncio.gather(
        page_client.send("/do/set-schedule", fields | {"csrf": "0" * 32}),
        page_client.send("/do/set-schedule", fields, origin="https://evil.example"),
    )
    assert [answer.status_code for answer in answers] == [400, 403]
    assert await service.schedules() == []
