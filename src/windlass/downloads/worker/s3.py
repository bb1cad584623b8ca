"""Storage in S3 buckets, with the extra `windlass-queue[s3]`. boto3 handles connections, retries and credentials: keys
in the environment, a profile, or the role of the machine."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from email.header import Header
from typing import Any

import msgspec

from .failures import DownloadFailure
from .order import Order, path_of
from .temp_file import TempFile

PHASE = "storing the file"
UPLOAD_THREADS = 4  # for the parts of one large file
REGIONS_MAX = 64  # cached clients
# Region and bucket become parts of a host name.
_REGION = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


class S3Clients:
    """One client per region. Threads may share a client."""

    def __init__(self, endpoint: str = "") -> None:
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._clients: dict[str, Any] = {}

    def of(self, region: str) -> Any:
        with self._lock:
            if region not in self._clients:
                if len(self._clients) >= REGIONS_MAX:
                    self._clients.clear()
                self._clients[region] = _new_client(region, self._endpoint)
            return self._clients[region]


def _new_client(region: str, endpoint: str) -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ModuleNotFoundError as error:
        raise DownloadFailure(
            PHASE, "S3 needs an extra that is not installed here: pip install 'windlass-queue[s3]'"
        ) from error
    config = Config(
        connect_timeout=5, read_timeout=30, max_pool_connections=50, retries={"mode": "standard", "max_attempts": 2}
    )
    # A new session, because threads must not share the default session.
    return boto3.session.Session().client("s3", region_name=region, endpoint_url=endpoint or None, config=config)


class Bucket:
    def __init__(self, clients: S3Clients, bucket: str, region: str) -> None:
        self._clients = clients
        self._bucket = bucket
        self._region = region

    def check(self) -> None:
        if not _BUCKET.fullmatch(self._bucket) or not _REGION.fullmatch(self._region):
            raise DownloadFailure(
                PHASE, f"{self._bucket!r} in {self._region!r} cannot be the name of a bucket and its region"
            )
        self._clients.of(self._region)

    def keep(self, temp: TempFile, download_id: str, mime_type: str, metadata: Mapping[str, str]) -> None:
        from boto3.s3.transfer import TransferConfig

        try:
            self._clients.of(self._region).upload_file(
                str(temp.path),
                self._bucket,
                path_of(download_id),
                ExtraArgs={"ContentType": mime_type, "Metadata": dict(metadata)},
                Callback=temp.check,
                Config=TransferConfig(max_concurrency=UPLOAD_THREADS),
            )
        except Exception as error:
            raise _storage_failure(error) from error
        temp.discard()

    def remove(self, download_id: str) -> None:
        try:
            self._clients.of(self._region).delete_object(Bucket=self._bucket, Key=path_of(download_id))
        except Exception as error:
            raise _storage_failure(error) from error


def _storage_failure(error: Exception) -> DownloadFailure:
    """Return the failure for a storage error. Connection and server errors may be retried; refusals may not."""
    from botocore import exceptions

    is_passing = isinstance(error, exceptions.ConnectionError | exceptions.HTTPClientError)
    cause = error if isinstance(error, exceptions.ClientError) else error.__context__
    if isinstance(cause, exceptions.ClientError):
        status = cause.response["ResponseMetadata"]["HTTPStatusCode"]
        is_passing = status >= 500 or status == 429
    return DownloadFailure(PHASE, str(error), is_retriable=is_passing)


def metadata_of(order: Order) -> dict[str, str]:
    """Return the metadata in `extra` of a download with its own bucket. Raise DownloadFailure if it is no JSON
    object."""
    if not order.extra:
        return {}
    try:
        found = msgspec.json.decode(order.extra, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise DownloadFailure(PHASE, f"extra must be a JSON object when there is a bucket: {error}") from error
    return {name: text for name, value in found.items() if (text := _as_text(value)) is not None}


def _as_text(value: Any) -> str | None:
    """Return a string, or the whole part of a number, as text; None for other values."""
    if isinstance(value, str):
        return value if value.isascii() else Header(value, "utf-8").encode(maxlinelen=0)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(int(value))
    return None
