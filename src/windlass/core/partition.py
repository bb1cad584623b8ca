"""Which partition is a queue at home in? By its name, or by the `{tag}` inside its name, as with Redis keys."""

from __future__ import annotations

import zlib


def tag_of(queue: str) -> str:
    start = queue.find("{")
    end = queue.find("}", start + 1)
    return queue[start + 1 : end] if start >= 0 and end > start + 1 else queue


def partition_of(queue: str, partitions: int) -> int:
    return zlib.crc32(tag_of(queue).encode()) % partitions if partitions > 1 else 0
