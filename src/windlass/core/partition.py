"""Mapping of queues to partitions, and of partitions to hash tags of the cluster.

A queue's partition follows from its name, or from the `{tag}` inside its name, as with Redis keys. The hash tag of a
partition is chosen so that the partitions divide the cluster's slots evenly.
"""

from __future__ import annotations

import binascii
import itertools
import zlib
from functools import cache

SLOTS = 16_384


def tag_of(queue: str) -> str:
    start = queue.find("{")
    end = queue.find("}", start + 1)
    return queue[start + 1 : end] if start >= 0 and end > start + 1 else queue


def partition_of(queue: str, partitions: int) -> int:
    return zlib.crc32(tag_of(queue).encode()) % partitions if partitions > 1 else 0


def slot_of(tag: str) -> int:
    """Return the cluster slot of keys with this hash tag, by the cluster's own rule (CRC16, XMODEM)."""
    return binascii.crc_hqx(tag.encode(), 0) % SLOTS


@cache
def hash_tags(partitions: int) -> tuple[str, ...]:
    """Return a hash tag for each partition: the smallest numbers whose slots are near equal steps from the slot of "0".

    Stored keys contain these tags, so the result must never change.
    """
    step = SLOTS / partitions
    first = slot_of("0")
    found: dict[int, str] = {}
    for number in itertools.count():
        steps = (slot_of(str(number)) - first) % SLOTS / step
        partition = round(steps)
        if abs(steps - partition) <= 1 / 4:
            found.setdefault(partition % partitions, str(number))
        if len(found) == partitions:
            return tuple(found[partition] for partition in range(partitions))
    raise AssertionError  # unreachable: the loop is endless
