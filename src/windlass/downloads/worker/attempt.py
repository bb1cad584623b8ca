"""One attempt of a download: fetch, check and store a file. A failed attempt leaves nothing behind, except a part of
the body that the next attempt can continue."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from windlass.core.errors import BadInput
from windlass.outbound import FetchRequest, Outbound, parse_proxy

from . import report
from .counters import DownloadCounters
from .failures import PREPARING, DownloadFailure, disk_failure
from .globs import Globs, parse_globs
from .image_size import NotAnImage, image_size
from .options import DownloadOptions
from .order import Order
from .report import DownloadReport
from .resume import ResumePoint
from .s3 import Bucket, S3Clients, metadata_of
from .storage import NO_METADATA, Directory, Storage
from .temp_file import TempFile
from .threads import ThreadPool
from .transfer import FetchedBody, ProgressCallback, Transfer


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
        self,
        order: Order,
        proxy: str,
        on_progress: ProgressCallback,
        stop_requested: threading.Event,
        *,
        is_last: bool,
    ) -> DownloadReport:
        """Run one attempt. Raise DownloadFailure if it fails. The caller sets `stop_requested` when it cancels the
        attempt, because threads cannot be cancelled. `is_last`: no attempt follows, so no part of the body is kept."""
        globs = _globs_of(order)
        storage, metadata = self._storage_for(order)
        self._check_proxy(proxy)
        temp = TempFile(self._options.directory, order.id, stop_requested)
        threads = self.threads_for(storage)
        try:
            point = await threads.run(_prepare, storage, temp, order.url)
            wanted = self._request_of(order, proxy)
            transfer = Transfer(self._outbound, self._threads, wanted, globs, temp, on_progress, point)
            whole = await self._fetch(transfer, temp, is_last=is_last)
            size = await threads.run(_keep, order, whole, temp, storage, metadata)
        except OSError as error:
            raise disk_failure(error) from error
        finally:
            if temp.is_open:
                await self._threads.run(temp.discard)
        self._counters.add(f"download.response.{whole.last_status}")
        return report.success_report(order, self._options.base, whole.status, size)

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

    def _request_of(self, order: Order, proxy: str) -> FetchRequest:
        return FetchRequest(
            url=order.url,
            headers=_merge_headers(self._options.headers, order.request_headers),
            proxy=proxy,
            timeout_s=order.download_timeout,
            size_max=self._options.size_max,
        )

    async def _fetch(self, transfer: Transfer, temp: TempFile, *, is_last: bool) -> FetchedBody:
        """Fetch the body. If the transfer breaks off and can be continued, keep what has arrived."""
        try:
            return await transfer.run()
        except DownloadFailure as failure:
            if transfer.point is not None and failure.is_retriable and not is_last:
                await self._threads.run(temp.keep_partial, transfer.point)
            raise


def _prepare(storage: Storage, temp: TempFile, url: str) -> ResumePoint | None:
    storage.check()
    return temp.open(url)


def _keep(order: Order, whole: FetchedBody, temp: TempFile, storage: Storage, metadata: Mapping[str, str]) -> str:
    """Store the file. Return the size of an image if the order asks for it."""
    temp.write(whole.unwritten)
    size = ""
    if order.extract_image_size:
        try:
            with temp.path.open("rb") as file:
                size = image_size(whole.mime_type, file)
        except NotAnImage as error:
            phase = "extracting the image size"
            raise DownloadFailure(phase, str(error), response_code=whole.status, counted_as=".image-size") from error
    storage.keep(temp, order.id, whole.mime_type, metadata)
    return size


def _globs_of(order: Order) -> Globs:
    try:
        return parse_globs(order.mime_type)
    except BadInput as error:
        raise DownloadFailure(PREPARING, str(error)) from error


def _merge_headers(defaults: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Merge headers. A header of the job replaces a default header of the same name, whatever its case."""
    names = {name.lower() for name in given}
    return {**{name: value for name, value in defaults.items() if name.lower() not in names}, **given}
