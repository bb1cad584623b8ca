"""Tests of the garbage collector settings of a server process."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from windlass.server.process import GC_THRESHOLD, relax_gc


class Node:
    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def _restore_gc() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_startup_objects_are_frozen_and_later_garbage_is_collected() -> None:
    relax_gc()
    assert gc.get_freeze_count() > 10_000
    assert gc.get_threshold()[0] == GC_THRESHOLD
    later = weakref.ref(Node())
    gc.collect()
    assert later() is None
