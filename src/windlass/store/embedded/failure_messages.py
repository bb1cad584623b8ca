"""Messages about failures of an embedded engine, derived from its log, its disk and its files."""

from __future__ import annotations

import os
import re

from . import supervisor
from .data_directory import APPEND_ONLY, Cut

FULL_DISK_BYTES = 64 * 1024
LOG_TAIL_BYTES = 4096
LOG_LINES = 5

# Patterns in the engine's log, each with the reason and the remedy.
_REASONS = (
    (re.compile("No space left on device|Disk quota exceeded"), "the disk is full: make room for {dir}"),
    # An older engine reports the files of a newer engine as damaged, and a repair would then cut off good data.
    (
        re.compile(
            "Can't handle RDB format version|Bad file format|Wrong signature|Internal error in RDB"
            "|Unexpected end of file|Unknown command|[Uu]nrecoverable error|AOF manifest|AOF file .* doesn't exist"
            "|checksum"
        ),
        "it cannot read the data in {dir}/appendonlydir. If a newer engine wrote it (for example the bundled engine, "
        "and this is the system's), use that engine again. Otherwise the data is damaged: `windlass engine check "
        "--data-dir {dir}` shows where, and `windlass engine repair --data-dir {dir}` cuts off the damaged end and "
        "keeps a copy",
    ),
    (re.compile("Permission denied|Read-only file system"), "it is not allowed to write in {dir}"),
)


def find_reason(data_dir: str) -> str | None:
    """Return why the engine does not start, if its log or its disk shows it."""
    # The engine marks warnings with "#".
    log = supervisor.log_of_last_start(data_dir, LOG_TAIL_BYTES)
    text = "\n".join(line for line in log.splitlines() if " # " in line)
    for pattern, reason in _REASONS:
        if pattern.search(text):
            return reason.format(dir=data_dir)
    return f"the disk is full: make room for {data_dir}" if is_disk_full(data_dir) else None


def log_excerpt(data_dir: str) -> str:
    lines = supervisor.log_of_last_start(data_dir, LOG_TAIL_BYTES).strip().splitlines()[-LOG_LINES:]
    where = f"the end of {os.path.join(data_dir, supervisor.LOG)}"
    return "\n".join([f"{where}:", *lines]) if lines else f"{where} is empty"


def is_disk_full(data_dir: str) -> bool:
    try:
        disk = os.statvfs(data_dir)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < FULL_DISK_BYTES


def disk_full_message(data_dir: str, error: str = "") -> str:
    because = f" ({error})" if error else ""
    return (
        f"the disk of the engine is full{because}, and no job is accepted: make room for {data_dir}, for example by "
        "deleting other files on that disk. The engine continues by itself when there is room"
    )


def describe_cut(data_dir: str, cut: Cut) -> str:
    path = os.path.join(data_dir, APPEND_ONLY, cut.file)
    if cut.by == "repair":
        return f"A repair cut {cut.bytes:,} bytes off the end of {path}, which now ends at byte {cut.offset:,}."
    return (
        f"The engine could not read the last {cut.bytes:,} bytes of {path} when it started and cut them off: the file "
        f"now ends at byte {cut.offset:,}. After a crash this is a write that was not acknowledged. Otherwise the file "
        "was damaged, and acknowledged jobs may be missing: compare with a backup, and run `windlass doctor`."
    )
