"""Pages about jobs, without scripts: lists and filters, one job, search, failures."""

from __future__ import annotations

import msgspec
import pytest

from tests.dashboard.page_client import Page, PageClient
from windlass.core.access.tokens import NewToken, Role
from windlass.core.errors import Refusal
from windlass.core.ids import download_id_of_number, format_id
from windlass.core.job import Blob, Callback, Cap, Codec, NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.log import Log, LogLine
from windlass.core.operations import Fail, Finish, Take, Update
from windlass.core.retry import Backoff
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
ONCE = Backoff(tries=1)


def enqueue(service: Service, *jobs: NewJob) -> list[str]:
    answers = service.enqueue(jobs).wait()
    return [format_id(answer.id) for answer in answers if not isinstance(answer, Refusal)]


def take(service: Service, queue: str = "mail") -> tuple[bytes, int]:
    (job,) = service.take(Take(queues=(queue,), worker=b"w" * 16)).wait().jobs
    return job.id, job.lease_token


def fail(service: Service, queue: str, message: str, kind: str = "ValueError") -> str:
    job_id, token = take(service, queue)
    error = Blob(msgspec.json.encode({"type": kind, "message": message, "traceback": f"Traceback\n  {message}"}))
    service.fail([Fail(id=job_id, token=token, error=error)]).one().wait()
    service.store.clock_offset_ms += 1  # no two jobs end in the same millisecond
    return format_id(job_id)


def rows(page: Page) -> list[str]:
    return [row["data-key"] for row in page.all("tr") if "data-key" in row]


def links(page: Page, rel: str) -> str:
    (found,) = page.all("a", rel=rel)
    return found["href"]


def check_harmless(page: Page) -> None:
    assert all("src" in script for script in page.all("script"))
    assert not page.all("img", src="x")


# One job


async def test_shows_the_data_of_a_job(page_client: PageClient, service: Service) -> None:
    service.limit(Limit(name="two at once", matches=Matcher(queue="mail"), running=2)).wait()
    payload = Blob(b'{"order": 9007199254740993, "to": ["ada"]}')
    (key,) = enqueue(
        service,
        NewJob(queue="mail", name="send", payload=payload, tags=("shop",), lane="eu", unique="order-7", priority=-3),
    )
    job_id, token = take(service)
    service.update([Update(id=job_id, token=token, progress=0.62, note="half way")]).one().wait()
    service.log([Log(job_id, token, [LogLine(1_790_000_000_000, "warning", "no key in frame 9")])]).one().wait()
    page = await page_client.get(f"/jobs/{key}")
    assert page.status == 200
    for text in ("send", key, "9007199254740993", "shop", "order-7", "eu", "-3", "62 %", "half way", "two at once",
                 "1 of 2", "no key in frame 9", "has been running it since", "running"):  # fmt: skip
        assert text in page.text, text
    assert page.all("progress", value="62.0")
    assert {"/do/cancel-jobs", "/do/requeue-jobs"} <= page.actions
    assert not page.actions & {"/do/retry-jobs", "/do/delete-jobs"}


async def test_shows_errors_and_actions_of_a_failed_job(page_client: PageClient, service: Service) -> None:
    enqueue(service, NewJob(queue="mail", name="send", retry=Backoff(tries=2, base_ms=0)))
    for then in ("retry", "final"):
        job_id, token = take(service)
        error = Blob(b'{"type":"SMTPError","message":"no route","traceback":"Traceback\\n  here"}')
        service.fail([Fail(id=job_id, token=token, error=error, then=then)]).one().wait()  # type: ignore[arg-type]
    page = await page_client.get(f"/jobs/{format_id(job_id)}")
    assert page.text.count("SMTPError: no route") == 3  # at the top, and in each attempt
    assert "Attempt 2" in page.text
    assert "Traceback" in page.text
    assert {"/do/retry-jobs", "/do/delete-jobs"} <= page.actions
    assert "/do/cancel-jobs" not in page.actions


async def test_shows_why_a_job_does_not_run(page_client: PageClient, service: Service) -> None:
    (key,) = enqueue(service, NewJob(queue="mail", name="send"))
    service.pause("mail", reason="the relay is down").wait()
    page = await page_client.get(f"/jobs/{key}")
    assert "the relay is down" in page.text
    assert "No worker listens to queue" in page.text


async def test_links_the_jobs_that_hold_a_limit(page_client: PageClient, service: Service) -> None:
    service.limit(Limit(name="<b>one</b>", matches=Matcher(queue="mail"), running=1)).wait()
    holder, waiting = enqueue(service, *[NewJob(queue="mail", name="send")] * 2)
    take(service)
    page = await page_client.get(f"/jobs/{waiting}")
    assert "held by" in page.text
    assert page.all("a", href=f"/jobs/{holder}")
    assert not page.all("b")


async def test_shows_a_limit_whose_keys_have_their_own_caps(page_client: PageClient, service: Service) -> None:
    service.limit(Limit(name="per site", matches=Matcher(queue="mail"), running=1, key="site", own_caps=True)).wait()
    cap = Cap(limit="per site", running=3)
    payload = Blob(b'{"site": "a=b"}')
    key, *_ = enqueue(service, *[NewJob(queue="mail", name="send", payload=payload, cap=cap)] * 4)
    service.take(Take(queues=("mail",), worker=b"w" * 16, most=4)).wait()
    page = await page_client.get(f"/jobs/{key}")
    assert "3 of 3" in page.text
    queue = await page_client.get("/queues/mail")
    assert "per site" in queue.text


async def test_shows_and_downloads_a_result(page_client: PageClient, service: Service) -> None:
    (key,) = enqueue(service, NewJob(queue="mail", name="send", payload=Blob(b'{"a": 1}'), result_ttl_ms=60_000))
    job_id, token = take(service)
    result = Blob(msgspec.msgpack.encode({"parcel": 2**63, "label": b"\x00\xff"}), Codec.MSGPACK)
    service.finish([Finish(job_id, token, result)]).one().wait()
    page = await page_client.get(f"/jobs/{key}")
    assert "9223372036854775808" in page.text
    assert "binary data" in page.text
    got = await page_client.http.get(f"/jobs/{key}/result")
    assert got.content == result.data
    assert got.headers["content-disposition"] == f'attachment; filename="{key}-result.msgpack"'
    assert (await page_client.http.get(f"/jobs/{key}/payload")).content == b'{"a": 1}'


async def test_links_parents_and_children(page_client: PageClient, service: Service) -> None:
    (parent,) = enqueue(service, NewJob(queue="mail", name="newsletter"))
    parent_id, _ = take(service)
    (child,) = enqueue(service, NewJob(queue="mail", name="send", parent=parent_id))
    page = await page_client.get(f"/jobs/{child}")
    assert page.all("a", href=f"/jobs/{parent}")
    assert "newsletter" in page.text
    page = await page_client.get(f"/jobs/{parent}")
    assert page.all("a", href=f"/jobs/{child}")
    assert "child" in page.text


@pytest.mark.parametrize("state", ["queued", "failed"])
async def test_escapes_hostile_texts_on_every_page_about_a_job(
    page_client: PageClient, service: Service, state: str
) -> None:
    hostile = NewJob(
        queue=HOSTILE, name=HOSTILE, payload=Blob(msgspec.json.encode({HOSTILE: HOSTILE})), tags=(HOSTILE[:60],),
        lane=HOSTILE, unique=HOSTILE, trace=HOSTILE, retry=ONCE,
        callback=Callback(url="https://192.0.2.7/?x=%22%3E%3Cscript%3E"),
    )  # fmt: skip
    (key,) = enqueue(service, hostile)
    if state == "failed":
        fail(service, HOSTILE, HOSTILE, HOSTILE)
    paths = [
        f"/jobs/{key}",
        f"/jobs/{key}/edit",
        f"/jobs/new?copy={key}",
        f"/jobs?state={state}",
        "/search?q=%3Cscript",
    ]
    for path in [*paths, f"/jobs?state={state}&name=%22%3E%3Cimg+src%3Dx+onerror%3Dalert(1)%3E", "/failures"]:
        page = await page_client.get(path)
        assert page.status == 200
        assert "&lt;script" in page.answer.text or path == "/failures"
        check_harmless(page)


async def test_refuses_unknown_and_malformed_ids(page_client: PageClient) -> None:
    page = await page_client.get("/jobs/01890a5d-ac96-7000-8000-b5c1d0b7a3f2")
    assert page.status == 404
    assert (await page_client.get("/jobs/nonsense")).status == 400


async def test_explains_that_an_ended_job_was_removed(page_client: PageClient, service: Service) -> None:
    (key,) = enqueue(service, NewJob(queue="mail", name="send"))
    job_id, token = take(service)
    service.finish([Finish(job_id, token)]).one().wait()
    page = await page_client.get(f"/jobs/{key}")
    assert page.status == 404
    assert "has ended and was removed" in page.text
    live = await page_client.http.get(f"/jobs/{key}", headers={"x-windlass-live": "1"})
    assert live.status_code == 204  # an open page keeps its content


class TestHidden:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, dashboard_hide_payloads=True)

    async def test_hides_payloads_results_and_logs(self, page_client: PageClient, service: Service) -> None:
        secret = NewJob(queue="mail", name="send", payload=Blob(b'"secret payload"'), result_ttl_ms=60_000)
        (key,) = enqueue(service, secret)
        paths = [f"/jobs/{key}", "/jobs", f"/jobs/new?copy={key}", f"/jobs/{key}/edit", "/search?q=send"]
        for path in paths:
            page = await page_client.get(path)
            assert page.status == 200
            assert "secret" not in page.answer.text
        job_id, token = take(service)
        service.log([Log(job_id, token, [LogLine(1, "info", "secret line")])]).one().wait()
        service.finish([Finish(job_id, token, Blob(b'"secret result"'))]).one().wait()
        assert "secret" not in (await page_client.get(f"/jobs/{key}")).answer.text
        assert (await page_client.get(f"/jobs/{key}/payload")).status == 403
        assert (await page_client.get(f"/jobs/{key}/result")).status == 403

    async def test_hides_indexed_fields_also_from_searches(self, page_client: PageClient, service: Service) -> None:
        (key,) = enqueue(service, NewJob(queue="q", name="n", payload=Blob(b'{"f":"secret"}'), index=("f",)))
        assert "secret" not in (await page_client.get(f"/jobs/{key}")).answer.text
        assert key not in (await page_client.get("/search?q=f%3Dsecret")).answer.text
        assert (await page_client.get("/jobs?where=f%3Dsecret")).status == 403
        assert "f-where" not in (await page_client.get("/jobs")).answer.text


# Lists


async def test_filters_a_list_by_its_address(page_client: PageClient, service: Service) -> None:
    mail, news, tagged = enqueue(
        service,
        NewJob(queue="mail", name="send_mail"),
        NewJob(queue="news", name="send_news"),
        NewJob(queue="mail", name="check", tags=("shop",)),
    )
    for query, wanted in [
        ("", {mail, news, tagged}),
        ("?queue=mail", {mail, tagged}),
        ("?name=send", {mail, news}),
        ("?name=%3Dsend", set()),
        ("?name=%3Dcheck", {tagged}),
        ("?tag=shop", {tagged}),
        ("?tag=shop&state=failed", set()),
        ("?since=1h", {mail, news, tagged}),
        ("?before=1h", set()),
        ("?before=2020-01-31+08%3A00", set()),
        ("?state=running", set()),
    ]:
        page = await page_client.get(f"/jobs{query}")
        assert page.status == 200
        assert set(rows(page)) == wanted, query
    assert "No matching jobs" in (await page_client.get("/jobs?queue=mail&name=zzz")).text
    assert "No running jobs" in (await page_client.get("/jobs?state=running")).text


@pytest.mark.parametrize(
    "query", ["state=nonsense", "since=yesterday", "queue=mail&cursor=nonsense", "order=oldest&cursor=%00"]
)
async def test_refuses_invalid_filters(page_client: PageClient, query: str) -> None:
    page = await page_client.get(f"/jobs?{query}")
    assert page.status == 400
    assert len(page.all("h1")) == 1


async def test_finds_jobs_by_an_indexed_payload_field(page_client: PageClient, service: Service) -> None:
    service.configure("orders", {"index": ("order_id",)}).wait()
    payload = Blob(b'{"order_id":4711,"customer":{"email":"a@b.c"}}')
    queued, later, other = enqueue(
        service,
        NewJob(queue="orders", name="ship", payload=payload),
        NewJob(queue="mail", name="send", payload=payload, index=("order_id", "customer.email"), delay_ms=60_000),
        NewJob(queue="orders", name="ship", payload=Blob(b'{"order_id":4712}')),
    )
    page = await page_client.get("/jobs?where=order_id%3D4711")
    assert set(rows(page)) == {queued, later}
    assert other not in page.answer.text
    assert rows(await page_client.get("/jobs?where=order_id%3D4711&state=scheduled")) == [later]
    assert "Found jobs" in page.answer.text
    about = await page_client.get(f"/jobs/{later}")
    assert "Indexed order_id=4711 customer.email=a@b.c" in about.text
    assert about.all("a", href="/jobs?where=customer.email%3Da%40b.c")
    for q in ("order_id=4711", "order_id:4711"):
        assert set(rows(await page_client.get(f"/search?q={q}"))) == {queued, later}
    assert "Nothing found" in (await page_client.get("/search?q=ordr_id=4711")).text
    refused = await page_client.get("/jobs?where=ordr_id%3D4711")
    assert refused.status == 400
    assert "orders: order_id" in refused.text


@pytest.mark.parametrize("page", ["jobs", "flows"])
async def test_the_address_with_a_part_of_an_id_leads_to_the_search(page_client: PageClient, page: str) -> None:
    answer = await page_client.http.get(f"/{page}/79df4d", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/search?q=79df4d")
    assert (await page_client.get(f"/{page}/nonsense")).status == 400


async def test_filters_failed_jobs_by_error(page_client: PageClient, service: Service) -> None:
    enqueue(service, *[NewJob(queue="mail", name="send", retry=ONCE)] * 3)
    timed_out = [fail(service, "mail", f"timed out after {seconds} s") for seconds in (3, 5)]
    refused = fail(service, "mail", "connection refused")
    page = await page_client.get("/jobs?state=failed&error=Timed+OUT")
    assert rows(page) == timed_out[::-1]  # newest first
    assert "ValueError: timed out after 5 s" in page.text
    assert "connection refused" not in page.text
    assert rows(await page_client.get("/jobs?state=failed&order=oldest")) == [*timed_out, refused]


async def test_pages_forward_and_back(page_client: PageClient, service: Service, store: Store) -> None:
    keys = enqueue(service, *[NewJob(queue="mail", name=f"n{number}") for number in range(120)])
    first = await page_client.get("/jobs?queue=mail")
    assert rows(first) == keys[:50]
    second = await page_client.get(links(first, "next"))
    third = await page_client.get(links(second, "next"))
    assert rows(second) + rows(third) == keys[50:]
    assert not third.all("a", rel="next")
    back = await page_client.get(links(third, "prev"))
    assert rows(back) == keys[50:100]
    assert rows(await page_client.get(links(back, "prev"))) == keys[:50]
    # Jobs that leave the list do not shift its pages.
    service.delete([first_id for first_id, _ in [take(service) for _ in range(10)]], even_leased=True).wait()
    assert rows(await page_client.get(links(first, "next"))) == keys[50:100]


async def test_a_bounded_search_shows_its_progress_and_continues(
    page_client: PageClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.dashboard.views.job_search.search_jobs.__defaults__", (100,))
    monkeypatch.setattr("windlass.store.commands.jobs.LOOKED_AT", 100)
    jobs = [NewJob(queue="mail", name="plain") for _ in range(250)] + [NewJob(queue="mail", name="special")]
    service.enqueue(jobs).wait()
    page = await page_client.get("/jobs?queue=mail&name=special")
    assert rows(page) == []
    assert "Searched 100 jobs; 0 match." in page.text
    seen = 0
    while page.all("a", rel="next"):
        page = await page_client.get(links(page, "next"))
        seen += len(rows(page))
    assert seen == 1


async def test_shows_the_count_of_each_list(page_client: PageClient, service: Service) -> None:
    enqueue(service, *[NewJob(queue="mail", name="send", retry=ONCE)] * 3, NewJob(queue="news", name="send"))
    fail(service, "mail", "no")
    assert "queued 3" in (await page_client.get("/jobs")).text
    assert (
        "queued 2 running 0 scheduled 0 suspended 0 waiting 0 failed 1"
        in (await page_client.get("/jobs?queue=mail")).text
    )


# Search


async def test_search_redirects_from_an_id_of_any_dialect_to_its_job(page_client: PageClient, service: Service) -> None:
    (number_id,) = service.reserve_numbers("bedrock").wait()
    plain, downloaded = enqueue(
        service, NewJob(queue="mail", name="send"), NewJob(queue="downloads", name="download", unique="aB3dE5gH7jK9mN")
    )
    enqueue(service, NewJob(queue="bedrock", name="www-prod", id=number_id))
    number = service.number([number_id]).one().wait()
    (later,) = enqueue(service, NewJob(queue="bedrock", name="given a number later"))
    later_number = service.number([parse(later)]).one().wait()
    uuid = "6e2c1f9e-8f0e-4c55-9a2b-6b1f6f6f0001"
    (added,) = enqueue(service, NewJob(queue="images", name="job", unique=uuid))
    (ordered,) = enqueue(service, NewJob(queue="downloads", name="ordered elsewhere"))
    download_id = download_id_of_number(service.number([parse(ordered)]).one().wait())
    for q, key in [
        (uuid, added),
        (download_id, ordered),
        (plain, plain),
        (f"  {plain.upper()} ", plain),
        (plain.replace("-", ""), plain),
        ("aB3dE5gH7jK9mN", downloaded),
        (str(number), format_id(number_id)),
        (str(later_number), later),
    ]:
        answer = await page_client.http.get("/search", params={"q": q})
        assert (answer.status_code, answer.headers.get("location")) == (303, f"/jobs/{key}"), q


async def test_search_lists_all_jobs_of_a_name(
    page_client: PageClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = enqueue(service, *(NewJob(queue=queue, name="n", unique="key") for queue in ("one", "two")))
    page = await page_client.get("/search?q=key")
    assert sorted(rows(page)) == sorted(keys)
    assert "Nothing found" not in page.text
    assert "to look everywhere" not in page.text
    monkeypatch.setattr("windlass.service.aliases.lookup.QUEUES_SEARCHED_MAX", 0)
    assert "to look everywhere" in (await page_client.get("/search?q=key")).text


async def test_a_job_shows_its_other_names(page_client: PageClient, service: Service) -> None:
    uuid = "6e2c1f9e-8f0e-4c55-9a2b-6b1f6f6f0001"
    payload = Blob(b'{"uuid": "%s"}' % uuid.encode())
    added, ordered, other = enqueue(
        service, NewJob(queue="images", name="job", unique=uuid, payload=payload), NewJob(queue="downloads", name="d"),
        NewJob(queue="images", name="job", unique="order-7"),
    )  # fmt: skip
    about = (await page_client.get(f"/jobs/{added}")).text
    assert f"Processor uuid {uuid}" in about
    assert "Unique key" not in about
    about = (await page_client.get(f"/jobs/{other}")).text
    assert "Unique key order-7" in about
    assert "Processor uuid" not in about
    assert "number " not in (await page_client.get(f"/jobs/{ordered}")).text, "a look assigns no number"
    number = service.number([parse(ordered)]).one().wait()
    about = (await page_client.get(f"/jobs/{ordered}")).text
    assert f"number {number}" in about
    assert f"Download id {download_id_of_number(number)}" in about


def parse(key: str) -> bytes:
    return bytes.fromhex(key.replace("-", ""))


async def test_search_finds_names_tags_and_queues(page_client: PageClient, service: Service) -> None:
    named, tagged, other = enqueue(
        service,
        NewJob(queue="one", name="send_mail"),
        NewJob(queue="two", name="check", tags=("mail",)),
        NewJob(queue="mailing", name="other"),
    )
    page = await page_client.get("/search?q=mail")
    assert set(rows(page)) == {named, tagged}
    assert page.all("a", href="/jobs?queue=mailing")
    assert other not in page.answer.text
    assert "Nothing found" in (await page_client.get("/search?q=zzz")).text


# Failures


def fail_chain(service: Service, *queues: str) -> list[str]:
    """Enqueue jobs that wait for each other, one in each queue, and fail the first."""
    ids = service.store.new_ids(list(queues))
    enqueue(
        service,
        *(
            NewJob(queue=queue, name=f"{queue}_step", id=ids[at], after=tuple(ids[max(0, at - 1) : at]), retry=ONCE)
            for at, queue in enumerate(queues)
        ),
    )
    fail(service, queues[0], "card 7 was declined")
    return [format_id(job_id) for job_id in ids]


async def test_consequences_are_folded_into_their_cause(page_client: PageClient, service: Service) -> None:
    cause, ship, notify = fail_chain(service, "charge", "ship", "notify")
    page = await page_client.get("/failures")
    assert "1 group of errors" in page.text
    assert "1 failed job, 2 later steps failed because of them" in page.text
    assert "2 later steps failed because of it" in page.text
    assert "2 failed because of jobs that are not listed here" not in page.text
    elsewhere = await page_client.get("/failures?queue=notify")
    assert "1 job failed because of other jobs" in elsewhere.text
    listed = await page_client.get("/jobs?state=failed")
    assert len(rows(listed)) == 3
    assert listed.text.count("because of charge_step") == 2
    assert len([link for link in listed.all("a") if link["href"].endswith(f"/jobs/{cause}")]) == 3
    for consequence in (ship, notify):
        shown = await page_client.get(f"/jobs/{consequence}")
        assert f'because "charge_step" (job {cause} ) failed: ValueError: card 7 was declined' in shown.text
        assert [link for link in shown.all("a") if link["href"].endswith(f"/jobs/{cause}")]


async def test_a_cause_in_another_queue_is_not_shown(page_client: PageClient, service: Service) -> None:
    cause, own = fail_chain(service, "charge", "mail")
    made = await service.create_token(NewToken(name="r", roles=frozenset({Role.READ}), queues=("mail",)))
    while (await page_client.get("/")).status == 200:  # until the server knows the token
        pass
    assert (await page_client.log_in(made.text)).status_code == 303
    for path in ("/jobs?state=failed", f"/jobs/{own}"):
        page = await page_client.get(path)
        assert "because of a job of another queue" in page.text
        for secret in ("charge", "declined"):
            assert secret not in page.text
    assert cause not in (await page_client.get("/jobs?state=failed")).answer.text


async def test_groups_failures_and_links_their_jobs(page_client: PageClient, service: Service) -> None:
    enqueue(
        service, *[NewJob(queue="mail", name="send", retry=ONCE)] * 4, NewJob(queue="mail", name="send_all", retry=ONCE)
    )
    for number in range(3):
        fail(service, "mail", f"order {number} is unknown")
    fail(service, "mail", "no route")
    fail(service, "mail", "order 9 is unknown")
    page = await page_client.get("/failures")
    assert "3 groups of errors" in page.text
    assert "5 failed jobs" in page.text
    (largest, *_) = [link["href"] for link in page.all("a", **{"class": "group-error"})]
    listed = await page_client.get(largest)
    assert len(rows(listed)) == 3
    assert "send_all" not in listed.text
    assert "No failed jobs" in (await page_client.get("/failures?queue=other")).text
