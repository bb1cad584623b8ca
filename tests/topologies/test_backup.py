"""Backups of deployments whose partitions are on several nodes, or whose primary may change."""

from __future__ import annotations

import pytest

from tests.service.export.example_deployment import comparable, export_lines
from tests.service.helpers import new, put, take
from tests.topologies.conftest import new_store
from tests.topologies.nodes import ClusterProcesses, SentinelProcesses
from tests.topologies.slot_moves import PARTITION, migrating
from tests.topologies.workload import QUEUES
from windlass.core.errors import EngineUnavailable
from windlass.core.partition import hash_tags, slot_of
from windlass.service import Service
from windlass.store.snapshot.frozen_copy import frozen_copy
from windlass.store.store import Store


def fill_queues(store: Store) -> Service:
    service = Service(store)
    for queue in QUEUES:
        first, _ = put(service, new(queue), new(queue, delay_ms=3_600_000))
        put(service, new(queue, after=(first.id,)))
    take(service, QUEUES[0])
    return service


@pytest.mark.xdist_group("cluster")
def test_the_shards_of_a_cluster_are_copied_into_one_engine(cluster: ClusterProcesses) -> None:
    service = fill_queues(new_store(cluster.url))
    assert len({service.store.partition_of_queue(queue) for queue in QUEUES}) > 1
    with frozen_copy(service.store) as copy:
        assert comparable(list(Service(copy.store).export())) == comparable(export_lines(service))
        assert copy.taken_at_ms <= copy.until_ms
    service.store.close_sync()


@pytest.mark.xdist_group("cluster")
def test_no_backup_while_slots_move(cluster: ClusterProcesses) -> None:
    service = fill_queues(new_store(cluster.url))
    slot = slot_of(hash_tags(16)[PARTITION])
    with migrating(cluster, slot), pytest.raises(EngineUnavailable, match="are moving"), frozen_copy(service.store):
        pass
    service.store.close_sync()


@pytest.mark.xdist_group("sentinel")
def test_the_primary_behind_sentinels_is_copied(sentinels: SentinelProcesses) -> None:
    service = fill_queues(new_store(sentinels.url))
    with frozen_copy(service.store) as copy:
        assert comparable(list(Service(copy.store).export())) == comparable(export_lines(service))
    service.store.close_sync()
