"""Orders that other dialects have made: where they are in a payload, refusals, ids, attempts and aggregations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.downloads.origin import AtWork, Origin, ReceivedRequest, answer, at_work
from windlass import Windlass
from windlass.core.ids import download_id_of_number, number_of_download_id, parse_id
from windlass.core.job import Blob, Codec, NewJob
from windlass.core.operations import Take
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.downloads.api.aggregation import LIMIT, prepare
from windlass.downloads.worker import QUEUE
from windlass.downloads.worker.order import CRASHES_MAX
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio


@pytest.fixture
async def opened(service: Service, store: Store) -> AsyncIterator[Service]:
    async with store, asyncio.timeout(60):
        yield service


@pytest.fixture
async def work(opened: Service, tmp_path: Path) -> AsyncIterator[AtWork]:
    async with at_work(opened, tmp_path) as work:
        yield work


async def made(service: Service, payload: Any, codec: Codec = Codec.JSON, **terms: Any) -> bytes:
    encode = msgspec.json.encode if codec == Codec.JSON else msgspec.msgpack.encode
    job = NewJob(queue=QUEUE, name="any", payload=Blob(encode(payload), codec), result_ttl_ms=600_000, **terms)
    return (await service.enqueue([job]).one()).id


async def download_id(service: Service, job_id: bytes) -> str:
    return download_id_of_number(await service.number([job_id]).one())


PROCESSOR = {"uuid": "abc", "queue_name": QUEUE, "command": "fetch", "priority": 5}
FORMS: dict[str, tuple[Any, Codec]] = {
    "Jobber's payload": ({"url": "URL", "aggr_id": "shop", "more": 1}, Codec.JSON),
    "a job of the processor": (PROCESSOR | {"url": "URL"}, Codec.JSON),
    "its args": (PROCESSOR | {"args": {"url": "URL", "mime_type": "text/*"}}, Codec.JSON),
    "the only one of its args": (PROCESSOR | {"args": [{"url": "URL"}]}, Codec.JSON),
    "Bedrock's data": ({"url": "URL", "retryAfterCount": 1}, Codec.JSON),
    "LightJQ's argument": ({"url": "URL", "max_retries": 1.0}, Codec.MSGPACK),
    "arguments of a task": ({"url": "URL", "download_timeout": None, "$windlass": {"v": 1}}, Codec.MSGPACK),
}


@pytest.mark.parametrize("form", FORMS)
async def test_an_order_in_any_form_is_done(work: AtWork, form: str) -> None:
    payload, codec = FORMS[form]
    async with Origin(answer(b"text")).open() as origin:
        filled = json.loads(json.dumps(payload).replace("URL", origin.url()))
        job_id = await made(work.service, filled, codec)
        end = await work.end_of(job_id)
        name = await download_id(work.service, job_id)
        assert (end["success"], end["job_id"], len(name)) == (True, name, 14)
        assert end["download_url"].endswith(f"/{name[:3]}/{name}")
        assert work.files() == {f"{name[:3]}/{name}": b"text"}


async def test_a_call_of_the_sdk_is_an_order(work: AtWork) -> None:
    app = Windlass()
    app.connect(work.service.store)

    @app.task(queue=QUEUE, keep_result="1h")
    def fetch(url: str, max_retries: int = 5) -> None:
        """The function is never called: the download worker takes its jobs."""

    async with Origin(answer(b"text")).open() as origin:
        handle = await fetch.aenqueue(url=origin.url(), max_retries=0)
        assert (await work.end_of(parse_id(handle.id)))["success"]


WRONG: list[tuple[Any, str]] = [
    (None, "The payload is not an object."),
    ([{"url": "http://x/"}], "The payload is not an object."),
    ({}, "url is missing."),
    ({"link": "http://x/"}, "url is missing."),
    ({"args": "http://x/"}, "url is missing, and args is not an object with a url."),
    ({"args": [1, 2]}, "url is missing, and args is not an object with a url."),
    ({"args": {}}, "url is missing."),
    ({"url": 7}, "url must be a string."),
    ({"url": "ftp://x/"}, "url must be an absolute http or https URL"),
    ({"url": "http://x/", "id": 7}, "id must be a string"),
    ({"url": "http://x/", "id": "../x"}, "id must be a string"),
    ({"url": "http://x/", "aggr_id": 7}, "aggr_id must be a string."),
    ({"url": "http://x/", "aggr_id": "a" * 1025}, "aggr_id may have 1024 bytes."),
    ({"url": "http://x/", "max_retries": "1"}, "max_retries must be a number."),
    ({"url": "http://x/", "max_retries": -1}, "max_retries must be at least 0."),
    ({"url": "http://x/", "mime_type": "["}, "mime_type: "),
    ({"url": "http://x/", "download_timeout": 0}, "download_timeout must be more than 0."),
    ({"url": "http://x/", "extract_image_size": 1}, "extract_image_size must be true or false."),
    ({"url": "http://x/", "request_headers": {"a": 1}}, "request_headers must be an object of strings."),
    ({"url": "http://x/", "request_headers": {"a": "b\r\nc: d"}}, "request_headers: 'a' cannot be a header"),
    ({"url": "http://x/", "s3_bucket": "b"}, "s3_bucket and s3_region go together."),
]


async def test_what_is_no_order_is_refused_once_and_says_why(work: AtWork) -> None:
    ids = [await made(work.service, payload, retry=Backoff(tries=9)) for payload, _ in WRONG]
    ids += [await made(work.service, payload, Codec.MSGPACK) for payload, _ in WRONG]
    for job_id, (_, said) in zip(ids, WRONG * 2, strict=True):
        end = await work.end_of(job_id)
        assert (end["state"], end["attempt"]) == ("FAILED", 1)
        assert end["message"].startswith(f"Error while reading the job, {said}")
        assert 'An order is an object such as {"url": ' in end["message"]
        assert end["message"].endswith("retriable: false, internal: false")
    assert work.files() == {}


@pytest.mark.parametrize("data", [b"\xc1", b"\x81\xc4\x01a\x01", b"\x81\x01\x02"])
async def test_bytes_that_are_no_order(work: AtWork, data: bytes) -> None:
    for codec in (Codec.RAW, Codec.MSGPACK):
        job = NewJob(queue=QUEUE, name="n", payload=Blob(data, codec), result_ttl_ms=60_000)
        end = await work.end_of((await work.service.enqueue([job]).one()).id)
        assert (end["state"], "reading the job" in end["message"]) == ("FAILED", True)


# The id


async def test_the_id_is_the_same_in_every_attempt(work: AtWork) -> None:
    async with Origin(answer(b"", "500 No")).open() as origin:
        job_id = await made(work.service, {"url": origin.url(), "max_retries": 2})
        await work.end_of(job_id)
        attempts = (await work.service.job([job_id]).one()).attempts
        errors = [json.loads(one.error.data) for one in attempts if one.error]
        name = await download_id(work.service, job_id)
        assert [error["job_id"] for error in errors] == [name] * 3
        assert number_of_download_id(name) is not None


# Attempts


@pytest.mark.parametrize(
    ("policy", "fields", "attempts"),
    [
        (Backoff(tries=0), {}, 3),
        (Backoff(tries=0), {"max_retries": 1}, 2),
        (Backoff(tries=2), {}, 2),
        (Backoff(tries=9), {"max_retries": 0}, 1),
    ],
)
async def test_attempts_are_bounded_by_the_order_and_by_the_job(
    work: AtWork, policy: Backoff, fields: dict[str, Any], attempts: int
) -> None:
    async with Origin(answer(b"", "500 No")).open() as origin:
        end = await work.end_of(await made(work.service, {"url": origin.url(), **fields}, retry=policy))
        assert (end["attempt"], len(origin.requests)) == (attempts, attempts)


async def test_a_job_without_a_bound_does_not_kill_processors_forever(
    opened: Service, store: Store, tmp_path: Path
) -> None:
    job_id = await made(opened, {"url": "http://127.0.0.1:9/", "max_retries": 0})
    for _ in range(1 + CRASHES_MAX):
        assert (await opened.take(Take(queues=(QUEUE,), lease_ms=1000))).jobs
        store.clock_offset_ms += 2000
        await opened.recover()
    async with at_work(opened, tmp_path) as work:
        end = await work.end_of(job_id)
        assert (end["state"], end["attempt"]) == ("FAILED", 2 + CRASHES_MAX)
        assert "it was begun several times and never ended" in end["message"]


# Aggregations


async def test_orders_from_elsewhere_count_against_the_limit_of_their_aggregation(
    opened: Service, tmp_path: Path
) -> None:
    running: set[str] = set()
    most = 0
    let_go = asyncio.Event()

    async def watch(asked: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        nonlocal most
        running.add(asked.target)
        most = max(most, len(running))
        await let_go.wait()
        running.discard(asked.target)
        await answer(b"x")(asked, writer)

    await prepare(opened)
    async with Origin(watch).open() as origin, at_work(opened, tmp_path, slots=20) as work:
        ids = [await made(opened, {"url": origin.url(f"/{n}"), "aggr_id": "shop"}) for n in range(10)]
        while len(running) < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        shown = await opened.aggregation(LIMIT.name, "shop")
        assert (shown.running, shown.queued) == (4, 6)
        let_go.set()
        for job_id in ids:
            assert (await work.end_of(job_id))["success"]
        assert most == 4


async def test_the_first_order_from_elsewhere_creates_the_limit(opened: Service, tmp_path: Path) -> None:
    given = {"prepare": prepare}
    async with Origin(answer(b"x")).open() as origin, at_work(opened, tmp_path, given=given) as work:
        assert (await opened.limits()) == []
        first = await made(opened, {"url": origin.url(), "aggr_id": "shop"})
        assert (await work.end_of(first))["success"]
        (found,) = await opened.limits()
        assert found.limit == LIMIT
        await opened.pause(QUEUE)
        second = await made(opened, {"url": origin.url(), "aggr_id": "shop"})
        assert (await opened.job([second]).one()).job.limits == ('1="shop"',)


async def test_a_job_without_a_callback_just_ends(work: AtWork) -> None:
    async with Origin(answer(b"x")).open() as origin:
        fields = {"url": origin.url(), "callback_url": "http://127.0.0.1:9/", "aggr_limit": 1}
        job_id = await made(work.service, fields)
        assert (await work.end_of(job_id))["success"]
        assert (await work.service.callbacks()).callbacks == []
        assert (await work.service.job([job_id]).one()).job.state == State.FINISHED
