"""Parsers of the entries that a migration reads from the Redis of another program."""

from __future__ import annotations

from typing import Any

from windlass.migration.download_hash import Aggregation, DownloadHash, UnreadableDownload
from windlass.migration.jobber import read_entry as read_jobber_entry
from windlass.migration.processor import read_entry as read_processor_entry
from windlass.store.job_source import SourceEntry


def jobber(data: bytes) -> str:
    return repr(read_jobber_entry(SourceEntry("in_process_queue", "right", data)))


def processor(data: bytes) -> str:
    """Read the uuid of a job in the first line, and its JSON in the rest."""
    name, _, text = data.partition(b"\n")
    return repr(read_processor_entry(SourceEntry("jobs_queued:convert", "right", name), {b"json": text}))


def downloader(data: bytes) -> Any:
    """Read the fields of a hash, one per line; the first is its id."""
    lines = [line.partition(b" ") for line in data.split(b"\n")]
    fields = {name: value for name, _, value in lines if name}
    download = DownloadHash(SourceEntry("callbackQueue", "zset", lines[0][2], 5.0), fields)
    try:
        aggregation = Aggregation.read(fields)
        return repr(
            (download.found(aggregation, is_in_flight=False), download.found_ended(aggregation, "http://files"))
        )
    except UnreadableDownload as error:
        return str(error)
