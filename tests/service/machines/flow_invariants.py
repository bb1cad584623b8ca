"""Invariants of flows: what a flow counts is what its steps and the records of its jobs say."""

from __future__ import annotations

from collections import Counter
from typing import Any

from windlass.core.states import ENDED, State

FLOW_KINDS = ("flow",)
FLOW_SINGLE = ("flows", "flow_retention", "flow_steps")
COUNTS = ("finished", "failed", "cancelled", "consequences", "deleted")
_BY_STATE = {0: "deleted", 6: "finished", 7: "failed", 8: "cancelled"}
_FIELD_BYTES = 17  # of a step: a letter and the id of its job


def _count_of(end: bytes) -> str:
    return "consequences" if end[1] else _BY_STATE[end[0]]


def _expected_count(stored: Any) -> str | None:
    """Return how the flow must count a job whose record exists; None: it has not ended."""
    job = stored.job
    if job.state not in ENDED:
        return None
    return "consequences" if job.is_consequence and job.state is not State.FINISHED else job.state.label


def check_flows(found: Any) -> None:
    flows = {key.encode("latin-1"): fields for key, fields in found.of_kind("flow:")}
    totals: dict[bytes, int] = {}
    for flow_id, fields in flows.items():
        nodes = {field[1:] for field in fields if len(field) == _FIELD_BYTES and field[:1] == b"n"}
        ends = {field[1:]: end for field, end in fields.items() if len(field) == _FIELD_BYTES and field[:1] == b"s"}
        kept = nodes & found.jobs.keys()
        numbers = {name: int(fields.get(name.encode(), 0)) for name in ("total", "kept", *COUNTS)}
        counted = Counter(_count_of(end) for end in ends.values())
        expected = {"total": len(nodes), "kept": len(kept)} | {name: counted[name] for name in COUNTS}
        assert numbers == expected, f"flow {flow_id.hex()} counts {numbers}, not {expected}"
        assert ends.keys() <= nodes
        assert nodes - kept <= ends.keys(), "a step without a record and without an end"
        for job_id in kept:
            end = ends.get(job_id)
            own = _count_of(end) if end else None
            assert own == _expected_count(found.jobs[job_id]), f"step {job_id.hex()} has ended as {own}"
        if not kept:
            totals[flow_id] = len(nodes)
    assert found.zset("flows") == {flow_id: float(fields[b"created_at"]) for flow_id, fields in flows.items()}
    assert found.zset("flow_retention").keys() == totals.keys()
    assert int(found.values.get("flow_steps", 0)) == sum(totals.values())
    for stored in found.jobs.values():
        flow = stored.job.flow
        assert flow is None or b"n" + stored.job.id in flows[flow.id], f"{stored.job.key} is not in its flow"
