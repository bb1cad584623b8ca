"""Reader of the keys of skroutz's downloader: aggregations, their queues, a hash for each job, and the callback queue.

Fields have the names of the document (`aggr_id`, `download_state`) or of the code (`AggrID`, `DownloadState`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from windlass.downloads.api.aggregation import prepare
from windlass.service import Service
from windlass.store.job_source import PAGE, JobSource, SourceEntry

from .download_hash import Aggregation, DownloadHash, UnreadableDownload
from .entries import LIST_KINDS, FoundJob, LeftEntry, Page, ReadEntry, text_of, walk, wrong_kind

AGGREGATION, JOBS, JOB = "aggr:", "jobs:", "job:"
CALLBACKS = ("callbackQueue", "CallbackQueue")
DELETIONS = "JobDeletionQueue"


class DownloaderReader:
    """`base` is the base of the URLs of files that the source has downloaded."""

    def __init__(self, source: JobSource, base: str) -> None:
        self._source = source
        self._base = base
        self._aggregations: dict[str, Aggregation] = {}
        self._seen: set[str] = set()  # ids in the queues, so that the rest is known
        self._done = 0

    def count(self) -> int:
        return sum(
            self._source.length(key, LIST_KINDS[kind]) for key, kind in self._queues().items() if kind in LIST_KINDS
        )

    async def prepare(self, service: Service) -> None:
        await prepare(service)

    def facts(self) -> dict[str, Any]:
        return {"files": self._source.members(DELETIONS), "done": self._done}

    def pages(self) -> Iterator[Page]:
        for key, kind in self._queues().items():
            if kind not in LIST_KINDS:
                yield wrong_kind(key, kind, "sorted set or a list")
            else:
                yield from walk(self._source, key, LIST_KINDS[kind], self._read_listed)
        for keys in self._source.scan(f"{JOB}*"):
            for start in range(0, len(keys), PAGE):
                yield Page(self._read_unlisted(keys[start : start + PAGE]))

    def _queues(self) -> dict[str, str]:
        return self._source.kinds([*self._source.keys(f"{JOBS}*"), *CALLBACKS])

    def _read_listed(self, page: list[SourceEntry]) -> list[ReadEntry]:
        self._seen.update(text_of(entry.member) for entry in page)
        return [
            self._read_callback(download) if entry.key in CALLBACKS else self._read_download(download)
            for entry, download in zip(page, self._downloads(page), strict=True)
        ]

    def _read_unlisted(self, keys: Sequence[str]) -> list[ReadEntry]:
        """Read jobs that are in no queue: a worker had them, or their callback was given up."""
        ids = dict.fromkeys(key.removeprefix(JOB) for key in keys if key.removeprefix(JOB) not in self._seen)
        self._seen.update(ids)
        new = [found for found, is_known in zip(ids, self._source.known(list(ids)), strict=True) if not is_known]
        entries = [SourceEntry(JOB + found, "none", found.encode()) for found in new]
        read: list[ReadEntry] = []
        for download in self._downloads(entries):
            if download.fields is None or not download.has_ended:
                read.append(self._read_download(download, is_in_flight=True))
            elif download.owes_callback:
                read.append(self._read_callback(download))
            else:
                self._done += 1
        return read

    def _downloads(self, page: Sequence[SourceEntry]) -> list[DownloadHash]:
        hashes = self._source.hashes([JOB + text_of(entry.member) for entry in page])
        return [DownloadHash(entry, fields) for entry, fields in zip(page, hashes, strict=True)]

    def _read_download(self, download: DownloadHash, *, is_in_flight: bool = False) -> ReadEntry:
        try:
            return download.found(self._aggregation(download), is_in_flight=is_in_flight)
        except UnreadableDownload as error:
            return LeftEntry(entry=download.entry, reason=str(error))

    def _read_callback(self, download: DownloadHash) -> ReadEntry:
        try:
            found: FoundJob = download.found_ended(self._aggregation(download), self._base)
        except UnreadableDownload as error:
            return LeftEntry(entry=download.entry, reason=str(error))
        return found

    def _aggregation(self, download: DownloadHash) -> Aggregation:
        name = download.aggregation
        if name not in self._aggregations:
            [fields] = self._source.hashes([AGGREGATION + name])
            self._aggregations[name] = Aggregation.read(fields)
        return self._aggregations[name]
