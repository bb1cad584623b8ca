"""Downloads are performed here: `Processor` takes them from their queue, `callback_body` is what is sent of their end,
`delivered` what happens when that has arrived, `read_globs` how a list of mime types is checked."""

from __future__ import annotations

from .globs import read_globs
from .options import Options, read_headers
from .order import FILES_QUEUE, NAME, QUEUE
from .processor import Processor
from .reaping import delivered
from .report import callback_body

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
