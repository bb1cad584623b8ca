"""Which partition is a queue at home in? By its name, or by the `{tag}` inside its name, as with Redis keys. And under
which hash tag does a partition keep its keys: one whose slot lies at the partition's share of the cluster's slots."""

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
    """The cluster's own rule (CRC16, XMODEM) for the slot of keys with this hash tag."""
    return binascii.crc_hqx(tag.encode(), 0) % SLOTS


@cache
def hash_tags(partitions: int) -> tuple[str, ...]:
    """A tag for each partition: the smallest numbers whose slots lie near equal steps around the ring, beginning with
    "0". Keys that exist are found by it, so it must answer the same for ever."""
    step = SLOTS / partitions
    first = slot_of("0")
    found: dict[int, str] = {}
    for number in itertools.count():
        steps = (slot_of(str(number)) - first) % SLOTS / step
        partition = round(steps)
        if abs(steps - partition) <= 1 / 4:
            found.setdefault(partition % partitions, str(number))
        if len(found) == partitions:
            return tuple(found[one] for one in range(partitions))
    raise AssertionError  # numbers do not end
