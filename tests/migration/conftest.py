"""A real Redis as the source of a migration, with a password. Each test finds it empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.migration.source_redis import SourceRedis
from tests.support.engine_process import EngineProcess

PASSWORD = "of-the-source"  # noqa: S105


@pytest.fixture(scope="session")
def source_engine() -> Iterator[EngineProcess]:
    config = ("--save", "", "--appendonly", "no")
    with EngineProcess("redis", tcp=True, password=PASSWORD, config=config) as process:
        yield process


@pytest.fixture
def old(source_engine: EngineProcess) -> Iterator[SourceRedis]:
    found = SourceRedis(source_engine.url)
    found.call("FLUSHALL")
    yield found
    found.close()
