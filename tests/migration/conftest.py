"""A real Redis as the source of a migration, with a password. Each test finds it empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.migration.source_redis import SourceRedis
from tests.support.engine_process import EngineProcess
from tests.support.threaded_server import threaded_server
from windlass.sdk.deployment import make_service, make_store
from windlass.service import Service
from windlass.settings import Settings

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


@pytest.fixture
def over_server(service: Service) -> Iterator[Service]:
    """Return the deployment over a server, which has no work of its own."""
    service.store.open_sync()
    settings = Settings(port=0, bedrock_port=None, roles="api", callback_concurrency=0)
    with threaded_server(service.store.clone(), settings) as url:
        store = make_store(Settings(url=url))
        yield make_service(store)
        store.close_sync()


@pytest.fixture(params=["engine", "server"])
def migrated(request: pytest.FixtureRequest, service: Service) -> Service:
    """Return the deployment, as the command reaches it."""
    return service if request.param == "engine" else request.getfixturevalue("over_server")
