"""Lists of jobs, page by page."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.core.job import Job
from windlass.core.operations import Listing, Page
from windlass.service import Service


def pages(service: Service, **listing: object) -> Iterator[Page]:
    cursor = ""
    for _ in range(1_000):
        page = service.jobs(Listing(cursor=cursor, **listing)).wait()  # type: ignore[arg-type]
        yield page
        cursor = page.cursor
        if not cursor:
            return
    raise AssertionError("the pages do not end")


def listed(service: Service, **listing: object) -> list[Job]:
    return [job for page in pages(service, **listing) for job in page.jobs]
