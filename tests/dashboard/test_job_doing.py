"""What can be done to jobs from their pages, with forms alone: by whom, after which question, and what is written
down."""

from __future__ import annotations

import msgspec
import pytest

from tests.dashboard.page_client import Looker, Page
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
    return [format_id(one.id) for one in service.enqueue(jobs).wait() if not isinstance(one, Refusal)]


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


async def do(looker: Looker, page: Page, verb: str, **fields: object) -> Page:
    """Sends the form of a page that leads there, answers its question with yes, and follows to where it leads."""
    sent_by = verb if f"/do/{verb}" in page.actions else f"retry-{verb.partition('-')[2]}"  # its buttons lead elsewhere
    filled = page.form(f"/do/{sent_by}")
    answer = await looker.send(f"/do/{verb}", filled | fields)
    if answer.status_code == 200:
        asked = Page(answer)
        assert "Are you sure?" in asked.text
        repeated = asked.form(f"/do/{verb}") | ({"ids": fields["ids"]} if "ids" in fields else {})
        answer = await looker.send(f"/do/{verb}", repeated)
    assert answer.status_code == 303, Page(answer).text
    return await looker.look(answer.headers["location"])


def last_entry(service: Service) -> tuple[str, str, str]:
    entry = service.audits(most=1).wait().entries[0]
    return entry.what, entry.target, entry.outcome


# One job, and some


async def test_a_failed_job_is_retried_from_its_page(looker: Looker, service: Service) -> None:
    (key,) = enqueue(service, NewJob(queue="mail", name="send", retry=ONCE))
    fail_all(service, "mail")
    page = await do(looker, await looker.look(f"/jobs/{key}"), "retry-jobs")
    assert "Retried 1 job." in page.text
    assert state(service, key) == "queued"
    assert last_entry(service) == ("retry_jobs", key, "done")


async def test_deleting_asks_first_and_leads_back_to_the_list(looker: Looker, service: Service) -> None:
    (key,) = enqueue(service, NewJob(queue="mail", name="send"))
    page = await looker.look(f"/jobs/{key}")
    asked = Page(await looker.send("/do/delete-jobs", page.form("/do/delete-jobs")))
    assert "Delete this job?" in asked.text
    assert state(service, key) == "queued"
    page = await do(looker, page, "delete-jobs")
    assert "Deleted 1 job." in page.text
    assert str(page.answer.url).endswith("/jobs?state=queued")
    assert state(service, key) == "gone"


async def test_a_running_job_is_asked_to_stop_or_taken_back(looker: Looker, service: Service) -> None:
    first, second = enqueue(service, *[NewJob(queue="mail", name="send")] * 2)
    service.take(Take(queues=("mail",), most=2)).wait()
    page = await do(looker, await looker.look(f"/jobs/{first}"), "cancel-jobs")
    assert "asked to stop" in page.text
    assert job(service, first).is_cancel_requested
    await do(looker, await looker.look(f"/jobs/{second}"), "requeue-jobs")
    assert state(service, second) == "queued"


async def test_a_scheduled_job_is_brought_forward_and_a_waiting_one_woken(looker: Looker, service: Service) -> None:
    (scheduled,) = enqueue(service, NewJob(queue="mail", name="send", delay_ms=3_600_000))
    (waiting,) = enqueue(service, NewJob(queue="mail", name="after", after=(parse_id(scheduled),)))
    await do(looker, await looker.look(f"/jobs/{waiting}"), "wake-jobs")
    assert state(service, waiting) == "queued"
    await do(looker, await looker.look(f"/jobs/{scheduled}"), "run-jobs-now")
    taken = service.take(Take(queues=("mail",), most=2)).wait().jobs
    assert {one.key for one in taken} == {scheduled, waiting}


async def test_several_are_chosen_and_what_had_gone_is_said(looker: Looker, service: Service) -> None:
    keys = enqueue(service, *[NewJob(queue="mail", name="send", retry=ONCE)] * 4)
    fail_all(service, "mail")
    page = await looker.look("/jobs?state=failed")
    service.delete([parse_id(keys[0])]).wait()
    page = await do(looker, page, "retry-jobs", ids=keys[:3])
    assert "Retried 2 jobs. 1 job had gone or ended before." in page.text
    assert [state(service, key) for key in keys] == ["gone", "queued", "queued", "failed"]
    page = await do(looker, await looker.look("/jobs?state=failed"), "delete-jobs", ids=keys[3:])
    assert state(service, keys[3]) == "gone"


async def test_nothing_chosen_and_what_cannot_be_done_are_refused(looker: Looker, service: Service) -> None:
    (key,) = enqueue(service, NewJob(queue="mail", name="send"))
    page = await looker.look("/jobs")
    answer = Page(await looker.send("/do/retry-jobs", page.form("/do/retry-jobs")))
    assert answer.status == 400
    assert "No job is chosen" in answer.text
    answer = Page(await looker.send("/do/retry-jobs", page.form("/do/retry-jobs") | {"ids": [key]}))
    assert answer.status == 409
    assert state(service, key) == "queued"
    assert last_entry(service) == ("retry_jobs", key, "wrong_state")


# All that match


async def test_all_that_match_are_retried_in_the_background(looker: Looker, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send", retry=ONCE) for _ in range(300)]).wait()
    (other,) = enqueue(service, NewJob(queue="mail", name="resend", retry=ONCE))
    fail_all(service, "mail")
    page = await looker.look("/jobs?state=failed&queue=mail&name=%3Dsend")
    page = await do(looker, page, "retry-matching")
    key = str(page.answer.url).rpartition("/")[2]
    assert "failed jobs of mail, named send" in page.text
    await service.result(parse_id(key), wait_ms=60_000)
    page = await looker.look(f"/actions/{key}")
    assert "300 done" in page.text
    assert "/do/call-off" not in page.actions
    assert state(service, other) == "failed"
    assert len((await service.jobs(Listing(queue="mail", state="queued", most=500))).jobs) == 300
    assert "Retried" in (await looker.look("/actions")).text
    entry = service.audits(most=1).wait().entries[0]
    assert (entry.what, entry.target) == ("retry_matching", "mail")
    assert "named send" in entry.detail


async def test_a_group_of_failures_is_deleted_and_no_other(looker: Looker, service: Service) -> None:
    *_, longer = enqueue(
        service, *(NewJob(queue="mail", name=name, retry=ONCE) for name in ("send", "send", "send", "send_again"))
    )
    fail_all(service, "mail", Blob(b'{"type":"E","message":"order 7 is unknown"}'))
    (other,) = enqueue(service, NewJob(queue="mail", name="send", retry=ONCE))
    fail_all(service, "mail", Blob(b'{"type":"E","message":"no route"}'))
    page = await looker.look("/failures")
    page = await do(looker, page, "delete-matching")
    await service.result(parse_id(str(page.answer.url).rpartition("/")[2]), wait_ms=60_000)
    left = (await service.jobs(Listing(queue="mail", state="failed"))).jobs
    assert {one.key for one in left} == {longer, other}


async def test_an_action_is_called_off(looker: Looker, service: Service) -> None:
    service.pause("windlass.actions").wait()  # nobody begins
    enqueue(service, NewJob(queue="mail", name="send"))
    page = await do(looker, await looker.look("/jobs?queue=mail"), "delete-matching")
    assert "Deleting" in page.text
    page = await do(looker, page, "call-off")
    assert "cancelled" in page.text
    assert service.stats(["mail"]).wait()[0].queued == 1


# Forms


async def test_a_job_is_enqueued_with_a_form(looker: Looker, service: Service) -> None:
    page = await looker.look("/jobs/new?queue=mail")
    fields = page.form("/do/enqueue-job") | {
        "queue": "mail", "name": "send", "payload": EXACT, "when": "1h", "priority": "-7", "attempts": "5",
        "tags": "shop, urgent,", "lane": "eu",
    }  # fmt: skip
    answer = await looker.send("/do/enqueue-job", fields)
    made = job(service, answer.headers["location"].rpartition("/")[2])
    assert b"".join(made.payload.data.split()) == b"".join(EXACT.encode().split())
    assert (made.queue, made.name, made.priority, made.retry.tries) == ("mail", "send", -7, 5)
    assert (made.tags, made.lane, made.state.label) == (("shop", "urgent"), "eu", "scheduled")
    assert "it is scheduled" in (await looker.look(answer.headers["location"])).text
    assert last_entry(service) == ("enqueue_job", made.key, "done")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"payload": '{"a": }'}, "not JSON"),
        ({"when": "soon"}, "is not a duration"),
        ({"priority": "high"}, "priority must be a whole number"),
        ({"priority": "99999999999"}, "priority"),
        ({"queue": ""}, "queue"),
        ({"tags": "x" * 200}, "tag"),
    ],
)
async def test_what_is_typed_wrongly_is_shown_again_with_what_is_wrong(
    looker: Looker, service: Service, wrong: dict[str, str], said: str
) -> None:
    page = await looker.look("/jobs/new")
    typed = {"queue": "mail", "name": "<b>my name</b>", "payload": "[1]", "priority": "0", "attempts": "3"} | wrong
    again = Page(await looker.send("/do/enqueue-job", page.form("/do/enqueue-job") | typed))
    assert again.status in (400, 413)
    assert said in again.text
    assert again.all("input", name="name", value="<b>my name</b>")
    assert typed["payload"] in again.text
    assert service.stats(["mail"]).wait()[0].queued == 0


async def test_a_copy_keeps_what_is_not_typed(looker: Looker, service: Service) -> None:
    binary = Blob(msgspec.msgpack.encode({"picture": b"\xff\x00"}), Codec.MSGPACK)
    first, second = enqueue(
        service,
        NewJob(queue="mail", name="send", payload=Blob(EXACT.encode()), timeout_ms=5000, retry=ONCE, priority=3),
        NewJob(queue="mail", name="draw", payload=binary),
    )
    fail_all(service, "mail")
    page = await looker.look(f"/jobs/new?copy={first}")
    assert "123456789012345678901234567890" in page.text
    fields = page.form("/do/enqueue-job") | {
        "queue": "mail",
        "name": "send",
        "payload": '{"order": 8}',
        "priority": "4",
    }
    answer = await looker.send("/do/enqueue-job", fields)
    made = job(service, answer.headers["location"].rpartition("/")[2])
    assert (made.payload.data, made.timeout_ms, made.priority, made.retry.tries) == (b'{"order":8}', 5000, 4, 1)
    page = await looker.look(f"/jobs/new?copy={second}")
    assert "it stays as it is" in page.text
    answer = await looker.send("/do/enqueue-job", page.form("/do/enqueue-job") | {"queue": "mail", "name": "draw"})
    assert job(service, answer.headers["location"].rpartition("/")[2]).payload == binary


async def test_a_job_that_waits_is_edited_unless_another_was_faster(looker: Looker, service: Service) -> None:
    packed = Blob(msgspec.msgpack.encode({"order": 7}), Codec.MSGPACK)
    (key,) = enqueue(service, NewJob(queue="mail", name="send", payload=packed))
    page = await looker.look(f"/jobs/{key}/edit")
    typed = {"name": "resend", "priority": "9", "when": "2h", "payload": '{"order": 8}'}
    answer = await looker.send("/do/edit-job", page.form("/do/edit-job") | typed)
    assert answer.headers["location"] == f"/jobs/{key}"
    found = job(service, key)
    assert (found.name, found.priority, found.state.label) == ("resend", 9, "scheduled")
    assert found.payload.codec is Codec.MSGPACK
    assert msgspec.msgpack.decode(found.payload.data) == {"order": 8}
    late = Page(await looker.send("/do/edit-job", page.form("/do/edit-job") | typed | {"priority": "1"}))
    assert late.status == 409
    assert late.all("input", name="priority", value="1")
    assert job(service, key).priority == 9


# Who may. Their tokens are there before the server is: it hears of later ones only after a moment.


def token_of(service: Service, *roles: Role, queues: tuple[str, ...] = ()) -> str:
    return service.create_token(NewToken(name="somebody", roles=frozenset(roles), queues=queues)).wait().text


@pytest.fixture
def reader(service: Service) -> str:
    return token_of(service, Role.READ)


@pytest.fixture
def producer(service: Service) -> str:
    return token_of(service, Role.READ, Role.PRODUCE)


@pytest.fixture
def of_one_queue(service: Service) -> str:
    return token_of(service, Role.READ, Role.PRODUCE, queues=("mail",))


async def test_whoever_reads_sees_no_buttons_and_is_refused(reader: str, looker: Looker, service: Service) -> None:
    (key,) = enqueue(service, NewJob(queue="mail", name="send"))
    await looker.log_in(reader)
    for path in (f"/jobs/{key}", "/jobs", "/failures"):
        page = await looker.look(path)
        assert page.status == 200
        assert not [action for action in page.actions if "/do/" in action], path
        assert not page.all("input", type="checkbox", name="ids")
    hidden = (await looker.look(f"/jobs/{key}")).form("/logout")
    for verb in ("retry-jobs", "cancel-jobs", "delete-jobs", "delete-matching", "enqueue-job", "edit-job"):
        answer = await looker.send(
            f"/do/{verb}", hidden | {"ids": [key], "id": key, "confirmed": "1", "state": "queued"}
        )
        assert answer.status_code == 403, verb
    assert (await looker.look("/jobs/new")).status == 403
    assert state(service, key) == "queued"


async def test_a_producer_enqueues_and_cancels_and_no_more(producer: str, looker: Looker, service: Service) -> None:
    (key,) = enqueue(service, NewJob(queue="mail", name="send"))
    await looker.log_in(producer)
    page = await looker.look(f"/jobs/{key}")
    assert {path for path in page.actions if "/do/" in path} == {"/do/cancel-jobs"}
    await do(looker, page, "cancel-jobs")
    assert state(service, key) == "cancelled"


async def test_a_token_for_some_queues_sees_and_touches_these(
    of_one_queue: str, looker: Looker, service: Service
) -> None:
    mine, other = enqueue(service, *(NewJob(queue=queue, name="send", tags=("t",)) for queue in ("mail", "secret")))
    await looker.log_in(of_one_queue)
    page = await looker.look("/jobs")
    assert mine in page.answer.text
    assert "secret" not in page.answer.text
    for path in (f"/jobs/{other}", f"/jobs/{other}/payload", f"/jobs/{other}/edit", f"/jobs/new?copy={other}",
                 "/jobs?queue=secret", "/failures?queue=secret"):  # fmt: skip
        assert (await looker.look(path)).status == 403, path
    assert "secret" not in (await looker.look("/search?q=send")).answer.text
    assert (await looker.client.get("/search", params={"q": other})).status_code == 200
    assert other not in (await looker.look("/jobs?tag=t")).answer.text
    form = page.form("/do/retry-jobs") | {"confirmed": "1"}
    for verb, fields in [
        ("cancel-jobs", {"ids": [mine, other]}),
        ("enqueue-job", {"queue": "secret", "name": "send", "payload": "1"}),
    ]:
        assert (await looker.send(f"/do/{verb}", form | fields)).status_code == 403, (verb, fields)
    assert (state(service, mine), state(service, other)) == ("queued", "queued")


class TestReadOnly:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, dashboard_read_only=True)

    async def test_where_pages_only_show_nothing_is_done(self, looker: Looker, service: Service) -> None:
        (key,) = enqueue(service, NewJob(queue="mail", name="send"))
        page = await looker.look(f"/jobs/{key}")
        assert not [action for action in page.actions if "/do/" in action]
        answer = await looker.send("/do/delete-jobs", {"ids": [key], "confirmed": "1"})
        assert answer.status_code == 403
        assert state(service, key) == "queued"
