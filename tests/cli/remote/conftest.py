"""A server in front of the engine, and the command line that uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.migration.source_redis import SourceRedis
from tests.support.console import CliResult, run_with_settings
from tests.support.engine_process import EngineProcess
from tests.support.threaded_server import threaded_server
from windlass.core.access.tokens import NewToken, Role
from windlass.service import Service
from windlass.settings import Settings

RunOverServer = Callable[..., CliResult]


@pytest.fixture
def served(service: Service) -> Iterator[str]:
    """Serve the deployment and return the server's URL."""
    service.store.open_sync()
    settings = Settings(port=0, bedrock_port=None, roles="api", callback_concurrency=0)
    with threaded_server(service.store.clone(), settings) as url:
        yield url


@pytest.fixture
def old(engine: EngineProcess) -> Iterator[SourceRedis]:
    """Return an empty Redis to move jobs from."""
    source = SourceRedis(engine.unix_url.replace("db=0", "db=9"))
    source.call("FLUSHDB")
    yield source
    source.call("FLUSHDB")
    source.close()


def make_token(service: Service, *roles: str, queues: tuple[str, ...] = ()) -> str:
    new = NewToken(name="-".join(roles), roles=frozenset(map(Role, roles)), queues=queues)
    return service.create_token(new).wait().text


@pytest.fixture
def admin(service: Service) -> str:
    return make_token(service, "admin")


@pytest.fixture
def over_server(served: str, admin: str) -> RunOverServer:
    """Run a command over the server, with an admin token unless another is given."""

    def run(*arguments: str, token: str = admin, given: bytes = b"") -> CliResult:
        settings = {"WINDLASS_URL": served, "WINDLASS_TOKEN": token, "WINDLASS_PATIENCE": "10s"}
        return run_with_settings(*arguments, given=given, settings=settings)

    return run
