"""Tests of server roles: open ports and running components."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from windlass.core.errors import BadInput, BadSetting
from windlass.core.operations import Worker
from windlass.core.server_roles import parse_roles
from windlass.downloads.startup import download_base
from windlass.outbound import parse_policy
from windlass.server import open_server, open_sockets
from windlass.service import Service
from windlass.settings import Settings, load
from windlass.store.store import Store

on_valkey = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


def test_roles_are_read() -> None:
    assert parse_roles("api, notifier") == {"api", "notifier"}
    for wrong in ("", "api,", "dispatcher", "API"):
        with pytest.raises(BadInput, match="the roles are api, processor, notifier"):
            parse_roles(wrong)


def test_settings_of_roles(tmp_path: Path) -> None:
    environment = {"WINDLASS_ROLES": "processor", "WINDLASS_HEALTH_PORT": "0"}
    settings, _ = load({}, environment, tmp_path)
    assert (settings.roles, settings.health_port) == ("processor", 0)
    assert load({"health_port": "off"}, environment, tmp_path)[0].health_port is None
    for wrong in ({"WINDLASS_ROLES": "cook"}, {"WINDLASS_HEALTH_PORT": "x"}, {"WINDLASS_DOWNLOAD_URL": "files"}):
        with pytest.raises(BadSetting):
            load({}, wrong, tmp_path)


def test_a_server_without_the_api_role_opens_no_port() -> None:
    sockets = open_sockets(Settings(port=0, bedrock_port=0, roles="processor,notifier"))
    assert sockets.all == []


@pytest.mark.anyio
@on_valkey
async def test_a_server_without_the_api_role_serves_only_its_health(store: Store, tmp_path: Path) -> None:
    settings = Settings(port=1, health_port=0, roles="processor,notifier", download_dir=str(tmp_path))
    async with open_server(store, settings) as running, httpx.AsyncClient(base_url=running.url) as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/metrics")).status_code == 200
        for path in ("/api/v1/queues", "/downloader/hb", "/lightjq/job/x", "/jobber/queue"):
            assert (await client.get(path)).status_code == 404
        assert running.bedrock == ""


@pytest.mark.anyio
@on_valkey
async def test_only_the_named_roles_run(store: Store, tmp_path: Path) -> None:
    settings = Settings(port=0, roles="processor", download_url="http://files/", download_dir=str(tmp_path))
    async with open_server(store, settings) as running:
        assert running.url == ""
        await _wait_for_stats(running.service, "processor")
        assert await running.service.stats_of("notifier") == {}
        assert {worker.info.name for worker in await _workers(running.service)} == {"downloads"}


async def _wait_for_stats(service: Service, component: str) -> None:
    async with asyncio.timeout(30):
        while not await service.stats_of(component):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _workers(service: Service) -> list[Worker]:
    async with asyncio.timeout(30):
        while not (found := await service.workers()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return found


@pytest.mark.anyio
@on_valkey
async def test_a_separate_processor_reaches_private_addresses_only_if_allowed(store: Store, tmp_path: Path) -> None:
    """Check the default policy of a process whose clients are served by other processes."""
    apart = Settings(port=1, roles="processor", download_dir=str(tmp_path))
    async with open_server(store.clone(), apart) as running:
        assert await running.state.policy.current() == parse_policy("no", is_local=True)
    async with open_server(store, Settings(port=0, bedrock_port=None, roles="api")) as running:
        assert await running.state.policy.current() == parse_policy("", is_local=True)


@pytest.mark.parametrize(
    ("settings", "own_url", "expected"),
    [
        (Settings(), "http://127.0.0.1:1234", "http://127.0.0.1:1234/downloader/files"),
        (Settings(download_url="https://files.example/x/"), "http://127.0.0.1:1234", "https://files.example/x"),
        (Settings(roles="processor", host="::1", port=9), "", "http://[::1]:9/downloader/files"),
        (Settings(roles="processor", tls_certificate="c"), "", "https://127.0.0.1:8080/downloader/files"),
    ],
)
def test_the_base_url_of_files(settings: Settings, own_url: str, expected: str) -> None:
    assert download_base(settings, own_url) == expected


def test_files_without_a_url() -> None:
    with pytest.raises(BadSetting, match="WINDLASS_DOWNLOAD_URL"):
        download_base(Settings(roles="processor", port=0), "")
    assert download_base(Settings(roles="notifier", port=0), "")
