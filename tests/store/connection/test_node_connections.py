"""Connections by node: close during connect attempts at any stage."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.engine_process import EngineProcess
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.node_connections import NodeConnections

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


async def test_close_just_after_an_attempt_has_succeeded(engine: EngineProcess) -> None:
    nodes, endpoint = NodeConnections(), parse_url(engine.unix_url)
    connecting = asyncio.create_task(nodes.to(endpoint, 10))
    await asyncio.sleep(0)
    (attempt,) = nodes._opening.values()
    # A task that never sleeps runs between the success and its callback.
    while not attempt.done():  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert not nodes._open
    nodes.close()
    async with asyncio.timeout(20):
        await nodes.wait_closed()
    assert (await connecting).is_closed


async def test_close_during_an_attempt(engine: EngineProcess) -> None:
    nodes, endpoint = NodeConnections(), parse_url(engine.unix_url)
    connecting = asyncio.create_task(nodes.to(endpoint, 10))
    await asyncio.sleep(0)
    nodes.close()
    async with asyncio.timeout(20):
        await nodes.wait_closed()
    with pytest.raises(asyncio.CancelledError):
        await connecting
