"""Reading flows: one with its steps, and pages of summaries."""

from __future__ import annotations

from typing import Any, NamedTuple

from windlass.core.errors import Refusal
from windlass.core.flow import Flow, FlowStep, FlowSummary
from windlass.core.flow.order import sort_steps
from windlass.core.job import Flag
from windlass.core.states import State
from windlass.store.records.flow_record import QUEUE_SEPARATOR, FlowNode, StepEnd, unpack_end, unpack_node
from windlass.store.records.record import HEADER, ON_FAILURE

from .command import Argument, Command, parse_reply
from .jobs import IndexPosition, decode_cursor, position_of

_FIELDS = (  # as in lua/flows/flows.lua
    b"name", b"created_at", b"queues", b"ended_at", b"total", b"finished", b"failed", b"cancelled", b"consequences",
    b"deleted",
)  # fmt: skip
_PROGRESS_WHOLE = 1_000_000
_ENDED_BY_MEMBER = int(Flag.ENDED_BY_MEMBER)


class SummaryPage(NamedTuple):
    """Page of the flows of one partition. `until` is the last position read; None: the end."""

    flows: list[FlowSummary]
    positions: list[IndexPosition]  # of these flows
    until: IndexPosition | None


def flow(flow_id: bytes, partition: int) -> Command[Flow | Refusal]:
    def read(reply: Any) -> Flow | Refusal:
        return parse_reply(reply, lambda parts: _read_flow(flow_id, parts))

    return Command("flow", [flow_id], read, partition=partition)


def flows(most: int, cursor: str, partition: int) -> Command[SummaryPage]:
    score, member = decode_cursor(cursor) if cursor else (b"", b"")
    args: list[Argument] = [most, score, member]
    return Command("flows", args, _read_page, partition=partition)


def _read_page(reply: Any) -> SummaryPage:
    score, member, rows = reply
    found = [(rows[i], rows[i + 1], rows[i + 2]) for i in range(0, len(rows), 3)]
    # An entry without a flow is left for the doctor.
    known = [(flow_id, place, values) for flow_id, place, values in found if values[1] is not None]
    return SummaryPage(
        [_summary(flow_id, dict(zip(_FIELDS, values, strict=True))) for flow_id, _, values in known],
        [position_of(place, flow_id) for flow_id, place, _ in known],
        position_of(score, member) if score else None,
    )


def _summary(flow_id: bytes, fields: dict[bytes, bytes | None]) -> FlowSummary:
    def number(field: bytes) -> int:
        return int(fields.get(field) or 0)

    queues = (fields.get(b"queues") or b"").decode()
    ended = sum(number(field) for field in _FIELDS[5:])
    return FlowSummary(
        id=flow_id,
        name=(fields.get(b"name") or b"").decode(),
        queues=tuple(queues.split(QUEUE_SEPARATOR)) if queues else (),
        created_at_ms=number(b"created_at"),
        ended_at_ms=number(b"ended_at") if ended >= number(b"total") else None,
        total=number(b"total"),
        finished=number(b"finished"),
        failed=number(b"failed"),
        cancelled=number(b"cancelled"),
        consequences=number(b"consequences"),
        deleted=number(b"deleted"),
    )


def _read_flow(flow_id: bytes, parts: Any) -> Flow:
    now_ms, fields, rows = parts
    header = dict(zip(fields[::2], fields[1::2], strict=True))
    stored = [(rows[i], unpack_node(rows[i + 1]), rows[i + 2], rows[i + 3]) for i in range(0, len(rows), 4)]
    stored.sort(key=lambda row: row[1].sequence)
    ids = {row[0] for row in stored}
    steps = [_step(job_id, node, end, record, ids) for job_id, node, end, record in stored]
    return Flow(_summary(flow_id, header), sort_steps(steps), now_ms)


def _step(job_id: bytes, node: FlowNode, packed_end: bytes, record: bytes, ids: set[bytes]) -> FlowStep:
    """Return a step. The record, while it exists, says more than the end that the flow has noted."""
    now = _read_header(record) if record else unpack_end(packed_end) if packed_end else _LOST
    return FlowStep(
        job_id=job_id,
        step=node.step,
        queue=node.queue,
        name=node.name,
        after=tuple(other for other in node.after if other in ids),
        on_failure=ON_FAILURE[node.on_failure],
        joins=node.joins,
        state=now.state,
        is_consequence=now.is_consequence,
        is_kept=bool(record),
        attempt=now.attempt,
        progress=now.progress / _PROGRESS_WHOLE,
        created_at_ms=now.created_at_ms,
        started_at_ms=now.started_at_ms or None,
        ended_at_ms=now.ended_at_ms or None,
    )


_LOST = StepEnd(None, False, 0, 0, 0, 0, 0)


def _read_header(record: bytes) -> StepEnd:
    (
        _, state, flags, _, _, _, created_high, created, _, _, started_high, started, ended_high, ended,
        _, _, _, _, _, attempt, _, progress, _,
    ) = HEADER.unpack(record)  # fmt: skip
    return StepEnd(
        State(state),
        flags & _ENDED_BY_MEMBER != 0,
        attempt,
        progress,
        created_high << 32 | created,
        started_high << 32 | started,
        ended_high << 32 | ended,
    )
