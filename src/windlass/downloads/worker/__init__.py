"""Download worker: `DownloadWorker` runs downloads, `callback_body` builds their callbacks, `on_delivered` runs after a
callback was received, and `parse_globs` checks a list of MIME types."""

from __future__ import annotations

from .file_expiry import on_delivered
from .globs import parse_globs
from .options import DownloadOptions, parse_headers
from .order import FILES_QUEUE, NAME, QUEUE
from .report import callback_body
from .worker import DownloadWorker

__all__ = [
    "FILES_QUEUE",
    "NAME",
    "QUEUE",
    "DownloadOptions",
    "DownloadWorker",
    "callback_body",
    "on_delivered",
    "parse_globs",
    "parse_headers",
]
