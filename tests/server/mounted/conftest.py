"""Applications on a real engine, mounted in host programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.engine_process import EngineProcess
from windlass import Windlass
from windlass.core.access.tokens import NewToken, Role
from windlass.service import Service
from windlass.store.store import Store


@pytest.fixture(scope="session", params=["valkey"])
def engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    """Use one engine only: differences between engines are tested elsewhere."""
    with EngineProcess(request.param, config=("--save", "", "--appendonly", "no")) as process:
        yield process


@pytest.fixture(autouse=True)
def _patient_pages(patient_pages: None) -> None:
    """Let all pages wait."""


@pytest.fixture
def app(store: Store) -> Windlass:
    app = Windlass()
    app.connect(store)
    return app


@pytest.fixture
def token_of(service: Service) -> Callable[[Role], str]:
    """Make a token with a role, and return its text."""

    def make(role: Role) -> str:
        return service.create_token(NewToken(name=f"the {role}", roles=frozenset({role}))).wait().text

    return make
