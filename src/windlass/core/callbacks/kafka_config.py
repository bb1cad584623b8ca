"""Parser for the Kafka setting of callbacks."""

from __future__ import annotations

from windlass.core.errors import BadInput


def parse_kafka_config(text: str) -> dict[str, str]:
    """Parse the setting: librdkafka's `name=value` pairs, separated by semicolons."""
    pairs = [part.strip().partition("=") for part in text.split(";") if part.strip()]
    if any(not name.strip() or not mark for name, mark, _ in pairs):
        raise BadInput("it must be like bootstrap.servers=one:9092,two:9092; compression.type=lz4.")
    return {name.strip(): value.strip() for name, _, value in pairs}
