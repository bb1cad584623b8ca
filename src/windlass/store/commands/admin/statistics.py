"""Commands for counters that components of a deployment publish: publish_stats, stats_of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.core.errors import Refusal, TooLarge
from windlass.store.commands.command import Argument, Command, parse_reply

HOME = 0  # the partition that holds them
INSTANCES_MAX = 1_000
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, int]).decode


def publish_stats(component: str, instance: str, numbers: Mapping[str, int], for_ms: int) -> Command[Refusal | None]:
    def read(reply: Any) -> Refusal | None:
        if reply == TooLarge.code.encode():
            return TooLarge(f"At most {INSTANCES_MAX:,} instances of {component} can publish counters.")
        return parse_reply(reply, lambda _: None)

    args: list[Argument] = [component, instance, for_ms, _encode(dict(numbers)), INSTANCES_MAX]
    return Command("publish_stats", args, read, partition=HOME)


def stats_of(component: str) -> Command[dict[str, dict[str, int]]]:
    def read(reply: list[bytes]) -> dict[str, dict[str, int]]:
        return {reply[at].decode(): _decode(reply[at + 1]) for at in range(0, len(reply), 2)}

    return Command("stats_of", [component], read, partition=HOME)
