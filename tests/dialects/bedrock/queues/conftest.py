"""Bedrock commands over several partitions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from tests.dialects.bedrock.command_router import BedrockCommands
from windlass.service import Service
from windlass.store.store import Store

PARTITIONS = 3


@pytest.fixture(params=[1, PARTITIONS], ids=["one", "several"])
async def anywhere(
    divided_store: Callable[[int], Store], request: pytest.FixtureRequest
) -> AsyncIterator[BedrockCommands]:
    """Bedrock commands in deployments with one partition and with several."""
    store = divided_store(request.param)
    async with store:
        bedrock = BedrockCommands(Service(store))
        yield bedrock
        await bedrock.router.close()


def queue_elsewhere(store: Store) -> str:
    """Return a queue of another partition than `bedrock`, if there are several."""
    home = store.partition_of_queue("bedrock")
    names = [f"mail{number}" for number in range(50)]
    return next((name for name in names if store.partition_of_queue(name) != home), "mail")


def queue_beside(store: Store) -> str:
    """Return a queue of the same partition as `bedrock`."""
    home = store.partition_of_queue("bedrock")
    return next(name for name in (f"near{number}" for number in range(50)) if store.partition_of_queue(name) == home)
