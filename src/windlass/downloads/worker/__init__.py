"""Downloads are performed here: `Processor` takes them from their queue, `callback_body` is what is sent of their end,
`delivered` what happens when that has arrived, `read_globs` how a list of mime types is checked."""

from __future__ import annotations

from .file_expiry import delivered
from .globs import read_globs
from .options import Options, read_headers
from .order import FILES_QUEUE, NAME, QUEUE
from .report import callback_body
from .worker import Processor

__all__ = [
    "FILES_QUEUE",
    "NAME",
    "QUEUE",
    "Options",
    "Processor",
    "callback_body",
    "delivered",
    "read_globs",
    "read_headers",
]
