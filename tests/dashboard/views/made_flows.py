"""Flows made by hand, of every shape and size, for tests of what the dashboard draws."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from windlass.core.flow import Flow, FlowStep, FlowSummary
from windlass.core.states import State

FLOW_ID = bytes(15) + b"\xff"
CREATED_AT_MS = 1_790_000_000_000
NOW_MS = CREATED_AT_MS + 600_000
JOINED_MAX = 500  # a job may wait for a thousand others

MakeStep = Callable[[int, Sequence[int]], FlowStep]


def step_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def make_step(
    number: int, after: Sequence[int] = (), state: State | None = State.FINISHED, **fields: object
) -> FlowStep:
    has_started = state not in (State.WAITING, State.QUEUED, State.SCHEDULED, None) and not fields.get("is_consequence")
    is_ended = state is None or state.is_ended
    base_ms = CREATED_AT_MS + number % 500 * 1000
    given = {
        "job_id": step_id(number),
        "step": f"step {number}",
        "queue": "orders",
        "name": "ship_order",
        "after": tuple(step_id(before) for before in after),
        "on_failure": "fail",
        "joins": False,
        "state": state,
        "is_consequence": False,
        "is_kept": state is not None,
        "attempt": 1,
        "progress": 0.0,
        "created_at_ms": CREATED_AT_MS,
        "started_at_ms": base_ms + 100 if has_started else None,
        "ended_at_ms": base_ms + 900 + number % 7 * 1000 if is_ended else None,
    }
    return FlowStep(**(given | fields))  # type: ignore[arg-type]


def make_flow(steps: list[FlowStep], name: str = "checkout") -> Flow:
    counts = Counter(
        "consequences" if step.is_consequence else "deleted" if step.state is None else step.state.label
        for step in steps
    )
    ended = sum(counts[kind] for kind in ("finished", "failed", "cancelled", "consequences", "deleted"))
    ends = [step.ended_at_ms or 0 for step in steps]
    summary = FlowSummary(
        id=FLOW_ID,
        name=name,
        queues=tuple(sorted({step.queue for step in steps})),
        created_at_ms=CREATED_AT_MS,
        ended_at_ms=max(ends) if ended == len(steps) and steps else None,
        total=len(steps),
        **{kind: counts[kind] for kind in ("finished", "failed", "cancelled", "consequences", "deleted")},
    )
    return Flow(summary, steps, NOW_MS)


def chain(count: int, fails_at: int | None = None) -> Flow:
    """A step after the other. The step `fails_at` failed, and those after it could not run."""
    return make_flow([_chained(at, [at - 1] if at else [], fails_at) for at in range(count)])


def _chained(at: int, after: Sequence[int], fails_at: int | None) -> FlowStep:
    if fails_at is None or at < fails_at:
        return make_step(at, after)
    if at == fails_at:
        return make_step(at, after, State.FAILED)
    return make_step(at, after, State.FAILED, is_consequence=True)


def group(count: int, states: Sequence[State] = (State.FINISHED,)) -> Flow:
    """A step, then many steps side by side, then joins of them, then a step that waits for the joins."""
    joins = -(-count // JOINED_MAX)
    middle = range(1, count - joins - 1)
    steps = [make_step(0), *(make_step(at, [0], states[at % len(states)]) for at in middle)]
    for at in range(joins):
        steps.append(make_step(len(steps), middle[at::joins], State.WAITING, joins=True, name="group"))
    return make_flow([*steps, make_step(len(steps), range(len(steps) - joins, len(steps)), State.WAITING)])


def layers(count: int, width: int, seed: int = 7) -> Flow:
    """Layers of equal width. Each step waits for two steps of the layer before; the last layers wait or run."""
    chance = random.Random(seed)
    steps = []
    for at in range(count):
        layer = at // width
        before = range((layer - 1) * width, layer * width)
        after = sorted(chance.sample(before, min(2, width))) if layer else []
        share = at / count
        state = State.FINISHED if share < 0.6 else State.RUNNING if share < 0.65 else State.WAITING
        steps.append(make_step(at, after, state))
    return make_flow(steps)


def random_flow(count: int, edges: int, seed: int = 7) -> Flow:
    """Any graph without cycles, with every state."""
    chance = random.Random(seed)
    after: list[set[int]] = [set() for _ in range(count)]
    for _ in range(edges if count > 1 else 0):
        target = chance.randrange(1, count)
        after[target].add(chance.randrange(target))
    states: list[State | None] = [*State, None]
    return make_flow([make_step(at, sorted(after[at]), chance.choice(states)) for at in range(count)])
