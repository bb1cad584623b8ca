"""Stored form of the steps of a flow, and of the reference of a job to its flow.

lua/lib/flows/flow_record.lua has the same layouts.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from windlass.core.job import FlowRef
from windlass.core.states import State

# Sequence, joins, policy for failures, length of the queue. Queue, task, step and ids of awaited jobs follow.
_NODE = struct.Struct(">HIBBB")
_END = struct.Struct(">BBIIHIHIHI")  # state (0: deleted), consequence, attempt, progress; created, started, ended
QUEUE_SEPARATOR = "\2"


class FlowNode(NamedTuple):
    """Place of a job in the graph of a flow."""

    sequence: int
    joins: bool
    on_failure: int
    queue: str
    name: str
    step: str
    after: tuple[bytes, ...]  # may name jobs outside the flow


class StepEnd(NamedTuple):
    """End of a step, or the state of a step that has not ended."""

    state: State | None  # None: deleted
    is_consequence: bool
    attempt: int
    progress: int  # in millionths
    created_at_ms: int
    started_at_ms: int
    ended_at_ms: int


def pack_flow_ref(flow: FlowRef) -> bytes:
    name = flow.name.encode()
    return flow.id + bytes([len(name)]) + name + flow.step.encode()


def unpack_flow_ref(packed: bytes) -> FlowRef:
    step_at = 17 + packed[16]
    return FlowRef(packed[:16], packed[17:step_at].decode(), packed[step_at:].decode())


def unpack_node(packed: bytes) -> FlowNode:
    sequence_high, sequence, joins, on_failure, size = _NODE.unpack_from(packed)
    at = _NODE.size
    queue, at = packed[at : at + size].decode(), at + size
    size, at = int.from_bytes(packed[at : at + 2], "big"), at + 2
    name, at = packed[at : at + size].decode(), at + size
    size, at = packed[at], at + 1
    step, at = packed[at : at + size].decode(), at + size
    after = tuple(packed[start : start + 16] for start in range(at, len(packed), 16))
    return FlowNode(sequence_high << 32 | sequence, joins == 1, on_failure, queue, name, step, after)


def pack_node(node: FlowNode) -> bytes:
    queue, name, step = node.queue.encode(), node.name.encode(), node.step.encode()
    sequence = node.sequence >> 32, node.sequence & 0xFFFFFFFF
    return b"".join(
        (
            _NODE.pack(*sequence, node.joins, node.on_failure, len(queue)),
            queue,
            len(name).to_bytes(2, "big"),
            name,
            bytes([len(step)]),
            step,
            *node.after,
        )
    )


def unpack_end(packed: bytes) -> StepEnd:
    state, consequence, attempt, progress, *instants = _END.unpack(packed)
    created, started, ended = (high << 32 | low for high, low in zip(instants[::2], instants[1::2], strict=True))
    return StepEnd(State(state) if state else None, consequence == 1, attempt, progress, created, started, ended)


def pack_end(end: StepEnd) -> bytes:
    instants = (
        part
        for instant in (end.created_at_ms, end.started_at_ms, end.ended_at_ms)
        for part in (instant >> 32, instant & 0xFFFFFFFF)
    )
    return _END.pack(end.state or 0, end.is_consequence, end.attempt, end.progress, *instants)
