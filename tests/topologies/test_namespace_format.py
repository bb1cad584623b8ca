"""Format of a namespace on a cluster and behind Sentinel: each partition has its own, and any of them refuses."""

from __future__ import annotations

import pytest

from tests.service.durable import builders
from tests.support.console import run_with_settings
from tests.topologies.nodes import ClusterProcesses, SentinelProcesses
from windlass.core.errors import EngineUnsuitable
from windlass.core.namespace.format import KNOWN, WITH_STEPS, NamespaceFormat
from windlass.service import Service
from windlass.store.commands.admin.maintenance import require_format
from windlass.store.commands.command import Flow
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store


def raise_beyond(partition: int) -> Flow[None]:
    """Raise the format of one partition as a newer version does."""
    yield require_format(KNOWN + 1, "9.0.0", partition)


def stored(url: str, namespace: str) -> str:
    """Return what `windlass config` reads without opening the namespace."""
    shown = run_with_settings("config", "--json", "--url", url, "--namespace", namespace)
    return str(shown.document["namespace_format"]["value"])


def open_and_close(url: str, namespace: str) -> NamespaceFormat:
    store = Store(parse_url(url), namespace=namespace)
    try:
        return store.open_sync().format
    finally:
        store.close_sync()


def check_deployment(url: str, namespace: str) -> None:
    store = Store(parse_url(url), namespace=namespace)
    builders.store(Service(store), builders.start(Service(store)))
    assert open_and_close(url, namespace).number == WITH_STEPS
    assert stored(url, namespace) == f"{WITH_STEPS}, for Windlass 0.2.0 or newer"
    last = store.partitions - 1
    store.run_sync(raise_beyond(last))
    store.close_sync()
    assert stored(url, namespace) == f"{KNOWN + 1}, for Windlass 9.0.0 or newer"
    with pytest.raises(EngineUnsuitable, match=rf"has format {KNOWN + 1}, for Windlass 9\.0\.0 or newer"):
        open_and_close(url, namespace)


@pytest.mark.xdist_group("cluster")
def test_a_cluster(cluster: ClusterProcesses) -> None:
    check_deployment(cluster.url, "formats")


@pytest.mark.xdist_group("sentinel")
def test_behind_sentinels(sentinels: SentinelProcesses) -> None:
    check_deployment(sentinels.url, "formats")
