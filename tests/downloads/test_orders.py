"""Fields of a download order, row by row: accepted values, defaults and refusals."""

from __future__ import annotations

import json
from typing import Any

import httpx
import msgspec
import pytest

from windlass.core.errors import BadInput
from windlass.core.job import Callback, Job
from windlass.downloads.api.order_form import OrderForm, ParsedOrder, parse_order
from windlass.service import Service

ORDER: dict[str, Any] = {
    "url": "http://example.com/a.jpg", "aggr_id": "store", "aggr_limit": 3, "callback_url": "http://receiver/done",
}  # fmt: skip


class _NotGiven:
    def __repr__(self) -> str:
        return "not given"  # the name of a test must be the same in every process


NOT_GIVEN = _NotGiven()
WRONG_TYPES = (None, 7, 1.5, True, [], {}, ["x"], {"a": "b"})


def read(changes: dict[str, Any]) -> ParsedOrder:
    given = {name: value for name, value in (ORDER | changes).items() if value is not NOT_GIVEN}
    return parse_order(msgspec.json.decode(json.dumps(given), type=OrderForm))


BUCKET = {"s3_bucket": "b", "s3_region": "r"}
NO_CALLBACK = {"callback_url": NOT_GIVEN}
REFUSED: list[dict[str, Any]] = [
    *({"url": value} for value in (NOT_GIVEN, "", "foo", "foo.com/a", "/absolute/path", "ftp://x/a", "http://", "http:///a",
      "file:///etc/passwd", "http://x:0/", "http://x:99999/", "http://a b/", "http://x/\n",
      "http://x/" + "a" * 17_000, *WRONG_TYPES)),
    *({"aggr_id": value} for value in (NOT_GIVEN, "", "a" * 1_025, *WRONG_TYPES)),
    *({"aggr_limit": value} for value in (NOT_GIVEN, "1", "", 0, -1, 0.9, -0.5, None, True, False, [], {})),
    *({"aggr_proxy": value} for value in ("foo", "http://x:99999999/", "http://[::1", "p" * 5_000, *WRONG_TYPES)),
    *({"callback_url": value} for value in ("", "foo", "/path", "ftp://x/", "http://", "http://x:0/", *WRONG_TYPES)),
    NO_CALLBACK,
    *(NO_CALLBACK | {"callback_type": "http", "callback_dst": value} for value in ("", NOT_GIVEN, *WRONG_TYPES)),
    *(NO_CALLBACK | {"callback_type": value, "callback_dst": "x"} for value in ("", NOT_GIVEN, *WRONG_TYPES)),
    NO_CALLBACK | {"callback_type": "http", "callback_dst": "http://[::1"},
    NO_CALLBACK | {"callback_type": "http", "callback_dst": "httpfoo"},
    NO_CALLBACK | BUCKET | {"callback_type": "kafka"},
    NO_CALLBACK | BUCKET | {"callback_dst": "topic"},
    *({"s3_bucket": value, "s3_region": "r"} for value in (NOT_GIVEN, "", *WRONG_TYPES)),
    *({"s3_bucket": "b", "s3_region": value} for value in (NOT_GIVEN, "", *WRONG_TYPES)),
    *({"mime_type": value} for value in ("[]a]", "\\", "image/png,[]a]", "!\\", *WRONG_TYPES)),
    *({"max_retries": value} for value in (-1, -0.5, None, "1", True, [])),
    *({"extract_image_size": value} for value in (None, 0, 1, "true", "", [])),
    *({"download_timeout": value} for value in (None, "5", 0, 0.9, -1, True, [])),
    *({"request_headers": value} for value in (None, "a", 7, ["a"], {"a": 1}, {"a": None}, {"a": ["b"]}, {"": "x"},
      {"a b": "x"}, {"a": "x\r\ny: z"}, {"a": "ü"}, {"a\n": "x"})),
]  # fmt: skip
TAKEN: list[tuple[dict[str, Any], dict[str, Any]]] = [  # given field, resulting field of the payload
    ({}, {"url": ORDER["url"], "aggr_id": "store", "extra": "", "mime_type": "", "max_retries": 2,
          "extract_image_size": False, "download_timeout": NOT_GIVEN, "request_headers": NOT_GIVEN,
          "s3_bucket": NOT_GIVEN, "callback_type": NOT_GIVEN, "aggr_limit": NOT_GIVEN}),
    ({"url": "https://user:pw@x/a b?c=d#e"}, {"url": "https://user:pw@x/a b?c=d#e"}),
    ({"url": "http://x/ü"}, {"url": "http://x/ü"}),
    ({"url": "http://x/" + "a" * 10_000}, {"url": "http://x/" + "a" * 10_000}),
    ({"url": "http://127.0.0.1:8000/"}, {"url": "http://127.0.0.1:8000/"}),
    ({"extra": "any\nthing"}, {"extra": "any\nthing"}),
    *(({"extra": value}, {"extra": ""}) for value in (None, 7, {"a": 1}, [1], True)),
    ({"mime_type": "image/*,!image/gif"}, {"mime_type": "image/*,!image/gif"}),
    ({"max_retries": 0}, {"max_retries": 0}),
    ({"max_retries": 4.9}, {"max_retries": 4}),
    ({"max_retries": 1e300}, {"max_retries": 2**31 - 1}),
    ({"extract_image_size": True}, {"extract_image_size": True}),
    ({"download_timeout": 1.9}, {"download_timeout": 1}),
    ({"download_timeout": 10**30}, {"download_timeout": 2**31 - 1}),
    ({"request_headers": {}}, {"request_headers": {}}),
    ({"request_headers": {"Accept": "a\tb", "X": ""}}, {"request_headers": {"Accept": "a\tb", "X": ""}}),
    (BUCKET, BUCKET),
    ({"s3_bucket": "", "s3_region": ""}, {"s3_bucket": NOT_GIVEN}),
    ({"expiresAt": 99, "ExpiresAt": "x", "nobody": None}, {"expiresAt": NOT_GIVEN, "nobody": NOT_GIVEN}),
]  # fmt: skip
CALLBACKS: list[tuple[dict[str, Any], Callback | None]] = [
    ({}, Callback(url="http://receiver/done")),
    ({"callback_url": "http://x/ü y"}, None),
    ({"callback_url": "http://x/ü"}, Callback(url="http://x/%C3%BC")),
    ({"callback_type": "kafka", "callback_dst": "topic"}, Callback(url="http://receiver/done")),
    ({"callback_type": 7, "callback_dst": None}, Callback(url="http://receiver/done")),
    (NO_CALLBACK | {"callback_type": "http", "callback_dst": "http://x/"}, Callback(url="http://x/")),
    (NO_CALLBACK | {"callback_type": "http", "callback_dst": "x"}, Callback(type="http", destination="x")),
    (NO_CALLBACK | {"callback_type": "pigeon", "callback_dst": "roof"}, Callback(type="pigeon", destination="roof")),
    (NO_CALLBACK | BUCKET, None),
    (NO_CALLBACK | BUCKET | {"callback_type": "", "callback_dst": ""}, None),
    (BUCKET, Callback(url="http://receiver/done")),
]


@pytest.mark.parametrize("changes", REFUSED, ids=lambda changes: repr(changes)[:60])
def test_what_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as caught:
        read(changes)
    said = str(caught.value)
    assert any(name in said for name in [*changes, "callback_url"]), said
    assert said.endswith((".", ")"))


@pytest.mark.parametrize(("changes", "expected"), TAKEN, ids=lambda given: repr(given)[:60])
def test_what_is_taken(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    fields = read(changes).fields
    assert {name: fields.get(name, NOT_GIVEN) for name in expected} == expected


@pytest.mark.parametrize(("changes", "expected"), CALLBACKS, ids=lambda given: repr(given)[:60])
def test_callback_fields(changes: dict[str, Any], expected: Callback | None) -> None:
    if expected is None and "s3_bucket" not in changes:
        with pytest.raises(BadInput, match="callback_url"):
            read(changes)
    else:
        assert read(changes).callback == expected


@pytest.mark.parametrize(("given", "limit"), [(1, 1), (1.9, 1), (7, 7), (1e12, 2**31 - 1)])
def test_the_limit_is_a_whole_number(given: float, limit: int) -> None:
    assert read({"aggr_limit": given}).limit == limit


@pytest.mark.parametrize("proxy", ["", "http://proxy:3128", "https://u:p@proxy", "socks5://x:1", "/path"])
def test_a_proxy_only_has_to_look_like_one(proxy: str) -> None:
    assert read({"aggr_proxy": proxy}).proxy == proxy


on_valkey = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
PATH = "/downloader/download"


async def ordered(client: httpx.AsyncClient, **changes: Any) -> str:
    answer = await client.post(PATH, json=ORDER | changes)
    assert answer.status_code == 201, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["id"]
    return str(answer.json()["id"])


async def job_of(service: Service, download_id: str) -> Job:
    job_id = await service.holder("downloads", download_id)
    assert job_id is not None
    return (await service.job([job_id]).one()).job


@pytest.mark.anyio
@on_valkey
async def test_an_order_becomes_a_job(client: httpx.AsyncClient, service: Service) -> None:
    download_id = await ordered(client, extra="x", aggr_proxy="http://proxy:1")
    assert len(download_id) == 14
    job = await job_of(service, download_id)
    assert (job.queue, job.name, job.lane, job.unique) == ("downloads", "download", "store", download_id)
    assert json.loads(job.payload.data) == {
        "id": download_id, "url": ORDER["url"], "aggr_id": "store", "extra": "x", "mime_type": "", "max_retries": 2,
        "extract_image_size": False,
    }  # fmt: skip
    assert job.callback == Callback(url="http://receiver/done")
    shown = await service.aggregation("downloads per aggregation", "store")
    assert (shown.queued, shown.cap, shown.note) == (1, 3, "http://proxy:1")


@pytest.mark.anyio
@on_valkey
async def test_an_aggregation_stays_as_its_first_job_made_it(client: httpx.AsyncClient, service: Service) -> None:
    for limit in (2, 9, 9):
        await ordered(client, aggr_limit=limit)
    long = "ü\n" * 300
    await ordered(client, aggr_id=long, aggr_limit=1)
    shown = (await service.aggregations("downloads per aggregation")).aggregations
    assert {one.key: (one.queued, one.cap) for one in shown} == {"store": (3, 2), long: (1, 1)}


@pytest.mark.anyio
@on_valkey
async def test_the_limit_comes_back_after_its_removal(client: httpx.AsyncClient, service: Service) -> None:
    await ordered(client)
    await service.unlimit("downloads per aggregation")
    await ordered(client, aggr_id="other")
    shown = (await service.aggregations("downloads per aggregation")).aggregations
    assert {one.key: one.cap for one in shown} == {"store": None, "other": 3}


LONG = b"x" * 2**20
HOSTILE = [
    b"", b"null", b"[]", b'"x"', b"7", b"{", b"{}", b"\x00", b"\xff\xfe{}", b'{"url": "\xff"}', b"[" * 100_000,
    b'{"a":' * 100_000, b'{"url": "\\ud800", "aggr_id": "a", "aggr_limit": 1, "callback_url": "http://x/"}',
    b'{"url": "http://x/", "aggr_id": "\\ud800", "aggr_limit": 1, "callback_url": "http://x/"}',
    b'{"url": "http://x/", "aggr_id": "a", "aggr_limit": 1e999, "callback_url": "http://x/"}',
    b'{"url": "http://x/", "aggr_id": "a", "aggr_limit": NaN, "callback_url": "http://x/"}',
    b'{"url": "http://x/", "aggr_id": "a", "aggr_limit": 1, "callback_url": "http://x/", "extra": "%s"}' % LONG,
    b'{"url": "http://x/", "aggr_id": "a", "aggr_limit": 1, "callback_url": "http://x/?%s"}' % (b"x" * 3_000),
]  # fmt: skip


@pytest.mark.anyio
@on_valkey
async def test_hostile_bodies_are_refused_in_plain_text(client: httpx.AsyncClient, service: Service) -> None:
    for body in HOSTILE:
        answer = await client.post(PATH, content=body)
        assert answer.status_code == 400, (body[:60], answer.text)
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.text.strip()
    assert (await service.queues()) == []


@pytest.mark.anyio
@on_valkey
@pytest.mark.parametrize("path", [PATH, "/downloader/retry/abcdefghijklmn"])
async def test_other_methods(client: httpx.AsyncClient, path: str) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        answer = await client.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert answer.headers["content-type"].startswith("text/plain")
