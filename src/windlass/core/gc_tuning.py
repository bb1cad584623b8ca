"""What a process that lives long does about the collector of circular garbage."""

from __future__ import annotations

import gc


def freeze_startup_objects() -> None:
    """What is loaded when a process begins its work stays: the collector need not look at it again. One look at all of
    it takes ten milliseconds, in which nothing else happens. Once in a process: what is there at a second time may
    well go."""
    if gc.isenabled() and not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
