"""Real engines for connection tests: one shared by a module, one that a test may kill."""

from collections.abc import Iterator

import pytest

from tests.support.engine_process import EngineProcess
from windlass.store.connection.endpoint import Endpoint, parse_url


@pytest.fixture(scope="module")
def shared_engine() -> Iterator[EngineProcess]:
    with EngineProcess(tcp=True) as engine:
        yield engine


@pytest.fixture(params=["unix", "tcp"])
def endpoint(request: pytest.FixtureRequest, shared_engine: EngineProcess) -> Endpoint:
    return parse_url(shared_engine.unix_url if request.param == "unix" else shared_engine.url)


@pytest.fixture
def engine() -> Iterator[EngineProcess]:
    """Engine that the test may kill. Acknowledged writes are on disk."""
    with EngineProcess(tcp=True, config=["--appendonly", "yes", "--appendfsync", "always"]) as engine:
        yield engine
