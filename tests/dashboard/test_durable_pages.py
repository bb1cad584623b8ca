"""Pages and actions about durable jobs: steps, waits, signals, streams, and jobs that wait for a signal."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from tests.dashboard.page_client import Page, PageClient
from tests.service.durable.builders import HOUR_MS, send, sleep, state_of, steps_of, store, suspend, wait_for
from windlass.core.access.tokens import NewToken, Role
from windlass.core.durable import StepKind, StepStatus, StreamWrite, Wait
from windlass.core.job import Blob, Job, NewJob
from windlass.core.operations import ANY_JOB_WITH_STEPS, Fail, Finish, Take
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.sdk.durable.schemas import signal_schema
from windlass.service import Service
from windlass.settings import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

ERROR = Blob(msgspec.json.encode({"type": "CardError", "message": "card expired", "traceback": "Traceback: line 7"}))
HOSTILE = "<img src=x onerror=alert(1)>&amp;"


def take(service: Service, queue: str = "orders") -> Job:
    (job,) = service.take(Take(queues=(queue,), wants=ANY_JOB_WITH_STEPS)).wait().jobs
    return job


def start(service: Service, queue: str = "orders", name: str = "fulfil", **fields: object) -> Job:
    service.enqueue([NewJob(queue=queue, name=name, **fields)]).wait()  # type: ignore[arg-type]
    return take(service, queue)


def wait_for_approval(service: Service, queue: str = "orders", payload: bytes = b"null") -> Job:
    job = start(service, queue, payload=Blob(payload))
    suspend(service, job, wait_for("approval", 72 * HOUR_MS))
    return job


def fail(service: Service, job: Job) -> None:
    service.fail([Fail(id=job.id, token=job.lease_token, error=ERROR, then="final")]).one().wait()


def stored(service: Service, job: Job) -> Job:
    return service.job([job.id]).one().wait().job


def last_entry(service: Service) -> tuple[str, str, str, str]:
    entry = service.audits(most=1).wait().entries[0]
    return entry.what, entry.target, entry.detail, entry.outcome


async def confirm(page_client: PageClient, page: Page, verb: str, **fields: str) -> Page:
    """Send the form with these fields, answer the question, and follow the redirect."""
    question = Page(await page_client.send(f"/do/{verb}", page.form(f"/do/{verb}", **fields)))
    assert "Are you sure?" in question.text, question.text
    answer = await page_client.send(f"/do/{verb}", question.form(f"/do/{verb}"))
    assert answer.status_code == 303, Page(answer).text
    return await page_client.get(answer.headers["location"])


# The page of a job


async def test_shows_steps_with_their_kind_status_tries_and_value(page_client: PageClient, service: Service) -> None:
    job = start(service)
    store(
        service,
        job,
        "charge",
        b'{"receipt": 9007199254740993, "items": [1, 2], "note": "a text that makes it long"}',
        ran_ms=1_500,
        tries=2,
    )
    store(service, job, "rows", b"42", kind=StepKind.CURSOR, status=StepStatus.WAITING)
    store(service, job, "ship", ERROR.data, status=StepStatus.FAILED, tries=3)
    page = await page_client.get(f"/jobs/{job.key}")
    for words in (
        "charge step done", "1.5 s 2", "9007199254740993", "rows iteration goes on", "42", "ship step failed",
        "CardError: card expired", "Traceback: line 7",
    ):  # fmt: skip
        assert words in page.text, words
    assert "/do/rewind-job" not in page.actions  # a worker holds the job
    assert len(page.all("details", **{"class": "value"})) == 1  # only the long value is folded


async def test_a_job_without_durable_state_has_no_steps(page_client: PageClient, service: Service) -> None:
    job = start(service)
    page = await page_client.get(f"/jobs/{job.key}")
    (steps,) = page.all("section", id="steps")
    assert "hidden" in steps
    assert "Retry from the beginning" not in page.text


async def test_shows_the_waits_of_a_suspended_job(page_client: PageClient, service: Service) -> None:
    job = start(service)
    retry = Wait(name="charge", kind="retry", for_ms=HOUR_MS, tries=2, error=ERROR)
    assert suspend(service, job, wait_for("approval", 72 * HOUR_MS), sleep(24 * HOUR_MS), retry) == "suspended"
    page = await page_client.get(f"/jobs/{job.key}")
    assert "suspended" in page.text
    assert "Waits for signal approval since" in page.text
    assert "times out in 2 d 23 h" in page.text
    assert "sleeps until" in page.text
    assert 'step "charge" failed 2 times and is tried again' in page.text
    assert "Suspended 1 time" in page.text


async def test_shows_unread_signals(page_client: PageClient, service: Service) -> None:
    job = start(service)
    send(service, job, "late", b'{"text": "kept for later"}')
    store(service, job, "charge")
    page = await page_client.get(f"/jobs/{job.key}")
    assert "Received, not read yet late" in page.text
    assert "kept for later" in page.text


async def test_long_values_are_downloaded_and_many_steps_are_cut(page_client: PageClient, service: Service) -> None:
    job = start(service)
    long = msgspec.json.encode("x" * 40_000)
    store(service, job, "long", long)
    page = await page_client.get(f"/jobs/{job.key}")
    assert "too long to show" in page.text
    (link,) = [found["href"] for found in page.all("a") if "/step?" in found.get("href", "")]
    answer = await page_client.http.get(link)
    assert (answer.content, answer.headers["content-type"]) == (long, "application/json")
    assert (await page_client.get(f"/jobs/{job.key}/step?name=other")).status == 404
    for number in range(210):
        store(service, job, f"step {number}")
    page = await page_client.get(f"/jobs/{job.key}")
    assert "the last 200 of 211" in page.text
    page = await page_client.get(f"/jobs/{job.key}?steps=all")
    assert len([row for row in page.all("tr") if row.get("data-key", "").startswith("step-")]) == 211


async def test_the_timeline_shows_suspensions(page_client: PageClient, service: Service) -> None:
    job = start(service, result_ttl_ms=HOUR_MS)
    suspend(service, job, sleep(HOUR_MS))
    service.store.clock_offset_ms += 2 * HOUR_MS
    again = take(service)
    service.finish([Finish(again.id, again.lease_token, Blob(b"1"))]).wait()
    page = await page_client.get(f"/jobs/{job.key}")
    assert "suspended 2 h" in page.text
    assert len(page.all("rect", **{"class": "life-rest"})) == 1


# Actions


async def test_sends_a_signal_and_the_job_continues(page_client: PageClient, service: Service) -> None:
    job = wait_for_approval(service)
    form = (await page_client.get(f"/jobs/{job.key}")).form("/do/send-signal")
    answer = await page_client.send("/do/send-signal", form | {"value": '{"by": "ada", "sum": 12345678901234567890}'})
    page = await page_client.get(answer.headers["location"])
    assert "Sent approval: the job continues with it." in page.text
    assert steps_of(service, job)["signal:approval"].value == Blob(b'{"by":"ada","sum":12345678901234567890}')
    assert stored(service, job).state is State.QUEUED
    assert last_entry(service) == ("send_signal", job.key, "approval", "done")
    # The same form again has no effect; the signal would be kept otherwise.
    answer = await page_client.send("/do/send-signal", form | {"value": "2"})
    assert "not sent a second time" in (await page_client.get(answer.headers["location"])).text
    assert state_of(service, job).signals == ()


async def test_a_button_sends_true(page_client: PageClient, service: Service) -> None:
    job = wait_for_approval(service)
    form = (await page_client.get(f"/jobs/{job.key}")).form("/do/send-signal")
    await page_client.send("/do/send-signal", form | {"value": "", "answer": "true"})
    assert steps_of(service, job)["signal:approval"].value == Blob(b"true")


async def test_a_signal_that_is_not_awaited_any_more_is_kept(page_client: PageClient, service: Service) -> None:
    job = wait_for_approval(service)
    form = (await page_client.get(f"/jobs/{job.key}")).form("/do/send-signal")
    send(service, job, "approval", b"1")
    answer = await page_client.send("/do/send-signal", form | {"value": "2"})
    assert "kept until the job asks for it" in (await page_client.get(answer.headers["location"])).text


@pytest.mark.parametrize("typed", ["", "yes", "{", '{"a": NaN}'])
async def test_shows_a_refused_value_again(page_client: PageClient, service: Service, typed: str) -> None:
    job = wait_for_approval(service)
    form = (await page_client.get(f"/jobs/{job.key}")).form("/do/send-signal")
    page = Page(await page_client.send("/do/send-signal", form | {"value": typed}))
    assert page.status == 400
    assert "The value is" in page.text
    assert typed in page.text
    assert page.form("/do/cancel-jobs")["back"] == f"/jobs/{job.key}"  # not the address of the action
    assert stored(service, job).state is State.SUSPENDED


# Forms made from the type of a signal


class Approval(msgspec.Struct):
    by: str
    is_granted: bool
    amount: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    reason: Literal["fast", "cheap"] | None = None


def wait_for_type(service: Service, kind: Any) -> Job:
    job = start(service)
    suspend(service, job, wait_for("approval", schema=signal_schema(kind)))
    return job


async def test_a_typed_form_sends_a_value_of_the_type(page_client: PageClient, service: Service) -> None:
    job = wait_for_type(service, Approval)
    page = await page_client.get(f"/jobs/{job.key}")
    assert "By Is granted Choose Yes No Amount Default: 1. Reason None cheap fast" in page.text
    assert [found.get("type", "select") for found in page.all("input", name="input")] == ["text", "number"]
    assert (page.all("input", type="number")[0]["min"], len(page.all("select", name="input"))) == ("1", 2)
    assert "Send JSON instead" in page.text
    assert "Send true" not in page.text
    assert "$defs" not in page.text  # the schema is no value of a step
    answer = await page_client.send("/do/send-signal", typed_form(page, "ada", "true", "", '"fast"'))
    assert "the job continues" in (await page_client.get(answer.headers["location"])).text
    value = steps_of(service, job)["signal:approval"].value
    assert value == Blob(b'{"by":"ada","is_granted":true,"reason":"fast"}')


def typed_form(page: Page, *typed: str) -> dict[str, Any]:
    """Return the fields of the form that has a schema."""
    hidden = next(found for _, found in page.forms if "schema" in found)
    return hidden | {"input": list(typed)}


async def test_refused_inputs_are_shown_again_with_their_errors(page_client: PageClient, service: Service) -> None:
    job = wait_for_type(service, Approval)
    page = await page_client.get(f"/jobs/{job.key}")
    answer = await page_client.send("/do/send-signal", typed_form(page, 'a<d>"a', "", "101", '"cheap"'))
    page = Page(answer)
    assert page.status == 400
    assert "A value is required." in page.text
    assert "The number must be at most 100." in page.text
    assert [found["value"] for found in page.all("input", name="input")] == ['a<d>"a', "101"]
    assert [found["value"] for found in page.all("option") if "selected" in found] == ['"cheap"']
    assert len([found for _, found in page.elements if found.get("aria-invalid") == "true"]) == 2
    assert "open" not in page.all("details", **{"class": "raw-answer"})[0]
    assert stored(service, job).state is State.SUSPENDED


async def test_json_can_be_sent_instead(page_client: PageClient, service: Service) -> None:
    job = wait_for_type(service, Approval)
    page = await page_client.get(f"/jobs/{job.key}")
    plain = next(found for path, found in page.forms if path.endswith("/send-signal") and "schema" not in found)
    refused = Page(await page_client.send("/do/send-signal", plain | {"value": "{"}))
    assert "open" in refused.all("details", **{"class": "raw-answer"})[0]
    await page_client.send("/do/send-signal", plain | {"value": "[1]"})
    assert steps_of(service, job)["signal:approval"].value == Blob(b"[1]")


@pytest.mark.parametrize(("kind", "labels"), [(bool, "Yes No"), (Literal["ship", "wait", "drop"], "drop ship wait")])
async def test_few_choices_are_buttons(page_client: PageClient, service: Service, kind: Any, labels: str) -> None:
    job = wait_for_type(service, kind)
    page = await page_client.get(f"/jobs/{job.key}")
    assert labels in page.text
    chosen = page.all("button", name="input")[-1]["value"]
    await page_client.send("/do/send-signal", typed_form(page, chosen))
    assert steps_of(service, job)["signal:approval"].value == Blob(chosen.encode())


async def test_a_type_without_inputs_keeps_the_text_area(page_client: PageClient, service: Service) -> None:
    class Rows(msgspec.Struct):
        rows: list[int]

    job = wait_for_type(service, Rows)
    page = await page_client.get(f"/jobs/{job.key}")
    assert "The job expects: Rows." in page.text
    assert (page.all("input", name="input"), page.all("details", **{"class": "raw-answer"})) == ([], [])
    await page_client.send("/do/send-signal", page.form("/do/send-signal") | {"value": '{"rows": [1]}'})
    assert steps_of(service, job)["signal:approval"].value == Blob(b'{"rows":[1]}')


async def test_texts_of_a_schema_are_escaped(page_client: PageClient, service: Service) -> None:
    schema = {
        "type": "object",
        "title": HOSTILE,
        "properties": {
            HOSTILE: {"type": "string", "description": HOSTILE, "default": HOSTILE, "title": HOSTILE},
            f"{HOSTILE}\x00\u202e": {"enum": [HOSTILE, f'"{HOSTILE}']},
        },
    }
    job = start(service)
    suspend(service, job, wait_for("approval", schema=Blob(msgspec.json.encode(schema))))
    page = await page_client.get(f"/jobs/{job.key}")
    assert HOSTILE not in page.answer.text
    assert not page.all("img", src="x")
    await page_client.send("/do/send-signal", typed_form(page, "x", page.all("option")[-1]["value"]))
    value = steps_of(service, job)["signal:approval"].value
    assert value is not None
    assert msgspec.json.decode(value.data) == {HOSTILE: "x", f"{HOSTILE}\x00\u202e": f'"{HOSTILE}'}


# Run again


async def test_runs_a_job_again_from_a_step(page_client: PageClient, service: Service) -> None:
    job = start(service, retry=Backoff(tries=1))
    for name in ("reserve", "charge", "ship"):
        store(service, job, name)
    fail(service, job)
    page = await confirm(page_client, await page_client.get(f"/jobs/{job.key}"), "rewind-job", step="charge")
    assert "Dropped 2 steps. The job runs again from charge." in page.text
    assert list(steps_of(service, job)) == ["reserve"]
    assert stored(service, job).state is State.QUEUED
    assert last_entry(service) == ("rewind_job", job.key, "charge", "done")


async def test_runs_a_suspended_job_again_from_a_step(page_client: PageClient, service: Service) -> None:
    job = start(service)
    store(service, job, "charge")
    suspend(service, job, sleep(HOUR_MS))
    await confirm(page_client, await page_client.get(f"/jobs/{job.key}"), "rewind-job", step="charge")
    assert stored(service, job).state is State.QUEUED
    assert steps_of(service, job) == {}
    assert take(service).id == job.id


async def test_retries_a_failed_job_without_its_steps(page_client: PageClient, service: Service) -> None:
    job = start(service, retry=Backoff(tries=1))
    store(service, job, "charge")
    fail(service, job)
    page = await confirm(page_client, await page_client.get(f"/jobs/{job.key}"), "retry-job-fresh")
    assert "Retried the job from its beginning." in page.text
    assert steps_of(service, job) == {}
    assert stored(service, job).state is State.QUEUED
    assert last_entry(service) == ("retry_job_fresh", job.key, "", "done")


async def test_refuses_an_unknown_step_and_a_running_job(page_client: PageClient, service: Service) -> None:
    job = start(service)
    store(service, job, "charge")
    form = (await page_client.get(f"/jobs/{job.key}")).form("/do/cancel-jobs")
    fields = {"csrf": form["csrf"], "id": job.key, "confirmed": "1"}
    assert (await page_client.send("/do/rewind-job", fields | {"step": "charge"})).status_code == 409
    suspend(service, job, sleep())
    assert (await page_client.send("/do/rewind-job", fields | {"step": "other"})).status_code == 404
    assert (await page_client.send("/do/rewind-job", fields | {"step": ""})).status_code == 400
    assert stored(service, job).state is State.SUSPENDED


# Streams


def write(service: Service, job: Job, *values: bytes, before: int = 0) -> None:
    written = tuple(map(Blob, values))
    request = StreamWrite(id=job.id, token=job.lease_token, values=written, sequence=before, outside=before)
    service.write_stream([request]).one().wait()


async def test_shows_the_end_of_a_stream_and_all_of_it_in_pages(page_client: PageClient, service: Service) -> None:
    job = start(service)
    write(service, job, *(msgspec.json.encode(f"token {number}") for number in range(130)))
    page = await page_client.get(f"/jobs/{job.key}")
    assert "the last 20 of 130 entries" in page.text
    assert "token 129" in page.text
    assert "token 109" not in page.text
    page = await page_client.get(f"/jobs/{job.key}/stream")
    assert "token 99" in page.text
    assert "token 100" not in page.text
    (following,) = page.all("a", rel="next")
    page = await page_client.get(following["href"])
    assert "token 129" in page.text
    assert not page.all("a", rel="next")


async def test_marks_where_a_new_attempt_begins(page_client: PageClient, service: Service) -> None:
    job = start(service)
    write(service, job, b'"one"')
    service.requeue([job.id]).one().wait()
    again = take(service)
    write(service, again, b'"one"', b'"two"')
    page = await page_client.get(f"/jobs/{job.key}/stream")
    assert "attempt 2 begins" in page.text
    assert page.text.index("one") < page.text.index("attempt 2 begins") < page.text.index("two")


# Lists


async def test_lists_jobs_that_wait_for_a_signal(page_client: PageClient, service: Service) -> None:
    assert "No job waits for a signal" in (await page_client.get("/signals")).text
    first = wait_for_approval(service)
    service.store.clock_offset_ms += 1_000
    second = start(service, "refunds", "refund")
    suspend(service, second, wait_for("money"), wait_for("approval", HOUR_MS), sleep())
    asleep = start(service, "naps", "nap")
    suspend(service, asleep, sleep())
    page = await page_client.get("/signals")
    keys = [row["data-key"][:36] for row in page.all("tr") if "data-key" in row]
    assert keys == [first.key, second.key, second.key]
    assert "never" in page.text
    page = await page_client.get("/signals?signal=money")
    assert [row["data-key"][:36] for row in page.all("tr") if "data-key" in row] == [second.key]
    page = await page_client.get("/signals?queue=orders&signal=money")
    assert "Searched 1 suspended job." in page.text


async def test_a_search_for_signals_is_bounded_and_continues(
    page_client: PageClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.dashboard.views.signal_waits.SCANNED_MAX", 4)
    monkeypatch.setattr("windlass.dashboard.views.signal_waits.READ_AT_ONCE", 2)
    expected = {wait_for_approval(service).key for _ in range(9)}
    found: list[str] = []
    path = "/signals"
    for _ in range(4):
        page = await page_client.get(path)
        assert "Searched" in page.text
        found += [row["data-key"][:36] for row in page.all("tr") if "data-key" in row]
        following = page.all("a", rel="next")
        if not following:
            break
        path = following[0]["href"]
    assert (len(found), set(found)) == (9, expected)


async def test_the_list_of_suspended_jobs_shows_their_waits(page_client: PageClient, service: Service) -> None:
    first, second = wait_for_approval(service), start(service)
    suspend(service, second, sleep(HOUR_MS))
    page = await page_client.get("/jobs?state=suspended")
    assert "suspended 2" in page.text
    assert "waits for signal approval" in page.text
    assert "sleeps" in page.text
    assert {row["data-key"] for row in page.all("tr") if "data-key" in row} == {first.key, second.key}
    assert "/do/cancel-matching" in {found.get("formaction") for found in page.all("button")}
    assert "Suspended 2" in (await page_client.get("/queues/orders")).text
    assert f"/jobs/{first.key}" in [found["href"] for found in (await page_client.get("/search?q=ful")).all("a")]


# Access. Tokens are created before the server starts: a running server notices new tokens with a delay.


def token_of(service: Service, *roles: Role, queues: tuple[str, ...] = ()) -> str:
    return service.create_token(NewToken(name="user", roles=frozenset(roles), queues=queues)).wait().text


@pytest.fixture
def reader(service: Service) -> str:
    return token_of(service, Role.READ)


@pytest.fixture
def clerk(service: Service) -> str:
    return token_of(service, Role.READ, Role.PRODUCE)


@pytest.fixture
def sender(service: Service) -> str:
    return token_of(service, Role.PRODUCE)


@pytest.fixture
def of_one_queue(service: Service) -> str:
    return token_of(service, Role.READ, Role.PRODUCE, queues=("ours",))


async def test_a_reader_sees_no_forms(reader: str, page_client: PageClient, service: Service) -> None:
    job = wait_for_approval(service)
    await page_client.log_in(reader)
    page = await page_client.get(f"/jobs/{job.key}")
    assert "Waits for signal approval" in page.text
    assert not {"/do/send-signal", "/do/rewind-job", "/do/retry-job-fresh"} & page.actions
    assert "Answer" not in (await page_client.get("/signals")).text
    form = page.form("/logout")
    for verb in ("send-signal", "rewind-job", "retry-job-fresh"):
        answer = await page_client.send(f"/do/{verb}", {"csrf": form["csrf"], "id": job.key, "confirmed": "1"})
        assert answer.status_code == 403, verb


async def test_a_producer_may_signal_and_not_rewind(clerk: str, page_client: PageClient, service: Service) -> None:
    job = wait_for_approval(service)
    await page_client.log_in(clerk)
    page = await page_client.get(f"/jobs/{job.key}")
    assert "/do/send-signal" in page.actions
    assert "/do/rewind-job" not in page.actions
    form = page.form("/do/send-signal")
    assert (await page_client.send("/do/rewind-job", form | {"step": "x", "confirmed": "1"})).status_code == 403
    assert (await page_client.send("/do/send-signal", form | {"value": "1"})).status_code == 303


async def test_a_producer_without_read_sees_nothing_of_the_job(
    sender: str, page_client: PageClient, service: Service
) -> None:
    job = wait_for_approval(service, payload=b'"secret"')
    fields = {"id": job.key, "signal": "approval", "value": "not json"}
    page = Page(await page_client.send("/do/send-signal", fields, authorization=f"Bearer {sender}"))
    assert page.status == 400
    assert "secret" not in page.text


async def test_a_token_for_some_queues_sees_only_their_jobs(
    of_one_queue: str, page_client: PageClient, service: Service
) -> None:
    ours, theirs = wait_for_approval(service, "ours"), wait_for_approval(service, "theirs")
    await page_client.log_in(of_one_queue)
    page = await page_client.get("/signals")
    assert [row["data-key"][:36] for row in page.all("tr") if "data-key" in row] == [ours.key]
    assert (await page_client.get("/signals?queue=theirs")).status == 403
    for path in (f"/jobs/{theirs.key}", f"/jobs/{theirs.key}/stream", f"/jobs/{theirs.key}/step?name=signal:approval"):
        assert (await page_client.get(path)).status in (403, 404), path
    form = (await page_client.get(f"/jobs/{ours.key}")).form("/do/send-signal") | {"id": theirs.key, "confirmed": "1"}
    for verb in ("send-signal", "rewind-job", "retry-job-fresh"):
        answer = await page_client.send(f"/do/{verb}", form | {"value": "1", "step": "signal:approval"})
        assert answer.status_code in (403, 404), verb
    assert stored(service, theirs).state is State.SUSPENDED


class TestWithoutPayloads:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, roles="api", dashboard_hide_payloads=True)

    async def test_hides_values_of_steps_signals_and_streams(self, page_client: PageClient, service: Service) -> None:
        job = start(service)
        store(service, job, "charge", b'"secret"')
        store(service, job, "ship", b'{"message": "secret"}', status=StepStatus.FAILED)
        send(service, job, "late", b'"secret"')
        write(service, job, b'"secret"')
        for path in (f"/jobs/{job.key}", f"/jobs/{job.key}/stream"):
            page = await page_client.get(path)
            assert page.status == 200
            assert "secret" not in page.text
        assert (await page_client.get(f"/jobs/{job.key}/step?name=charge")).status == 403


async def test_hostile_names_and_values_are_shown_as_text(page_client: PageClient, service: Service) -> None:
    job = start(service)
    store(service, job, HOSTILE, msgspec.json.encode({HOSTILE: HOSTILE}))
    write(service, job, msgspec.json.encode(HOSTILE))
    suspend(service, job, wait_for(HOSTILE))
    for path in (f"/jobs/{job.key}", "/signals", f"/jobs/{job.key}/stream", "/jobs?state=suspended"):
        page = await page_client.get(path)
        assert page.status == 200
        assert HOSTILE in page.text
        assert not page.all("img", src="x")
