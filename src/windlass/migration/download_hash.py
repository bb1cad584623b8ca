"""A job of skroutz's downloader, read from its hash. No I/O."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Self

import msgspec
from msgspec import UNSET

from windlass.core.errors import Refusal
from windlass.core.ids import derived_id
from windlass.core.job import Blob, NewJob
from windlass.downloads.api.order_form import OrderForm, parse_order
from windlass.downloads.api.orders import job_of
from windlass.downloads.worker.order import AGGREGATION_LIMIT, Order, is_id
from windlass.downloads.worker.report import DownloadError, success_report
from windlass.store.job_source import SourceEntry

from .entries import EndedJob, FoundJob, text_of

_NO_CALLBACK = "http://localhost/"  # satisfies the form of an order that has no callback; it is removed again
SECONDS_MAX = 2**37  # later instants are beyond the calendar of the engine
_NUMBER = re.compile(r"[0-9]{1,9}")


class UnreadableDownload(Exception):
    """Error for a hash that is not a download."""


def normalise(fields: dict[bytes, bytes]) -> dict[str, str]:
    """Return the fields with one spelling of their names: `aggr_id` and `AggrID` become `aggrid`."""
    try:
        return {name.decode().replace("_", "").lower(): value.decode() for name, value in fields.items()}
    except UnicodeDecodeError as error:
        raise UnreadableDownload("The hash has a field that is not UTF-8.") from error


class Aggregation(NamedTuple):
    limit: int = AGGREGATION_LIMIT
    proxy: str = ""

    @classmethod
    def read(cls, stored: dict[bytes, bytes] | None) -> Self:
        fields = normalise(stored or {})
        return cls(_number(fields.get("limit", "")) or AGGREGATION_LIMIT, fields.get("proxy", ""))


class DownloadHash:
    def __init__(self, entry: SourceEntry, stored: dict[bytes, bytes] | None) -> None:
        self.entry = entry
        self.id = text_of(entry.member)
        self._problem = ""
        self.fields: dict[str, str] | None = None
        if not stored:
            self._problem = f"job:{self.id} {'is no hash' if stored is None else 'does not exist'}."
            return
        try:
            self.fields = normalise(stored)
        except UnreadableDownload as error:
            self._problem = str(error)

    @property
    def aggregation(self) -> str:
        listed = self.entry.key.partition(":")
        return listed[2] if listed[0] == "jobs" else self._get("aggrid")

    @property
    def has_ended(self) -> bool:
        return self._state("downloadstate") in ("success", "failed")

    @property
    def owes_callback(self) -> bool:
        return self._state("callbackstate") in ("pending", "inprogress", "failed")

    def found(self, aggregation: Aggregation, *, is_in_flight: bool) -> FoundJob:
        """Return the download as a job that has not ended."""
        return FoundJob(
            entry=self.entry,
            identity=self.id,
            base_id=derived_id("downloader", self.id),
            job=self._job(aggregation),
            run_at_ms=int(min(max(self.entry.score, 0), SECONDS_MAX) * 1000),
            is_in_flight=is_in_flight,
        )

    def found_ended(self, aggregation: Aggregation, base: str) -> FoundJob:
        """Return the download as a job that has ended and owes its callback."""
        found = self.found(aggregation, is_in_flight=False)
        if found.job.callback is None:
            raise UnreadableDownload("The job waits for its callback, but has no address for it.")
        if not self.has_ended:
            raise UnreadableDownload("The job waits for its callback, but its download has not ended.")
        is_success = self._state("downloadstate") == "success"
        code = _number(self._get("responsecode"))
        order = Order(url=self._get("url"), id=self.id, extra=self._get("extra"))
        report = success_report(order, base, code or 200, self._get("imagesize"))
        error = DownloadError(self._get("downloadmeta"), code)
        return msgspec.structs.replace(
            found,
            run_at_ms=0,
            ended=EndedJob(
                result=Blob(msgspec.json.encode(report)) if is_success else None,
                error=None if is_success else Blob(msgspec.json.encode(error)),
                is_given_up=self._state("callbackstate") == "failed",
            ),
        )

    def _job(self, aggregation: Aggregation) -> NewJob:
        if self._problem:
            raise UnreadableDownload(self._problem)
        if not is_id(self.id):
            raise UnreadableDownload("The id of a download has letters, digits, - and _ only, at least 4 of them.")
        form = self._form(aggregation)
        has_callback = form.callback_url is not UNSET or form.callback_dst is not UNSET or form.s3_bucket is not UNSET
        try:
            if has_callback:
                return job_of(parse_order(form), self.id)
            order = parse_order(msgspec.structs.replace(form, callback_url=_NO_CALLBACK))
            return job_of(msgspec.structs.replace(order, callback=None), self.id)
        except Refusal as refusal:
            raise UnreadableDownload(f"job:{self.id} is not a download: {refusal}") from refusal

    def _form(self, aggregation: Aggregation) -> OrderForm:
        return OrderForm(
            url=self._get("url"),
            aggr_id=self.aggregation,
            aggr_limit=aggregation.limit,
            aggr_proxy=aggregation.proxy,
            callback_url=self._get("callbackurl") or UNSET,
            callback_type=self._get("callbacktype") or UNSET,
            callback_dst=self._get("callbackdst") or UNSET,
            s3_bucket=self._get("s3bucket") or UNSET,
            s3_region=self._get("s3region") or UNSET,
            extra=self._get("extra"),
            mime_type=self._get("mimetype"),
            max_retries=_number(self._get("maxretries")) if self._get("maxretries") else UNSET,
            extract_image_size=self._get("extractimagesize") in ("1", "true"),
            download_timeout=_number(self._get("downloadtimeout")) or UNSET,
            request_headers=_headers(self._get("requestheaders")),
        )

    def _get(self, name: str) -> str:
        return (self.fields or {}).get(name, "")

    def _state(self, name: str) -> str:
        return self._get(name).replace("_", "").lower()


def _number(text: str) -> int:
    """Return a whole number; 0 if the text is none."""
    return int(text) if _NUMBER.fullmatch(text) else 0


def _headers(text: str) -> Any:
    if not text:
        return UNSET
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnreadableDownload(f"The request headers are not JSON: {error}") from error
    return UNSET if decoded in (None, {}) else decoded
