"""The trees of all source files are released after the tests of this folder: they slow down each garbage collection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.house.source_tree import parse


@pytest.fixture(scope="package", autouse=True)
def _release_trees() -> Iterator[None]:
    yield
    parse.cache_clear()
