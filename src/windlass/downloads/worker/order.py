"""Order of a download, read from the payload of a job, and its id. POST /download makes such jobs, and so does every
other dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.core.errors import BadInput, Refusal
from windlass.core.ids import DOWNLOAD_ID_LENGTH, DOWNLOADS_QUEUE, download_id_of_number
from windlass.core.job import Blob, Codec, Job
from windlass.service import Service

from .order_fields import check_order_fields

QUEUE = DOWNLOADS_QUEUE
FILES_QUEUE = "downloads-files"  # files to delete when they expire
NAME = "download"
AGGREGATIONS = "downloads per aggregation"  # name of the limit; its keys are the aggregations
AGGREGATION_LIMIT = 4  # of a job whose aggregation no longer exists
CRASHES_MAX = 10  # leases that may expire, in addition to attempts that end
# The id becomes the name of a file and of a folder.
_ID = re.compile(r"[A-Za-z0-9_-]{4,128}")
_EXAMPLE = 'An order is an object such as {"url": "https://example.com/a.jpg", "aggr_id": "beststore"}.'


class Order(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    id: str = ""  # empty: its job came from elsewhere; see download_id_of
    aggr_id: str = ""
    extra: str = ""
    mime_type: str = ""
    max_retries: int = 2
    extract_image_size: bool = False
    download_timeout: float | None = None  # seconds, for the whole download
    request_headers: dict[str, str] = {}
    s3_bucket: str = ""
    s3_region: str = ""

    @property
    def path(self) -> str:
        return path_of(self.id)


class BadOrder(Exception):
    """Error for a payload that is not a download."""


def read_order(payload: Blob) -> Order:
    """Read the order in the payload of a job. Raise BadOrder if the payload is no order; the message says why, and what
    an order looks like."""
    try:
        given = _find_fields(_decode(payload))
        return Order(id=_own_id(given), **check_order_fields(given))
    except BadInput as error:
        raise BadOrder(f"{error} {_EXAMPLE}") from error


def _decode(payload: Blob) -> Any:
    if payload.codec == Codec.RAW:
        raise BadInput("The payload is neither JSON nor MessagePack.")
    decode = msgspec.json.decode if payload.codec == Codec.JSON else msgspec.msgpack.decode
    try:
        return decode(payload.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"The payload cannot be decoded: {str(error).removesuffix('.')}.") from error


def _find_fields(content: Any) -> Mapping[str, Any]:
    """Return the object that holds the order: the payload itself or, as in jobs of the processor, its `args`."""
    found = content
    if isinstance(content, Mapping) and "url" not in content and "args" in content:
        args = content["args"]
        found = args[0] if isinstance(args, list) and len(args) == 1 else args
        if not isinstance(found, Mapping):
            raise BadInput("url is missing, and args is not an object with a url.")
    if not isinstance(found, Mapping):
        raise BadInput("The payload is not an object.")
    # Programs send null for a timeout that they do not set.
    return {name: value for name, value in found.items() if (name, value) != ("download_timeout", None)}


def _own_id(given: Mapping[str, Any]) -> str:
    """Return the id that the order names; empty if it names none."""
    own = given.get("id", "")
    if own == "":
        return ""
    if not isinstance(own, str) or not is_id(own):
        raise BadInput("id must be a string of 4 to 128 letters, digits, - and _, or be left out.")
    return own


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def path_of(download_id: str) -> str:
    """Return the path of a file, relative to the directory, the bucket and the base of URLs."""
    return f"{download_id[:3]}/{download_id}"


async def download_id_of(service: Service, job: Job, order: Order | None) -> str:
    """Return the download id of a job; empty if nothing of the job is kept. `order`: None if it cannot be read.

    A job from elsewhere gets its 14 characters, made from its number, when it is first seen here, and keeps them as
    long as its record."""
    if order is not None and order.id:
        return order.id
    if order is None and job.unique and _may_be_own_id(job):
        return job.unique  # POST /download makes the id the unique key of its job
    (number,) = await service.number([job.id])
    return "" if isinstance(number, Refusal) else download_id_of_number(number)


def _may_be_own_id(job: Job) -> bool:
    """Tell whether the unique key of a job without a readable order may be its download id: the payload was cut, or a
    worker of another dialect has replaced it."""
    unique = job.unique or ""
    return is_id(unique) and (not job.payload_is_whole or len(unique) == DOWNLOAD_ID_LENGTH)


def order_or_none(job: Job) -> Order | None:
    """Return the order of a job; None if the payload was cut or is no order."""
    try:
        return read_order(job.payload) if job.payload_is_whole else None
    except BadOrder:
        return None
