"""Fixtures: a cluster and a Sentinel group per session. Each test gets them restored, and a namespace of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.topologies.nodes import ClusterProcesses, SentinelProcesses
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

_namespaces = itertools.count(1)


def new_store(url: str, **options: object) -> Store:
    options = {"namespace": f"t{next(_namespaces)}", "is_test": True, "patience_s": 20.0} | options
    return Store(parse_url(url), **options)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def cluster_of_session() -> Iterator[ClusterProcesses]:
    with ClusterProcesses() as processes:
        yield processes


@pytest.fixture
def cluster(cluster_of_session: ClusterProcesses) -> ClusterProcesses:
    cluster_of_session.restore()
    return cluster_of_session


@pytest.fixture(scope="session")
def sentinels_of_session() -> Iterator[SentinelProcesses]:
    with SentinelProcesses() as processes:
        yield processes


@pytest.fixture
def sentinels(sentinels_of_session: SentinelProcesses) -> SentinelProcesses:
    sentinels_of_session.reset()
    return sentinels_of_session
