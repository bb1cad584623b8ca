"""Options of a download worker. downloads/startup.py builds them from the settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from windlass.core.errors import BadSetting


class DownloadOptions(msgspec.Struct, frozen=True, kw_only=True):
    directory: Path
    base: str  # of `download_url`
    slots: int = 50  # concurrent downloads of this process
    retry_delay_ms: int = 5_000  # multiplied by the number of the failed attempt
    size_max: int = 100 * 2**30  # bytes of one download
    headers: Mapping[str, str] = {}  # defaults of every request; a job may override them
    lease_ms: int = 30_000  # downloads of a process that died run again after this time
    s3_bucket: str = ""  # stores all files here instead of the directory
    s3_region: str = ""
    s3_endpoint: str = ""  # empty: Amazon's


def parse_headers(text: str) -> dict[str, str]:
    """Parse the setting `download_headers`; an empty text means no headers."""
    try:
        return msgspec.json.decode(text, type=dict[str, str]) if text.strip() else {}
    except msgspec.DecodeError as error:
        raise BadSetting(
            f"The setting download_headers is invalid: {error}. It must be a JSON object of strings, such as "
            '{"User-Agent": "fetcher/1"}.'
        ) from error
