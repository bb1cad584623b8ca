"""Conversion of stored flows to export lines, and of lines to flows to restore. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.export import lines
from windlass.core.ids import format_id
from windlass.core.states import State
from windlass.store.commands.admin.export import RestoreEntry
from windlass.store.records.flow_record import FlowNode, StepEnd, pack_end, pack_node, unpack_end, unpack_node
from windlass.store.records.record import ON_FAILURE

from .entries import MapId

_FIELD_BYTES = 17  # of a field that describes a step: a letter and the id of its job


def write_flow(flow_id: bytes, flat: Sequence[bytes]) -> lines.FlowLine | None:
    """Return the line of a flow. None: the flow has no steps."""
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    nodes = {
        field[1:]: unpack_node(value)
        for field, value in fields.items()
        if len(field) == _FIELD_BYTES and field.startswith(b"n")
    }
    steps = sorted(nodes.items(), key=lambda item: (item[1].sequence, item[0]))
    if not steps:
        return None
    return lines.FlowLine(
        id=format_id(flow_id),
        name=fields.get(b"name", b"").decode(),
        created_at_ms=int(fields.get(b"created_at", 0)),
        steps=[_write_step(job_id, node, fields.get(b"s" + job_id)) for job_id, node in steps],
    )


_NOT_ENDED = StepEnd(None, False, 0, 0, 0, 0, 0)


def _write_step(job_id: bytes, node: FlowNode, packed: bytes | None) -> lines.FlowStepEntry:
    end = unpack_end(packed) if packed else _NOT_ENDED
    state = "" if not packed else end.state.label if end.state else "deleted"
    return lines.FlowStepEntry(
        id=format_id(job_id),
        queue=node.queue,
        name=node.name,
        sequence=node.sequence,
        step=node.step,
        after=[format_id(other) for other in node.after],
        on_failure=ON_FAILURE[node.on_failure],
        joins=node.joins,
        state=state,  # type: ignore[arg-type]
        is_consequence=end.is_consequence,
        attempt=end.attempt,
        progress=end.progress,
        created_at_ms=end.created_at_ms,
        started_at_ms=end.started_at_ms,
        ended_at_ms=end.ended_at_ms,
    )


def read_flow(line: lines.FlowLine, flow_id: bytes, map_id: MapId) -> RestoreEntry:
    steps = [
        {"id": map_id(step.id), "node": pack_node(_node_of(step, map_id)), "ended": _end_of(step)}
        for step in line.steps
    ]
    return RestoreEntry("f", flow_id, {"name": line.name, "created_at": line.created_at_ms, "steps": steps})


def _node_of(step: lines.FlowStepEntry, map_id: MapId) -> FlowNode:
    return FlowNode(
        step.sequence,
        step.joins,
        ON_FAILURE.index(step.on_failure),
        step.queue,
        step.name,
        step.step,
        tuple(map_id(other) for other in step.after),
    )


def _end_of(step: lines.FlowStepEntry) -> bytes:
    if not step.state:
        return b""
    state = None if step.state == "deleted" else State[step.state.upper()]
    return pack_end(
        StepEnd(
            state,
            step.is_consequence,
            step.attempt,
            step.progress,
            step.created_at_ms,
            step.started_at_ms,
            step.ended_at_ms,
        )
    )
