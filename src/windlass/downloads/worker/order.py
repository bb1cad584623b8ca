"""Order of a download: the payload of a job, as the API has checked it. Jobs from other sources get the same
defaults."""

from __future__ import annotations

import re

import msgspec

from windlass.core.job import Codec, Job

QUEUE = "downloads"
FILES_QUEUE = "downloads-files"  # files to delete when they expire
NAME = "download"
AGGREGATIONS = "downloads per aggregation"  # name of the limit; its keys are the aggregations
AGGREGATION_LIMIT = 4  # of a job whose aggregation no longer exists
# The id becomes the name of a file and of a folder.
_ID = re.compile(r"[A-Za-z0-9_-]{4,128}")


class Order(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    id: str = ""
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


def read_order(job: Job) -> Order:
    """Read the order of a job. Raise BadOrder if the payload is invalid."""
    if job.payload.codec == Codec.RAW:
        raise BadOrder("the payload is neither JSON nor MessagePack")
    decode = msgspec.json.decode if job.payload.codec == Codec.JSON else msgspec.msgpack.decode
    try:
        order = decode(job.payload.data, type=Order)
    except msgspec.DecodeError as error:
        raise BadOrder(f"the payload is not a download: {error}") from error
    order = order if order.id else msgspec.structs.replace(order, id=job.key)
    if not is_id(order.id):
        raise BadOrder("the id of a download has letters, digits, - and _ only, at least 4 of them")
    return order


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def path_of(download_id: str) -> str:
    """Return the path of a file, relative to the directory, the bucket and the base of URLs."""
    return f"{download_id[:3]}/{download_id}"
