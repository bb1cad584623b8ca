"""How a processor works; made from the settings where things are wired together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from windlass.core.errors import BadSetting


class DownloadOptions(msgspec.Struct, frozen=True, kw_only=True):
    directory: Path
    base: str  # of `download_url`
    slots: int = 50  # downloads at once, in this process
    retry_delay_ms: int = 5_000  # after the n-th attempt n times as much
    size_max: int = 100 * 2**30  # bytes of one download
    headers: Mapping[str, str] = {}  # of every request, unless the job says otherwise
    lease_ms: int = 30_000  # what a process that died held is done again after so long
    s3_bucket: str = ""  # all files go there, and not into the directory
    s3_region: str = ""
    s3_endpoint: str = ""  # empty: Amazon's


def parse_headers(text: str) -> dict[str, str]:
    """From the setting; empty: none."""
    try:
        return msgspec.json.decode(text, type=dict[str, str]) if text.strip() else {}
    except msgspec.DecodeError as error:
        raise BadSetting(
            f"The setting download_headers is wrong: {error}. It is a JSON object of strings, such as "
            '{"User-Agent": "fetcher/1"}.'
        ) from error
