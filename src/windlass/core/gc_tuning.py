"""Tuning of the garbage collector for long-running processes."""

from __future__ import annotations

import gc


def freeze_startup_objects() -> None:
    """Exempt the objects that exist at startup from garbage collection.

    They live as long as the process. A full collection that visits them stops the process for ten milliseconds. Only
    the first call has an effect: objects that exist later may become garbage.
    """
    if gc.isenabled() and not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
