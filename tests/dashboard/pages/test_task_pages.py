"""Pages of tasks; pages of tasks and queues that do not exist; removal of queues; unknown names on the overview."""

from __future__ import annotations

import json

import pytest

from tests.dashboard.page_client import PageClient
from windlass.core.access.tokens import NewToken, Role
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Fail, Take, WorkerInfo
from windlass.core.stats.task_figures import TaskSums, bucket_of
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

WORKER = b"w" * 16
HOUR_MS = 3_600_000


@pytest.fixture
def mailing(service: Service) -> Service:
    info = WorkerInfo(name="mailer-1", queues=("mail", "bulk"), names=("send_mail", "check_inbox"))
    service.register(WORKER, info, beat_ms=HOUR_MS).wait()
    sums = [
        TaskSums(queue="mail", name="send_mail", failed=1, retried=2, runs={bucket_of(100): 60}),
        TaskSums(queue="bulk", name="send_mail", runs={bucket_of(100): 30}),
    ]
    service.report_tasks(WORKER, 1, sums).wait()
    return service


def fail_one(service: Service, queue: str, name: str) -> None:
    service.enqueue([NewJob(queue=queue, name=name)]).one().wait()
    [job] = service.take(Take(queues=(queue,))).wait().jobs
    error = Blob(b'{"type": "SMTPError", "message": "refused"}')
    service.fail([Fail(id=job.id, token=job.lease_token, then="final", error=error)]).wait()


# Tasks


async def test_the_list_of_tasks(page_client: PageClient, mailing: Service) -> None:
    fail_one(mailing, "mail", "send_mail")
    page = await page_client.get("/tasks")
    assert "check_inbox 0 0 0 – – – 1 0 –" in page.text
    assert "send_mail 90 1 2 104 ms 111 ms 112 ms 1 1 bulk, mail" in page.text
    assert page.all("a", href="/jobs?state=failed&name=%3Dsend_mail")
    assert "check_inbox" not in (await page_client.get("/tasks?search=MAIL")).text


async def test_a_task(page_client: PageClient, mailing: Service) -> None:
    fail_one(mailing, "mail", "send_mail")
    page = await page_client.get("/tasks/send_mail")
    assert page.status == 200
    for text in (
        "Run p50 104 ms",
        "Run p99 112 ms",
        "2 retried",
        "mailer-1 mail, bulk",
        "SMTPError: refused",
    ):
        assert text in page.text
    assert "measured by SDK workers" in page.text
    for href in ("/queues/mail", "/queues/bulk", "/jobs?state=queued&name=%3Dsend_mail"):
        assert page.all("a", href=href), href


@pytest.mark.parametrize(("span", "steps"), [("quarter", 15), ("hour", 60), ("day", 96)])
async def test_charts_of_a_task(page_client: PageClient, mailing: Service, span: str, steps: int) -> None:
    page = await page_client.get(f"/tasks/send_mail?span={span}")
    attempts, runs = [json.loads(svg["data-chart"])["series"] for svg in page.all("svg") if "data-chart" in svg]
    values = {line["name"]: line["values"] for line in (*attempts, *runs)}
    assert {len(line) for line in values.values()} == {steps}
    minutes = 15 if span == "day" else 1
    assert (sum(values["Finished"]), sum(values["Failed"])) == (90 / minutes, 3 / minutes)
    assert [run for run in values["Run p95"] if run is not None] == [111]


async def test_an_unknown_task_is_not_found(page_client: PageClient, mailing: Service) -> None:
    page = await page_client.get("/tasks/send_mial")
    assert page.status == 404
    assert 'No worker has a task called "send_mial"; did you mean "send_mail"?' in page.text
    assert page.all("a", href="/tasks/send_mail")


async def test_a_user_sees_the_tasks_of_own_queues(page_client: PageClient, mailing: Service) -> None:
    fail_one(mailing, "bulk", "send_mail")
    roles = frozenset({Role.READ})
    token = mailing.create_token(NewToken(name="r", roles=roles, queues=("mail",))).wait().text
    while (await page_client.get("/")).status == 200:  # until the server knows the token
        pass
    await page_client.log_in(token)
    page = await page_client.get("/tasks/send_mail")
    assert "60" in page.text
    assert "bulk" not in page.text
    assert "SMTPError" not in page.text
    assert "send_mail 60 1 2" in (await page_client.get("/tasks")).text


# Queues that do not exist


async def test_a_queue_that_never_existed_is_not_found(page_client: PageClient, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="n")]).wait()
    page = await page_client.get("/queues/mial")
    assert page.status == 404
    assert 'Queue "mial" does not exist; did you mean "mail"?' in page.text
    assert page.all("a", href="/queues/mail")
    assert (await page_client.get("/queues/video")).status == 404


async def test_a_queue_that_is_listed_has_its_page(page_client: PageClient, service: Service) -> None:
    """The engine forgets an empty queue. The list keeps its row for a day."""
    service.enqueue([NewJob(queue="mail", name="n")]).wait()
    assert page_client is not None
    assert (await page_client.get("/queues")).all("a", href="/queues/mail")
    [job] = service.take(Take(queues=("mail",))).wait().jobs
    service.delete([job.id], even_leased=True).wait()
    service.sweep().wait()
    assert service.queues().wait() == []
    assert (await page_client.get("/queues")).all("a", href="/queues/mail")
    assert (await page_client.get("/queues/mail")).status == 200


async def test_an_empty_queue_is_removed_after_a_question(page_client: PageClient, service: Service) -> None:
    service.configure("mail", {"lease_ms": 5_000}).wait()
    form = (await page_client.get("/queues/mail")).form("/do/remove-queue", queue="mail")
    question = await page_client.send("/do/remove-queue", form)
    assert "Remove the queue mail with its properties" in question.text
    assert service.queues().wait() == ["mail"]
    answer = await page_client.send("/do/remove-queue", form | {"confirmed": "1"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/queues")
    listed = await page_client.get("/queues")
    assert "mail is removed." in listed.text
    assert not listed.all("a", href="/queues/mail")
    assert (await page_client.get("/queues/mail")).status == 404
    [entry] = service.audits().wait().entries
    assert (entry.what, entry.target, entry.outcome) == ("remove_queue", "mail", "done")


async def test_a_queue_with_jobs_has_no_button_and_is_not_removed(page_client: PageClient, service: Service) -> None:
    service.configure("mail", {"lease_ms": 5_000}).wait()
    form = (await page_client.get("/queues/mail")).form("/do/remove-queue")
    service.enqueue([NewJob(queue="mail", name="n")]).wait()
    assert "/do/remove-queue" not in (await page_client.get("/queues/mail")).actions
    answer = await page_client.send("/do/remove-queue", form | {"confirmed": "1"})
    assert answer.status_code == 409
    assert "holds 1 job" in answer.text


# Overview


async def test_the_overview_reports_unknown_names(page_client: PageClient, mailing: Service) -> None:
    for queue, name in (("mail", "send_mial"), ("bulk", "nonsense"), ("mail", "send_mail")):
        mailing.enqueue([NewJob(queue=queue, name=name)]).wait()
    page = await page_client.get("/")
    assert 'mail : No worker has a task called "send_mial"; did you mean "send_mail"? Show its jobs' in page.text
    assert 'bulk : No worker has a task called "nonsense". Show its jobs' in page.text
    assert page.all("a", href="/jobs?state=queued&queue=mail&name=%3Dsend_mial")


async def test_the_overview_names_some_of_many_unknown_names(page_client: PageClient, mailing: Service) -> None:
    mailing.enqueue([NewJob(queue="mail", name=f"n{number}") for number in range(8)]).wait()
    text = (await page_client.get("/")).text
    assert text.count("No worker has a task called") == 3
    assert "mail : 5 more such names" in text


async def test_the_overview_without_unknown_names(page_client: PageClient, mailing: Service) -> None:
    mailing.enqueue([NewJob(queue="mail", name="send_mail")]).wait()
    assert "No worker has a task" not in (await page_client.get("/")).text
