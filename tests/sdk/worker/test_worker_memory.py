"""A worker's process freezes the objects loaded at its start for the garbage collector, and no others."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from windlass import Windlass

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


class Node:
    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def _nothing_is_frozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


async def test_what_is_loaded_when_it_begins_is_left_alone(app: Windlass, working: Any) -> None:
    async with working(app):
        frozen = gc.get_freeze_count()
        assert frozen > 10_000
        later = weakref.ref(Node())
        gc.collect()
        assert later() is None
    async with working(app):
        assert gc.get_freeze_count() <= frozen


async def test_who_has_no_collector_gets_none(app: Windlass, working: Any) -> None:
    gc.disable()
    try:
        async with working(app):
            assert not gc.isenabled()
            assert gc.get_freeze_count() == 0
    finally:
        gc.enable()
