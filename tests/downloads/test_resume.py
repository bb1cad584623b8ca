"""Broken transfers that the next attempt continues, and all the ways in which an origin may refuse that."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.downloads.origin import (
    AtWork,
    Handler,
    Origin,
    ReceivedRequest,
    answer,
    at_work,
    files_in,
    in_turn,
    png,
)
from windlass.core.states import State
from windlass.downloads.worker.temp_file import PARTIAL_KEPT_S, remove_orphans
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
NAME = "abcdefghijklmn"
BODY = bytes(range(256)) * 16
HALF = 2000
ETAG = '"v1"'
OLD = "Wed, 21 Oct 2015 07:28:00 GMT"
SENT = "Wed, 21 Oct 2015 07:28:01 GMT"


@pytest.fixture
async def opened(service: Service, store: Store) -> AsyncIterator[Service]:
    async with store, asyncio.timeout(60):
        yield service


@pytest.fixture
async def work(opened: Service, tmp_path: Path) -> AsyncIterator[AtWork]:
    async with at_work(opened, tmp_path) as work:
        yield work


def broken(body: bytes = BODY[:HALF], length: int = len(BODY), **headers: str) -> Handler:
    """Send the beginning of the body, and break off."""
    return answer(body, length=length, **({"Accept_Ranges": "bytes", "ETag": ETAG} | headers))


def rest(first: int = HALF, *, status: str = "206 Partial Content", **headers: str) -> Handler:
    content_range = f"bytes {first}-{len(BODY) - 1}/{len(BODY)}"
    return answer(BODY[first:], status, **({"Content_Range": content_range, "ETag": ETAG} | headers))


def ranges(origin: Origin) -> list[tuple[str | None, str | None]]:
    return [(one.headers.get("range"), one.headers.get("if-range")) for one in origin.requests]


ALL = (None, None)
CONTINUED = ("bytes=2000-", ETAG)


async def test_the_next_attempt_continues_with_the_bytes_it_has(work: AtWork) -> None:
    async with Origin(in_turn(broken(), rest())).open() as origin:
        end = await work.download(origin.url())
        assert (end["success"], end["response_code"], end["error"]) == (True, 200, "")
        assert work.files() == {f"abc/{NAME}": BODY}
        assert ranges(origin) == [ALL, CONTINUED]
        counters = work.worker.counters()
        assert (counters["download.response.body"], counters["download.response.206"]) == (1, 1)


async def test_it_may_break_off_again(work: AtWork) -> None:
    again = answer(
        BODY[HALF:3000], "206 Partial Content", length=len(BODY) - HALF, ETag=ETAG,
        Content_Range=f"bytes {HALF}-{len(BODY) - 1}/{len(BODY)}",
    )  # fmt: skip
    async with Origin(in_turn(broken(), again, rest(3000))).open() as origin:
        assert (await work.download(origin.url()))["success"]
        assert ranges(origin) == [ALL, CONTINUED, ("bytes=3000-", ETAG)]
        assert work.files() == {f"abc/{NAME}": BODY}


@pytest.mark.parametrize("status", ["503 Away", "429 Slow Down"])
async def test_what_is_there_outlives_an_attempt_without_an_answer(work: AtWork, status: str) -> None:
    async with Origin(in_turn(broken(), answer(b"later", status), rest())).open() as origin:
        assert (await work.download(origin.url()))["success"]
        assert ranges(origin) == [ALL, CONTINUED, CONTINUED]
        assert work.files() == {f"abc/{NAME}": BODY}


async def test_a_timeout_breaks_a_transfer_off_too(work: AtWork) -> None:
    async def stuck(_: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(BODY)}\r\nETag: {ETAG}\r\nAccept-Ranges: bytes\r\n\r\n"
        writer.write(head.encode() + BODY[:HALF])
        await writer.drain()
        await asyncio.Event().wait()

    async with Origin(in_turn(stuck, rest())).open() as origin:
        assert (await work.download(origin.url(), download_timeout=0.3))["success"]
        assert ranges(origin) == [ALL, CONTINUED]
        assert work.files() == {f"abc/{NAME}": BODY}


async def test_a_body_of_unknown_length(work: AtWork) -> None:
    async def chunked(_: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: {ETAG}\r\nAccept-Ranges: bytes\r\n\r\n"
        writer.write(head.encode() + b"%x\r\n%b\r\n" % (HALF, BODY[:HALF]))
        await writer.drain()
        writer.close()

    async with Origin(in_turn(chunked, rest())).open() as origin:
        assert (await work.download(origin.url()))["success"]
        assert ranges(origin) == [ALL, CONTINUED]


async def test_a_date_is_a_validator_if_it_is_old_enough(work: AtWork) -> None:
    dated = {"ETag": "W/weak", "Last_Modified": OLD, "Date": SENT}
    async with Origin(in_turn(broken(**dated), rest(ETag="W/weak"))).open() as origin:
        assert (await work.download(origin.url()))["success"]
        assert ranges(origin) == [ALL, ("bytes=2000-", OLD)]
        assert work.files() == {f"abc/{NAME}": BODY}


@pytest.mark.parametrize(
    "headers",
    [
        {"Accept_Ranges": "none"},
        {"Accept_Ranges": ""},
        {"ETag": 'W/"v1"'},
        {"ETag": ""},
        {"ETag": "", "Last_Modified": OLD, "Date": OLD},
        {"ETag": "", "Last_Modified": OLD},
        {"ETag": "", "Last_Modified": "soon", "Date": SENT},
    ],
    ids=str,
)
async def test_without_a_validator_it_starts_over(work: AtWork, headers: dict[str, str]) -> None:
    async with Origin(in_turn(broken(**headers), answer(BODY))).open() as origin:
        assert (await work.download(origin.url()))["success"]
        assert ranges(origin) == [ALL, ALL]
        assert work.files() == {f"abc/{NAME}": BODY}


CHANGED = b"another version" * 400
WRONG_ANSWERS = {
    "it ignores ranges": (answer(CHANGED, ETag=ETAG), [ALL, CONTINUED]),
    "it has changed": (answer(CHANGED, ETag='"v2"'), [ALL, CONTINUED]),
    "it has become shorter": (answer(b"", "416 No", Content_Range="bytes */10"), [ALL, CONTINUED, ALL]),
    "another version": (rest(ETag='"v2"'), [ALL, CONTINUED, ALL]),
    "no version": (rest(ETag=""), [ALL, CONTINUED, ALL]),
    "another part": (rest(HALF - 1), [ALL, CONTINUED, ALL]),
    "another length": (rest(Content_Range=f"bytes {HALF}-4095/4097"), [ALL, CONTINUED, ALL]),
    "not to its end": (rest(Content_Range=f"bytes {HALF}-4000/4096"), [ALL, CONTINUED, ALL]),
    "no part": (rest(Content_Range=""), [ALL, CONTINUED, ALL]),
    "no bytes": (rest(Content_Range="lines 1-2/3"), [ALL, CONTINUED, ALL]),
    "less than it says": (rest(HALF + 5, Content_Range=f"bytes {HALF}-4095/*"), [ALL, CONTINUED, ALL]),
}


@pytest.mark.parametrize("case", WRONG_ANSWERS)
async def test_what_does_not_continue_it_starts_over_in_the_same_attempt(work: AtWork, case: str) -> None:
    wrong, expected = WRONG_ANSWERS[case]
    async with Origin(in_turn(broken(), wrong, answer(CHANGED))).open() as origin:
        end = await work.download(origin.url(), max_retries=1)
        assert end["success"], end
        assert ranges(origin) == expected
        assert work.files() == {f"abc/{NAME}": CHANGED}


async def test_a_rest_that_is_too_short_is_asked_for_again(work: AtWork) -> None:
    async def short(_: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 206 Partial\r\nTransfer-Encoding: chunked\r\nETag: {ETAG}\r\n"
        head += f"Content-Range: bytes {HALF}-{len(BODY) - 1}/{len(BODY)}\r\n\r\n"
        writer.write(head.encode() + b"%x\r\n%b\r\n0\r\n\r\n" % (10, BODY[HALF : HALF + 10]))
        await writer.drain()

    async with Origin(in_turn(broken(), short, rest(HALF + 10))).open() as origin:
        assert (await work.download(origin.url()))["success"]
        assert ranges(origin) == [ALL, CONTINUED, (f"bytes={HALF + 10}-", ETAG)]
        assert work.files() == {f"abc/{NAME}": BODY}


async def test_an_order_for_a_part_is_not_continued(work: AtWork) -> None:
    async with Origin(in_turn(broken(), answer(BODY))).open() as origin:
        assert (await work.download(origin.url(), request_headers={"range": "bytes=0-"}))["success"]
        assert ranges(origin) == [("bytes=0-", None)] * 2


async def test_a_redirect_gets_the_condition_too(work: AtWork) -> None:
    async with Origin(in_turn(broken(), rest())).open() as other:
        async with Origin(answer(b"", "302 Found", Location=other.url("/b"))).open() as origin:
            assert (await work.download(origin.url()))["success"]
        assert ranges(other) == [ALL, CONTINUED]


# The content


@pytest.mark.parametrize("first", [5, 1500])
async def test_the_type_and_the_size_of_an_image_are_those_of_the_whole(work: AtWork, first: int) -> None:
    image = png(10, 10) + bytes(2000)
    routes = in_turn(
        broken(image[:first], len(image)),
        answer(image[first:], "206 P", ETag=ETAG, Content_Range=f"bytes {first}-{len(image) - 1}/{len(image)}"),
    )
    async with Origin(routes).open() as origin:
        end = await work.download(origin.url(), mime_type="image/png", extract_image_size=True)
        assert (end["image_size"], work.files()) == ("10x10", {f"abc/{NAME}": image})
        assert len(origin.requests) == 2


async def test_a_type_that_shows_in_the_rest_is_checked(work: AtWork) -> None:
    routes = in_turn(
        broken(b"x" * 10, 2000), answer(b"\0" * 1990, "206 P", ETag=ETAG, Content_Range="bytes 10-1999/2000")
    )
    async with Origin(routes).open() as origin:
        end = await work.download(origin.url(), mime_type="text/plain")
        assert "found (application/octet-stream)" in end["message"]
        assert (end["attempt"], end["response_code"], work.files()) == (2, 200, {})


async def test_the_limit_of_bytes_is_for_the_whole(opened: Service, tmp_path: Path) -> None:
    async def chunked(_: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: {ETAG}\r\nAccept-Ranges: bytes\r\n\r\n"
        writer.write(head.encode() + b"%x\r\n%b\r\n" % (HALF, BODY[:HALF]))
        await writer.drain()
        writer.close()

    async with at_work(opened, tmp_path, size_max=3000) as work, Origin(in_turn(chunked, rest())).open() as origin:
        end = await work.download(origin.url())
        assert "more than 3000 bytes" in end["message"]
        assert (end["attempt"], work.files()) == (2, {})


# Where the part stays


async def waiting_part(work: AtWork, origin: Origin, **fields: Any) -> bytes:
    job_id = await work.put(origin.url(), **fields)
    await work.until(job_id, lambda read: read.job.state == State.SCHEDULED)
    return job_id


async def test_the_part_waits_beside_the_files_and_another_process_may_continue(
    opened: Service, tmp_path: Path
) -> None:
    async with Origin(in_turn(broken(), rest())).open() as origin:
        async with at_work(opened, tmp_path, retry_delay_ms=60_000) as first:
            job_id = await waiting_part(first, origin)
            ((name, content),) = files_in(tmp_path).items()
            assert (name, content[:HALF]) == (f"{NAME}.part", BODY[:HALF])
        async with at_work(opened, tmp_path) as second:
            await opened.requeue([job_id])
            assert (await second.end_of(job_id))["success"]
            assert second.files() == {f"abc/{NAME}": BODY}
        assert ranges(origin) == [ALL, CONTINUED]


async def test_without_the_part_another_machine_starts_over(opened: Service, tmp_path: Path) -> None:
    async with Origin(in_turn(broken(), answer(BODY))).open() as origin:
        async with at_work(opened, tmp_path / "one", retry_delay_ms=60_000) as first:
            job_id = await waiting_part(first, origin)
        async with at_work(opened, tmp_path / "two") as second:
            await opened.requeue([job_id])
            assert (await second.end_of(job_id))["success"]
        assert ranges(origin) == [ALL, ALL]


@pytest.mark.parametrize("damage", ["cut", "other url", "nonsense"])
async def test_a_damaged_part_is_not_continued(opened: Service, tmp_path: Path, damage: str) -> None:
    part = tmp_path / f"{NAME}.part"
    async with (
        Origin(in_turn(broken(), answer(BODY))).open() as origin,
        at_work(opened, tmp_path, retry_delay_ms=60_000) as work,
    ):
        job_id = await waiting_part(work, origin)
        content = part.read_bytes()
        part.write_bytes(
            {"cut": content[:-1], "other url": content.replace(b"/file", b"/fine"), "nonsense": b""}[damage]
        )
        await opened.requeue([job_id])
        assert (await work.end_of(job_id))["success"]
        assert ranges(origin) == [ALL, ALL]
        assert work.files() == {f"abc/{NAME}": BODY}


async def test_the_last_attempt_leaves_no_part(work: AtWork) -> None:
    async with Origin(broken()).open() as origin:
        end = await work.download(origin.url(), max_retries=1)
        assert (end["state"], end["attempt"], end["response_code"]) == ("FAILED", 2, 200)
        assert "unexpected EOF" in end["message"]
        assert work.files() == {}


async def test_a_final_error_removes_the_part(work: AtWork) -> None:
    async with Origin(in_turn(broken(), answer(b"", "404 Gone"))).open() as origin:
        assert (await work.download(origin.url()))["response_code"] == 404
        assert (ranges(origin), work.files()) == ([ALL, CONTINUED], {})


async def test_a_cancel_of_the_running_attempt_removes_the_part(work: AtWork) -> None:
    is_asked = asyncio.Event()

    async def stuck(_: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        is_asked.set()
        await asyncio.Event().wait()

    async with Origin(in_turn(broken(), stuck)).open() as origin:
        job_id = await work.put(origin.url())
        await is_asked.wait()
        await work.service.cancel([job_id])
        assert (await work.end_of(job_id))["state"] == "CANCELLED"
        await work.until(job_id, lambda _: not work.worker.counters()["workers"])
        assert work.files() == {}


async def test_parts_that_nothing_continues_go_by_age(opened: Service, tmp_path: Path) -> None:
    async with Origin(broken()).open() as origin, at_work(opened, tmp_path, retry_delay_ms=60_000) as work:
        job_id = await waiting_part(work, origin)
        await opened.cancel([job_id])
        assert (remove_orphans(tmp_path), list(work.files())) == (0, [f"{NAME}.part"])
        before_s = time.time() - PARTIAL_KEPT_S - 1
        os.utime(tmp_path / f"{NAME}.part", (before_s, before_s))
        assert (remove_orphans(tmp_path), work.files()) == (1, {})


async def test_a_full_disk_keeps_no_parts(opened: Service, tmp_path: Path) -> None:
    (tmp_path / "dead.part").write_bytes(b"x")
    async with at_work(opened, tmp_path, given={"used": lambda _: 0.99}) as work:
        while work.files():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
