"""Actions on jobs through the forms of their pages: permissions, confirmation and audit entries."""

from __future__ import annotations

import msgspec
import pytest

from tests.dashboard.page_client import Page, PageClient
from windlass.core.access.tokens import NewToken, Role
from windlass.core.errors import AlreadyEnded, Refusal, UnknownJob
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Codec, Job, NewJob
from windlass.core.operations import Fail, Listing, Take
from windlass.core.retry import Backoff
from windlass.service import Service
from windlass.settings import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

ONCE = Backoff(tries=1)
EXACT = '{"order": 123456789012345678901234567890, "amount": 0.10}'


def enqueue(service: Service, *jobs: NewJob) -> list[str]:
    return [format_id(answer.id) for answer in service.enqueue(jobs).wait() if not isinstance(answer, Refusal)]


def fail_all(service: Service, queue: str, error: Blob | None = None) -> None:
    for job in service.take(Take(queues=(queue,), most=1000)).wait().jobs:
        service.fail([Fail(id=job.id, token=job.lease_token, error=error)]).one().wait()


def job(service: Service, key: str) -> Job:
    return service.job([parse_id(key)]).one().wait().job


def state(service: Service, key: str) -> str:
    try:
        return job(service, key).state.label
    except (UnknownJob, AlreadyEnded):
        return "gone"


async def do(page_client: PageClient, page: Page, verb: str, **fields: object) -> Page:
    """Send the form of an action, confirm it if necessary, and follow the redirect."""
    # Some buttons share a form and set their own action.
    form_verb = verb if f"/do/{verb}" in page.actions else f"retry-{verb.partition('-')[2]}"
    filled = page.form(f"/do/{form_verb}")
    answer = await page_client.send(f"/do/{verb}", filled | fields)
    if answer.status_code == 200:
        question = Page(answer)
        assert "Are you sure?" in question.text
        repeated = question.form(f"/do/{verb}") | ({"ids": fields["ids"]} if "ids" in fields else {})
        answer = await page_client.send(f"/do/{verb}", repeated)
    assert answer.status_code == 303, Page(answer).text
    return await page_client.get(answer.headers["location"])


def last_entry(service: Service) -> tuple[str, str, str]:
    entry = service.audits(most=1).wait().entries[0]
    return entry.what, entry.target, entry.outcome


# Selected jobs


async def test_retries_a_failed_job(page_client: PageClient, service: Service) -> None:
    (key,) = enqueue(service, NewJob(queue="mail", name="send", retry=ONCE))
    fail_all(service, "mail")
    page = await do(page_client, await page_client.get(f"/jobs/{key}"), "retry-jobs")
    assert "Retried 1 job." in page.text
    assert state(service, key) == "queued"
    assert last_entry(service) == ("retry_jobs", key, "done")


async def test_deletes_a_job_after_confirmation_and_returns_to_the_list(
    page_client: PageClient, service: Service
) -> None:
    (key,) = enqueue(service, NewJob(queue="mail", name="send"))
    page = await page_client.get(f"/jobs/{key}")
    question = Page(await page_client.send("/do/delete-jobs", page.form("/do/delete-jobs")))
    assert "Delete this job?" in question.text
    assert state(service, key) == "queued"
    page = await do(page_client, page, "delete-jobs")
    assert "Deleted 1 job." in page.text
    assert str(page.answer.url).endswith("/jobs?state=queued")
    assert state(service, key) == "gone"


async def test_cancels_and_requeues_running_jobs(page_client: PageClient, service: Service) -> None:
    first, second = enqueue(service, *[NewJob(queue="mail", name="send")] * 2)
    service.take(Take(queues=("mail",), most=2)).wait()
    page = await do(page_client, await page_client.get(f"/jobs/{first}"), "cancel-jobs")
    assert "asked to stop" in page.text
    assert job(service, first).is_cancel_requested
    await do(page_client, await page_client.get(f"/jobs/{second}"), "requeue-jobs")
    assert state(service, second) == "queued"


async def test_runs_a_scheduled_job_now_and_wakes_a_waiting_job(page_client: PageClient, service: Service) -> None:
    (scheduled,) = enqueue(service, NewJob(queue="mail", name="send", delay_ms=3_600_000))
    (waiting,) = enqueue(service, NewJob(queue="mail", name="after", after=(parse_id(scheduled),)))
    await do(page_client, await page_client.get(f"/jobs/{waiting}"), "wake-jobs")
    assert state(service, waiting) == "queued"
    await do(page_client, await page_client.get(f"/jobs/{scheduled}"), "run-jobs-now")
    taken = service.take(Take(queues=("mail",), most=2)).wait().jobs
    assert {job.key for job in taken} == {scheduled, waiting}


async def test_acts_on_selected_jobs_and_counts_removed_jobs(page_client: PageClient, service: Service) -> None:
    keys = enqueue(service, *[NewJob(queue="mail", name="send", retry=ONCE)] * 4)
    fail_all(service, "mail")
    page = await page_client.get("/jobs?state=failed")
    service.delete([parse_id(keys[0])]).wait()
    page = await do(page_client, page, "retry-jobs", ids=keys[:3])
    assert "Retried 2 jobs. 1 job had already ended or been removed." in page.text
    assert [state(service, key) for key in keys] == ["gone", "queued", "queued", "failed"]
    page = await do(page_client, await page_client.get("/jobs?state=failed"), "delete-jobs", ids=keys[3:])
    assert state(service, keys[3]) == "gone"


async def test_refuses_an_empty_selection_and_a_wrong_state(page_client: PageClient, service: Service) -> None:
    (key,) = enqueue(service, NewJob(queue="mail", name="send"))
    page = await page_client.get("/jobs")
    answer = Page(await page_client.send("/do/retry-jobs", page.form("/do/retry-jobs")))
    assert answer.status == 400
    assert "No job is selected" in answer.text
    answer = Page(await page_client.send("/do/retry-jobs", page.form("/do/retry-jobs") | {"ids": [key]}))
    assert answer.status == 409
    assert state(service, key) == "queued"
    assert last_entry(service) == ("retry_jobs", key, "wrong_state")


# All matching jobs


async def test_retries_all_matching_jobs_in_the_background(page_client: PageClient, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send", retry=ONCE) for _ in range(300)]).wait()
    (other,) = enqueue(service, NewJob(queue="mail", name="resend", retry=ONCE))
    fail_all(service, "mail")
    page = await page_client.get("/jobs?state=failed&queue=mail&name=%3Dsend")
    page = await do(page_client, page, "retry-matching")
    key = str(page.answer.url).rpartition("/")[2]
    assert "failed jobs of mail, named send" in page.text
    await service.result(parse_id(key), wait_ms=60_000)
    page = await page_client.get(f"/actions/{key}")
    assert "300 done" in page.text
    assert "/do/call-off" not in page.actions
    assert state(service, other) == "failed"
    assert len((await service.jobs(Listing(queue="mail", state="queued", most=500))).jobs) == 300
    assert "Retried" in (await page_client.get("/actions")).text
    entry = service.audits(most=1).wait().entries[0]
    assert (entry.what, entry.target) == ("retry_matching", "mail")
    assert "named send" in entry.detail


async def test_deletes_all_jobs_with_a_payload_field(page_client: PageClient, service: Service) -> None:
    for number in (1, 1, 2):
        payload = Blob(b'{"order_id":%d}' % number)
        service.enqueue([NewJob(queue="mail", name="send", payload=payload, index=("order_id",))]).wait()
    page = await page_client.get("/jobs?where=order_id%3D1&state=queued")
    page = await do(page_client, page, "delete-matching")
    key = str(page.answer.url).rpartition("/")[2]
    assert "queued jobs of all queues, with order_id=1" in page.text
    await service.result(parse_id(key), wait_ms=60_000)
    (left,) = (await service.jobs(Listing(queue="mail", state="queued"))).jobs
    assert left.indexed == ("order_id=2",)


async def test_deletes_one_group_of_failures(page_client: PageClient, service: Service) -> None:
    *_, longer = enqueue(
        service, *(NewJob(queue="mail", name=name, retry=ONCE) for name in ("send", "send", "send", "send_again"))
    )
    fail_all(service, "mail", Blob(b'{"type":"E","message":"order 7 is unknown"}'))
    (other,) = enqueue(service, NewJob(queue="mail", name="send", retry=ONCE))
    fail_all(service, "mail", Blob(b'{"type":"E","message":"no route"}'))
    page = await page_client.get("/failures")
    page = await do(page_client, page, "delete-matching")
    await service.result(parse_id(str(page.answer.url).rpartition("/")[2]), wait_ms=60_000)
    left = (await service.jobs(Listing(queue="mail", state="failed"))).jobs
    assert {job.key for job in left} == {longer, other}


async def test_cancels_a_background_action(page_client: PageClient, service: Service) -> None:
    service.pause("windlass.actions").wait()  # no server starts it
    enqueue(service, NewJob(queue="mail", name="send"))
    page = await do(page_client, await page_client.get("/jobs?queue=mail"), "delete-matching")
    assert "Deleting" in page.text
    page = await do(page_client, page, "call-off")
    assert "cancelled" in page.text
    assert service.stats(["mail"]).wait()[0].queued == 1


# Forms


async def test_enqueues_a_job_from_the_form(page_client: PageClient, service: Service) -> None:
    page = await page_client.get("/jobs/new?queue=mail")
    fields = page.form("/do/enqueue-job") | {
        "queue": "mail", "name": "send", "payload": EXACT, "when": "1h", "priority": "-7", "attempts": "5",
        "tags": "shop, urgent,", "lane": "eu",
    }  # fmt: skip
    answer = await page_client.send("/do/enqueue-job", fields)
    made = job(service, answer.headers["location"].rpartition("/")[2])
    assert b"".join(made.payload.data.split()) == b"".join(EXACT.encode().split())
    assert (made.queue, made.name, made.priority, made.retry.tries) == ("mail", "send", -7, 5)
    assert (made.tags, made.lane, made.state.label) == (("shop", "urgent"), "eu", "scheduled")
    assert "it is scheduled" in (await page_client.get(answer.headers["location"])).text
    assert last_entry(service) == ("enqueue_job", made.key, "done")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"payload": '{"a": }'}, "not JSON"),
        ({"when": "soon"}, "is not a duration"),
        ({"priority": "high"}, "priority must be a whole number"),
        ({"priority": "99999999999"}, "priority"),
        ({"queue": ""}, "queue"),
        ({"tags": "x" * 200}, "tag"),
    ],
)
async def test_shows_the_form_again_with_the_error(
    page_client: PageClient, service: Service, wrong: dict[str, str], message: str
) -> None:
    page = await page_client.get("/jobs/new")
    typed = {"queue": "mail", "name": "<b>my name</b>", "payload": "[1]", "priority": "0", "attempts": "3"} | wrong
    again = Page(await page_client.send("/do/enqueue-job", page.form("/do/enqueue-job") | typed))
    assert again.status in (400, 413)
    assert message in again.text
    assert again.all("input", name="name", value="<b>my name</b>")
    assert typed["payload"] in again.text
    assert service.stats(["mail"]).wait()[0].queued == 0


async def test_a_copy_keeps_fields_that_are_not_in_the_form(page_client: PageClient, service: Service) -> None:
    binary = Blob(msgspec.msgpack.encode({"picture": b"\xff\x00"}), Codec.MSGPACK)
    first, second = enqueue(
        service,
        NewJob(queue="mail", name="send", payload=Blob(EXACT.encode()), timeout_ms=5000, retry=ONCE, priority=3),
        NewJob(queue="mail", name="draw", payload=binary),
    )
    fail_all(service, "mail")
    page = await page_client.get(f"/jobs/new?copy={first}")
    assert "123456789012345678901234567890" in page.text
    fields = page.form("/do/enqueue-job") | {
        "queue": "mail",
        "name": "send",
        "payload": '{"order": 8}',
        "priority": "4",
    }
    answer = await page_client.send("/do/enqueue-job", fields)
    made = job(service, answer.headers["location"].rpartition("/")[2])
    assert (made.payload.data, made.timeout_ms, made.priority, made.retry.tries) == (b'{"order":8}', 5000, 4, 1)
    page = await page_client.get(f"/jobs/new?copy={second}")
    assert "It stays unchanged" in page.text
    answer = await page_client.send("/do/enqueue-job", page.form("/do/enqueue-job") | {"queue": "mail", "name": "draw"})
    assert job(service, answer.headers["location"].rpartition("/")[2]).payload == binary


async def test_edits_a_queued_job_unless_its_revision_changed(page_client: PageClient, service: Service) -> None:
    packed = Blob(msgspec.msgpack.encode({"order": 7}), Codec.MSGPACK)
    (key,) = enqueue(service, NewJob(queue="mail", name="send", payload=packed))
    page = await page_client.get(f"/jobs/{key}/edit")
    typed = {"name": "resend", "priority": "9", "when": "2h", "payload": '{"order": 8}'}
    answer = await page_client.send("/do/edit-job", page.form("/do/edit-job") | typed)
    assert answer.headers["location"] == f"/jobs/{key}"
    found = job(service, key)
    assert (found.name, found.priority, found.state.label) == ("resend", 9, "scheduled")
    assert found.payload.codec is Codec.MSGPACK
    assert msgspec.msgpack.decode(found.payload.data) == {"order": 8}
    late = Page(await page_client.send("/do/edit-job", page.form("/do/edit-job") | typed | {"priority": "1"}))
    assert late.status == 409
    assert late.all("input", name="priority", value="1")
    assert job(service, key).priority == 9


# Permissions. Tokens are created before the server starts: a running server notices new tokens with a delay.


def token_of(service: Service, *roles: Role, queues: tuple[str, ...] = ()) -> str:
    return service.create_token(NewToken(name="user", roles=frozenset(roles), queues=queues)).wait().text


@pytest.fixture
def reader(service: Service) -> str:
    return token_of(service, Role.READ)


@pytest.fixture
def producer(service: Service) -> str:
    return token_of(service, Role.READ, Role.PRODUCE)


@pytest.fixture
def of_one_queue(service: Service) -> str:
    return token_of(service, Role.READ, Role.PRODUCE, queues=("mail",))


async def test_the_role_read_allows_no_action(reader: str, page_client: PageClient, service: Service) -> None:
    (key,) = enqueue(service, NewJob(queue="mail", name="send"))
    await page_client.log_in(reader)
    for path in (f"/jobs/{key}", "/jobs", "/failures"):
        page = await page_client.get(path)
        assert page.status == 200
        assert not [action for action in page.actions if "/do/" in action], path
        assert not page.all("input", type="checkbox", name="ids")
    hidden = (await page_client.get(f"/jobs/{key}")).form("/logout")
    for verb in ("retry-jobs", "cancel-jobs", "delete-jobs", "delete-matching", "enqueue-job", "edit-job"):
        answer = await page_client.send(
            f"/do/{verb}", hidden | {"ids": [key], "id": key, "confirmed": "1", "state": "queued"}
        )
        assert answer.status_code == 403, verb
    assert (await page_client.get("/jobs/new")).status == 403
    assert state(service, key) == "queued"


async def test_the_role_produce_allows_enqueue_and_cancel_only(
    producer: str, page_client: PageClient, service: Service
) -> None:
    (key,) = enqueue(service, NewJob(queue="mail", name="send"))
    await page_client.log_in(producer)
    page = await page_client.get(f"/jobs/{key}")
    assert {path for path in page.actions if "/do/" in path} == {"/do/cancel-jobs"}
    await do(page_client, page, "cancel-jobs")
    assert state(service, key) == "cancelled"


async def test_a_token_for_some_queues_is_limited_to_them(
    of_one_queue: str, page_client: PageClient, service: Service
) -> None:
    mine, other = enqueue(service, *(NewJob(queue=queue, name="send", tags=("t",)) for queue in ("mail", "secret")))
    await page_client.log_in(of_one_queue)
    page = await page_client.get("/jobs")
    assert mine in page.answer.text
    assert "secret" not in page.answer.text
    for path in (f"/jobs/{other}", f"/jobs/{other}/payload", f"/jobs/{other}/edit", f"/jobs/new?copy={other}",
                 "/jobs?queue=secret", "/failures?queue=secret"):  # fmt: skip
        assert (await page_client.get(path)).status == 403, path
    assert "secret" not in (await page_client.get("/search?q=send")).answer.text
    assert (await page_client.http.get("/search", params={"q": other})).status_code == 200
    assert other not in (await page_client.get("/jobs?tag=t")).answer.text
    form = page.form("/do/retry-jobs") | {"confirmed": "1"}
    for verb, fields in [
        ("cancel-jobs", {"ids": [mine, other]}),
        ("enqueue-job", {"queue": "secret", "name": "send", "payload": "1"}),
    ]:
        assert (await page_client.send(f"/do/{verb}", form | fields)).status_code == 403, (verb, fields)
    assert (state(service, mine), state(service, other)) == ("queued", "queued")


class TestReadOnly:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, dashboard_read_only=True)

    async def test_refuses_actions(self, page_client: PageClient, service: Service) -> None:
        (key,) = enqueue(service, NewJob(queue="mail", name="send"))
        page = await page_client.get(f"/jobs/{key}")
        assert not [action for action in page.actions if "/do/" in action]
        answer = await page_client.send("/do/delete-jobs", {"ids": [key], "confirmed": "1"})
        assert answer.status_code == 403
        assert state(service, key) == "queued"
