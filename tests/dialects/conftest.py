"""A server of the native API on a real socket, and a client of it that speaks JSON or MessagePack."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from served import Api, Served
from windlass.core.job import Codec
from windlass.store.store import Store


@pytest.fixture
def served(store: Store) -> Iterator[Served]:
    with Served(store) as one:
        yield one


@pytest.fixture(params=["json", "msgpack"])
def api(request: pytest.FixtureRequest, served: Served) -> Iterator[Api]:
    with Api(served.port, Codec.JSON if request.param == "json" else Codec.MSGPACK) as client:
        yield client
