"""Partitions: where a queue is at home, and how a tag puts queues together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.partition import partition_of, tag_of


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
    """Jobs are stored under them."""
    assert [partition_of(queue, 16) for queue in ("default", "mail", "bedrock", "ü")] == [15, 8, 8, 5]


def test_one_partition_is_the_home_of_all() -> None:
    assert partition_of("anything", 1) == 0


def test_queues_spread() -> None:
    homes = [partition_of(f"queue{number}", 16) for number in range(1_600)]
    assert all(60 <= homes.count(partition) <= 140 for partition in range(16))
