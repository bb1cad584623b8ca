"""Downloads are performed here: `Processor` takes them from their queue, `callback_body` is what is sent of their end,
`delivered` what happens when that has arrived, `read_globs` how a list of mime types is checked."""

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
