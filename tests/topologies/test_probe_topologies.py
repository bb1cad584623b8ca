"""windlass doctor --engine on a cluster and behind Sentinel."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.console import run_with_settings
from tests.topologies.nodes import ClusterProcesses, SentinelProcesses
from windlass.store.topology.permissions import acl_rules


def probe(url: str, code: int) -> tuple[dict[str, Any], str]:
    """Return the rows by name, and the minimal rules."""
    shown = run_with_settings("doctor", "--engine", url, "--namespace", "probed", "--json")
    assert shown.code == code, shown
    return {row["name"]: row for row in shown.document["capabilities"]}, shown.document["acl"]["minimal"]


@pytest.mark.xdist_group("cluster")
def test_a_cluster(cluster: ClusterProcesses) -> None:
    rows, rules = probe(cluster.url, 0)
    assert rows["topology"]["found"] == "cluster, 3 nodes with partitions"
    assert rows["durability replica"]["found"] == "1 connected (WAIT)"
    assert rules.endswith(" ".join(acl_rules("probed", is_cluster=True, calls_by="scripts")))
    assert not any(node.send_command("KEYS", "probed:*") for node in cluster.primaries)
    rows, _ = probe(f"redis://127.0.0.1:{cluster.primaries[0].port}/0", 1)
    assert "redis+cluster://" in rows["topology"]["effect"]


@pytest.mark.xdist_group("sentinel")
def test_the_primary_behind_sentinels(sentinels: SentinelProcesses) -> None:
    rows, rules = probe(sentinels.url, 0)
    assert rows["topology"]["found"] == f"the primary of the sentinels, redis://127.0.0.1:{sentinels.primary.port}/0"
    assert rules.endswith(" ".join(acl_rules("probed", is_sentinel=True, calls_by="scripts")))
    shown = run_with_settings("doctor", "--engine", sentinels.url)
    assert sentinels.password not in shown.out
    (replica, *_) = [node for node in sentinels.nodes if node is not sentinels.primary]
    rows, _ = probe(f"redis://127.0.0.1:{replica.port}/0", 1)
    assert rows["topology"]["found"] == "a replica"
