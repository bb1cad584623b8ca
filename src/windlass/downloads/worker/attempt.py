"""One attempt of a download: fetch, check and store a file. A failed attempt leaves nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from windlass.core.errors import BadInput
from windlass.outbound import FetchRequest, IncomingResponse, Outbound, RequestFailed, parse_proxy

from . import report
from .content_type import LOOKED_AT, mime_type_of
from .counters import DownloadCounters
from .failures import DownloadFailure, connection_failure, disk_failure, status_failure
from .globs import Globs, parse_globs
from .image_size import NotAnImage, image_size
from .options import DownloadOptions
from .order import Order
from .report import DownloadReport
from .s3 import Bucket, S3Clients, metadata_of
from .storage import NO_METADATA, Directory, Storage
from .temp_file import TempFile
from .threads import ThreadPool

WRITE_AT_ONCE = 1024 * 1024
PREPARING = "preparing the request"

ProgressCallback: TypeAlias = Callable[[int, int | None], None]  # received bytes, and the length if known


class Downloader:
    """Runs attempts with the resources that all attempts of one worker share."""

    def __init__(
        self, outbound: Outbound, options: DownloadOptions, threads: ThreadPool, counters: DownloadCounters
    ) -> None:
        self._outbound = outbound
        self._options = options
        self._threads = threads
        self._uploads = ThreadPool(options.slots)  # a pool of its own: a slow bucket must not block writes to the disk
        self._counters = counters
        self._clients = S3Clients(options.s3_endpoint)
        self.storage: Storage = (
            Bucket(self._clients, options.s3_bucket, options.s3_region)
            if options.s3_bucket
            else Directory(options.directory)
        )

    def close(self) -> None:
        self._uploads.close()

    async def attempt(
        self, order: Order, proxy: str, on_progress: ProgressCallback, stop_requested: threading.Event
    ) -> DownloadReport:
        """Run one attempt. Raise DownloadFailure if it fails. The caller sets `stop_requested` when it cancels the
        attempt, because threads cannot be cancelled."""
        globs = _globs_of(order)
        storage, metadata = self._storage_for(order)
        self._check_proxy(proxy)
        temp = TempFile(self._options.directory, order.id, stop_requested)
        threads = self.threads_for(storage)
        try:
            await threads.run(_prepare, storage, temp)
            status, whole = await self._fetch(order, proxy, globs, temp, on_progress)
            size = await threads.run(_keep, order, status, whole, temp, storage, metadata)
        except OSError as error:
            raise disk_failure(error) from error
        finally:
            if temp.is_open:
                await self._threads.run(temp.discard)
        self._counters.add(f"download.response.{status}")
        return report.success_report(order, self._options.base, status, size)

    def threads_for(self, storage: Storage) -> ThreadPool:
        return self._uploads if isinstance(storage, Bucket) else self._threads

    def _storage_for(self, order: Order) -> tuple[Storage, Mapping[str, str]]:
        if order.s3_bucket:
            return Bucket(self._clients, order.s3_bucket, order.s3_region), metadata_of(order)
        return self.storage, NO_METADATA

    def _check_proxy(self, proxy: str) -> None:
        try:
            if proxy:
                parse_proxy(proxy)
        except BadInput as error:
            self._counters.add("invalidProxies")
            raise DownloadFailure(PREPARING, f"the proxy of the aggregation cannot be used: {error}") from error

    async def _fetch(
        self, order: Order, proxy: str, globs: Globs, temp: TempFile, on_progress: ProgressCallback
    ) -> tuple[int, _FetchedBody]:
        """Fetch the body. Return its status too."""
        wanted = FetchRequest(
            url=order.url,
            headers=_merge_headers(self._options.headers, order.request_headers),
            proxy=proxy,
            timeout_s=order.download_timeout,
            size_max=self._options.size_max,
        )
        status = 0
        try:
            async with self._outbound.get(wanted) as incoming:
                status = incoming.status
                if status >= 400:
                    raise status_failure(status, incoming.reason)
                return status, await self._write(incoming, globs, temp, on_progress)
        except BadInput as error:
            raise DownloadFailure(PREPARING, str(error)) from error
        except RequestFailed as error:
            raise connection_failure(error, status) from error

    async def _write(
        self, incoming: IncomingResponse, globs: Globs, temp: TempFile, on_progress: ProgressCallback
    ) -> _FetchedBody:
        """Write the body to the temporary file. The type is checked as soon as it is known, so an unwanted body is not
        fetched to its end."""
        beginning, mime_type = b"", ""
        parts: list[bytes] = []
        waiting = received = 0
        while part := await incoming.read():
            parts.append(part)
            waiting += len(part)
            received += len(part)
            on_progress(received, incoming.length)
            if not mime_type:
                beginning += part[:LOOKED_AT]
                mime_type = _check_type(beginning, globs, incoming) if len(beginning) >= LOOKED_AT else ""
            if waiting >= WRITE_AT_ONCE:
                await self._threads.run(temp.write, parts)
                parts, waiting = [], 0
        return _FetchedBody(mime_type or _check_type(beginning, globs, incoming), parts)


class _FetchedBody(NamedTuple):
    """Complete body."""

    mime_type: str
    unwritten: list[bytes]  # last parts, not yet written


def _prepare(storage: Storage, temp: TempFile) -> None:
    storage.check()
    temp.open()


def _keep(
    order: Order, status: int, whole: _FetchedBody, temp: TempFile, storage: Storage, metadata: Mapping[str, str]
) -> str:
    """Store the file. Return the size of an image if the order asks for it."""
    temp.write(whole.unwritten)
    size = ""
    if order.extract_image_size:
        try:
            with temp.path.open("rb") as file:
                size = image_size(whole.mime_type, file)
        except NotAnImage as error:
            phase = "extracting the image size"
            raise DownloadFailure(phase, str(error), response_code=status, counted_as=".image-size") from error
    storage.keep(temp, order.id, whole.mime_type, metadata)
    return size


def _globs_of(order: Order) -> Globs:
    try:
        return parse_globs(order.mime_type)
    except BadInput as error:
        raise DownloadFailure(PREPARING, str(error)) from error


def _check_type(beginning: bytes, globs: Globs, incoming: IncomingResponse) -> str:
    mime_type = mime_type_of(beginning)
    if mismatch := globs.mismatch(mime_type):
        raise DownloadFailure("checking the mime type", mismatch, response_code=incoming.status, counted_as=".mime")
    return mime_type


def _merge_headers(defaults: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Merge headers. A header of the job replaces a default header of the same name, whatever its case."""
    names = {name.lower() for name in given}
    return {**{name: value for name, value in defaults.items() if name.lower() not in names}, **given}
