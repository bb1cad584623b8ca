"""Timeline of a job as SVG: its waits, its attempts, its suspensions, and the wait ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

from windlass.core.durable import DurableState, StepKind
from windlass.core.job import Job, Timeline
from windlass.core.states import State

from .formats import span

WIDTH, HEIGHT = 1000, 24
WIDTH_MIN = 5  # so that an attempt of a millisecond within a day is visible
_RESTS = frozenset({StepKind.SLEEP, StepKind.SIGNAL, StepKind.CHILDREN})
_ENDS = {State.FINISHED: "good", State.FAILED: "bad", State.CANCELLED: "off"}


class Phase(NamedTuple):
    """Part of a job's timeline. `kind` is a class of the stylesheet: plan, wait, rest, run, good, bad, off, ahead."""

    kind: str
    from_ms: int
    to_ms: int
    label: str

    @property
    def duration_ms(self) -> int:
        return max(0, self.to_ms - self.from_ms)


def phases(timeline: Timeline, now_ms: int) -> list[Phase]:
    job = timeline.job
    found: list[Phase] = []
    at_ms = job.created_at_ms
    for attempt in timeline.attempts:
        began_ms = attempt.started_at_ms
        if began_ms is None:
            continue
        found += [
            Phase("wait", at_ms, began_ms, "waited"),
            Phase("bad", began_ms, attempt.ended_at_ms, f"attempt {attempt.attempt}: {attempt.reason}"),
        ]
        at_ms = attempt.ended_at_ms
    found += _last_phases(job, at_ms, now_ms)
    return [phase for phase in found if phase.duration_ms > 0 or phase.kind not in ("wait", "plan", "ahead")]


def first_started_at_ms(timeline: Timeline, state: DurableState | None) -> int | None:
    """Return the first start of the job. None: it never started, or its first attempts are no longer stored."""
    attempts = timeline.attempts
    if attempts and attempts[0].attempt > 1:
        return None
    starts = [attempt.started_at_ms for attempt in attempts]
    starts += [step.begun_at_ms for step in state.steps] if state else []
    return min((at for at in (*starts, timeline.job.started_at_ms) if at), default=None)


def _last_phases(job: Job, at_ms: int, now_ms: int) -> Iterator[Phase]:
    """Yield the phases from the last failed attempt, or the creation, until now or the end."""
    if job.started_at_ms is not None and job.started_at_ms >= at_ms:
        yield Phase("wait", at_ms, job.started_at_ms, "waited")
        until_ms = job.ended_at_ms or now_ms
        if job.ended_at_ms is None and not job.state.is_leased:
            yield Phase("wait", job.started_at_ms, until_ms, "started, waits again")
            if job.state is State.SUSPENDED and job.run_at_ms > now_ms:
                yield Phase("ahead", now_ms, job.run_at_ms, "remaining wait")
            return
        kind = _ENDS.get(job.state, "run")
        yield Phase(kind, job.started_at_ms, until_ms, f"attempt {job.attempt}: {job.state.label}")
    elif job.ended_at_ms is not None:
        if job.ended_at_ms > at_ms:
            yield Phase("wait", at_ms, job.ended_at_ms, "waited, never started")
    elif job.run_at_ms > now_ms:
        yield Phase("plan", at_ms, now_ms, "scheduled")
        yield Phase("ahead", now_ms, job.run_at_ms, "remaining wait")
    else:
        ready_ms = max(at_ms, job.run_at_ms)
        yield Phase("plan", at_ms, ready_ms, "was scheduled")
        yield Phase("wait", ready_ms, now_ms, "waits")


# Suspensions of a durable job


def add_rests(all_phases: list[Phase], timeline: Timeline, state: DurableState) -> list[Phase]:
    """Show when a durable job was suspended. Only its last start is stored, so the time between its first start and the
    last suspension counts as running."""
    job = timeline.job
    rests = list(_rests(job, state))
    starts = [step.begun_at_ms for step in state.steps] + [attempt.started_at_ms or 0 for attempt in timeline.attempts]
    begun_ms = min((at for at in (*starts, job.started_at_ms or 0) if at), default=state.now_ms)
    cuts = sorted({begun_ms, *(at for rest in rests for at in rest)})
    pieces = [piece for phase in all_phases for piece in _cut(phase, cuts)]
    return _join([_relabel(piece, rests, begun_ms) for piece in pieces])


def _rests(job: Job, state: DurableState) -> Iterator[tuple[int, int]]:
    until_ms = job.ended_at_ms or state.now_ms
    for step in state.steps:
        if step.kind in _RESTS:
            yield step.begun_at_ms, min(step.ended_at_ms or until_ms, until_ms)
    if state.suspended_at_ms is not None:
        yield state.suspended_at_ms, until_ms


def _cut(phase: Phase, cuts: Sequence[int]) -> Iterator[Phase]:
    at_ms = phase.from_ms
    if phase.kind not in ("plan", "ahead"):
        for cut_ms in cuts:
            if at_ms < cut_ms < phase.to_ms:
                yield phase._replace(from_ms=at_ms, to_ms=cut_ms)
                at_ms = cut_ms
    yield phase._replace(from_ms=at_ms)


def _relabel(piece: Phase, rests: Sequence[tuple[int, int]], begun_ms: int) -> Phase:
    if piece.kind in ("plan", "ahead") or not piece.duration_ms:
        return piece
    if any(from_ms <= piece.from_ms and piece.to_ms <= to_ms for from_ms, to_ms in rests):
        return piece._replace(kind="rest", label="suspended")
    if piece.kind == "wait" and piece.from_ms >= begun_ms:
        return piece._replace(kind="run", label="ran, or waited for a worker")
    return piece


def _join(pieces: list[Phase]) -> list[Phase]:
    joined: list[Phase] = []
    for piece in pieces:
        if joined and joined[-1][0::3] == piece[0::3]:
            joined[-1] = joined[-1]._replace(to_ms=piece.to_ms)
        else:
            joined.append(piece)
    return joined


def rested_ms(all_phases: list[Phase]) -> int:
    return sum(phase.duration_ms for phase in all_phases if phase.kind == "rest")


def waited_ms(all_phases: list[Phase]) -> int:
    return sum(phase.duration_ms for phase in all_phases if phase.kind in ("wait", "plan"))


def ran_ms(all_phases: list[Phase]) -> int:
    return sum(phase.duration_ms for phase in all_phases if phase.kind in ("run", "good", "bad", "off"))


def render(all_phases: list[Phase]) -> Markup:
    """Draw the phases side by side, in proportion to their durations, each at least WIDTH_MIN wide."""
    if not all_phases:
        return Markup("")
    parts, x = [], 0.0
    for phase, width in zip(all_phases, _widths(all_phases), strict=True):
        title = f"{phase.label}, {span(phase.duration_ms)}"
        parts.append(
            Markup('<rect class="life-{}" x="{}" width="{}" height="{}"><title>{}</title></rect>').format(
                phase.kind, f"{x:.1f}", f"{max(width - 1.5, 1):.1f}", HEIGHT, title
            )
        )
        x += width
    description = "; ".join(f"{phase.label} {span(phase.duration_ms)}" for phase in all_phases)
    return Markup(
        '<svg class="life" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, f"Timeline: {description}", Markup("").join(parts))


def _widths(all_phases: list[Phase]) -> list[float]:
    whole_ms = sum(phase.duration_ms for phase in all_phases) or 1
    wanted = [max(WIDTH_MIN, WIDTH * phase.duration_ms / whole_ms) for phase in all_phases]
    return [WIDTH * width / sum(wanted) for width in wanted]
