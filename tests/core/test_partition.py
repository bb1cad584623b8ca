"""Mapping of queues and tags to partitions and slots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.partition import SLOTS, hash_tags, partition_of, slot_of, tag_of


@pytest.mark.parametrize(
    ("queue", "tag"),
    [
        ("mail", "mail"),
        ("mail{a}", "a"),
        ("{a}mail", "a"),
        ("{a}{b}", "a"),
        ("{}mail", "{}mail"),  # an empty tag is none, as with Redis keys
        ("mail{", "mail{"),
        ("mail}a{b}", "b"),
        ("}{", "}{"),
        ("{a", "{a"),
        ("{{a}", "{a"),
    ],
)
def test_the_tag_inside_a_name(queue: str, tag: str) -> None:
    assert tag_of(queue) == tag


@given(st.text(max_size=30), st.text(max_size=30), st.integers(1, 4096))
def test_queues_of_one_tag_are_together(before: str, behind: str, partitions: int) -> None:
    before = before.replace("{", "")
    assert partition_of(f"{before}{{tag}}{behind}", partitions) == partition_of("tag", partitions)


@given(st.text(max_size=50), st.integers(1, 4096))
def test_a_home_is_one_of_the_partitions_and_stays(queue: str, partitions: int) -> None:
    home = partition_of(queue, partitions)
    assert 0 <= home < partitions
    assert home == partition_of(queue, partitions)


def test_homes_never_change_between_versions() -> None:
    """Stored jobs depend on these partitions."""
    assert [partition_of(queue, 16) for queue in ("default", "mail", "bedrock", "ü")] == [15, 8, 8, 5]


def test_one_partition_is_the_home_of_all() -> None:
    assert partition_of("anything", 1) == 0


def test_queues_spread() -> None:
    homes = [partition_of(f"queue{number}", 16) for number in range(1_600)]
    assert all(60 <= homes.count(partition) <= 140 for partition in range(16))


def test_slots_are_the_clusters_own() -> None:
    """Values from the cluster specification and from CLUSTER KEYSLOT."""
    assert [slot_of(tag) for tag in ("123456789", "foo", "0", "user1000")] == [12739, 12182, 13907, 3443]


def test_hash_tags_never_change_between_versions() -> None:
    """Stored keys contain these tags."""
    assert hash_tags(1) == ("0",)
    assert hash_tags(3) == ("0", "7", "12")
    assert " ".join(hash_tags(16)) == "0 66 40 18 3 65 140 19 2 60 42 106 1 67 41 107"


@pytest.mark.parametrize("nodes", [3, 6])
@pytest.mark.parametrize("partitions", [6, 12, 16, 48, 64, 1024, 4096])
def test_partitions_spread_evenly_over_equal_nodes(partitions: int, nodes: int) -> None:
    tags = hash_tags(partitions)
    assert len(set(tags)) == partitions
    shares = [0] * nodes
    for tag in tags:
        shares[slot_of(tag) * nodes // SLOTS] += 1
    assert max(shares) - min(shares) <= 2
    assert min(shares) > 0


@given(st.integers(1, 4096))
def test_every_number_of_partitions_has_its_tags(partitions: int) -> None:
    tags = hash_tags(partitions)
    assert tags[0] == "0"
    assert len(set(map(slot_of, tags))) == partitions
