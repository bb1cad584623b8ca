"""Engine page of an embedded engine: bytes that were cut off its files."""

from __future__ import annotations

import time

import httpx
import pytest

from tests.dashboard.page_client import PageClient
from tests.support.embedded_process import new_data_dir
from windlass.server import build_store, open_server
from windlass.settings import Settings
from windlass.store.embedded.data_directory import Cut, add_cut

pytestmark = pytest.mark.anyio


async def test_shows_bytes_that_were_cut_off() -> None:
    with new_data_dir() as data_dir:
        data_dir.mkdir(mode=0o700)
        add_cut(str(data_dir), Cut("appendonly.aof.1.incr.aof", 4096, 77, time.time_ns() // 1_000_000, "start"))
        settings = Settings(port=0, bedrock_port=None, roles="api", data_dir=str(data_dir))
        async with (
            open_server(build_store(settings), settings) as running,
            httpx.AsyncClient(base_url=running.url, timeout=30) as client,
        ):
            page = await PageClient(client).get("/engine")
    assert "77 bytes off appendonly.aof.1.incr.aof after byte 4,096" in page.text
