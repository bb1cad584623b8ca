"""Gantt chart of a flow: a row for each step, with its wait for other steps, its wait in the queue, and its run.

Bars are SVG in per cent of the width, so that the chart fits any window while texts keep their size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from windlass.core.flow import Flow, FlowStep

from .flow.steps import IMPORTANCE, kind_of, ran_ms, word_of
from .formats import span

ROWS_MAX = 150
WIDTH_MIN = 0.5  # per cent, so that a run of a millisecond within a day is visible
HEIGHT, BAR_Y, BAR_HEIGHT = 26, 7, 12
TICKS_MAX = 6
_IMPORTANT = IMPORTANCE["cancelled"]
_STEPS_MS = tuple(
    factor * unit
    for unit, factors in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1000, (1, 2, 5, 10, 15, 30)),
        (60_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000, (1, 2, 3, 6, 12)),
        (86_400_000, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
    )
    for factor in factors
)


class Bar(NamedTuple):
    """Part of a row. `kind` is a class of the stylesheet: blocked, wait, rest, run, good, bad, off."""

    kind: str
    from_ms: int
    to_ms: int
    label: str


class GanttRow(NamedTuple):
    step: FlowStep
    kind: str
    bars: list[Bar]
    ran_ms: int | None


class Gantt(NamedTuple):
    """Rows in the order of their start, and the time that the chart shows."""

    rows: list[GanttRow]
    left_out: int  # steps without a row
    from_ms: int
    to_ms: int


def chart_of(flow: Flow, rows_max: int = ROWS_MAX) -> Gantt:
    """Build the chart. Of many steps, those that failed, run, or ran longest get a row."""
    ends = {step.job_id: step.ended_at_ms for step in flow.steps}
    shown = _select(flow, rows_max)
    from_ms = min([flow.summary.created_at_ms, *(step.created_at_ms for step in shown if step.created_at_ms)])
    to_ms = max(flow.summary.ended_at_ms or flow.now_ms, from_ms + 1)
    rows = [_row(step, ends, flow.now_ms) for step in shown]
    return Gantt(rows, len(flow.steps) - len(shown), from_ms, to_ms)


def _select(flow: Flow, rows_max: int) -> list[FlowStep]:
    """Select steps with work, the most important first, and return them in the order of their start."""
    places = {step.job_id: at for at, step in enumerate(flow.steps)}

    def importance(step: FlowStep) -> tuple[int, int, int]:
        rank = min(IMPORTANCE[kind_of(step)], _IMPORTANT + 1)
        return rank, -(ran_ms(step, flow.now_ms) or 0), places[step.job_id]

    chosen = sorted(flow.steps, key=importance)[:rows_max]
    never_ms = flow.now_ms + 1
    return sorted(chosen, key=lambda step: (step.started_at_ms or step.ended_at_ms or never_ms, places[step.job_id]))


def _row(step: FlowStep, ends: dict[bytes, int | None], now_ms: int) -> GanttRow:
    kind = kind_of(step)
    return GanttRow(step, kind, _bars(step, kind, ends, now_ms), None if step.joins else ran_ms(step, now_ms))


def _bars(step: FlowStep, kind: str, ends: dict[bytes, int | None], now_ms: int) -> list[Bar]:
    until_ms = step.ended_at_ms or now_ms
    begun_ms = step.created_at_ms or until_ms
    ready_ms = max([begun_ms, *(ends.get(job_id) or begun_ms for job_id in step.after)])
    if step.is_consequence or kind == "waiting":
        return _known([Bar("blocked", begun_ms, until_ms, "waited for other steps")])
    ready_ms = min(ready_ms, step.started_at_ms or until_ms)
    ran = ran_ms(step, now_ms)
    has_begun = ran is not None or kind == "suspended"
    began_ms = step.started_at_ms if has_begun and step.started_at_ms is not None else until_ms
    bars = [Bar("blocked", begun_ms, ready_ms, "waited for other steps"), Bar("wait", ready_ms, began_ms, "waited")]
    if ran is not None:
        ends_as = {"finished": "good", "failed": "bad", "cancelled": "off"}.get(kind, "run")
        bars.append(Bar(ends_as, began_ms, until_ms, f"attempt {step.attempt}: {word_of(kind)}"))
    elif kind == "suspended":
        bars.append(Bar("blocked", began_ms, until_ms, "started, is suspended"))
    return _known(bars)


def _known(bars: list[Bar]) -> list[Bar]:
    """Leave out waits without a duration. A run is shown, however short it was."""
    return [bar for bar in bars if bar.to_ms > bar.from_ms or bar.kind not in ("blocked", "wait")]


# Drawing


def _percent(at_ms: int, chart: Gantt) -> float:
    share = (at_ms - chart.from_ms) / (chart.to_ms - chart.from_ms)
    return min(100.0, max(0.0, 100 * share))


def ticks(chart: Gantt) -> list[int]:
    """Return round durations since the begin of the chart."""
    length_ms = chart.to_ms - chart.from_ms
    step_ms = next((step for step in _STEPS_MS if length_ms / step <= TICKS_MAX), _STEPS_MS[-1])
    return [at * step_ms for at in range(min(int(length_ms / step_ms), TICKS_MAX) + 1)]


def draw_axis(chart: Gantt) -> Markup:
    """Draw the time axis, in durations since the begin of the flow."""
    parts = []
    for number, at_ms in enumerate(ticks(chart)):
        share = _percent(chart.from_ms + at_ms, chart)
        anchor = "end" if share > 90 else "middle" if share > 5 else "start"
        kind = "tick is-minor" if number % 2 else "tick"  # left out in narrow windows
        text = escape(span(at_ms) if at_ms else "0")
        parts.append(f'<text class="{kind}" x="{share:.2f}%" y="12" text-anchor="{anchor}">{text}</text>')
    label = f"Time axis of {span(chart.to_ms - chart.from_ms)}"
    return Markup('<svg class="gantt-bars" height="16" role="img" aria-label="{}">{}</svg>').format(
        label,
        Markup("".join(parts)),  # noqa: S704 (numbers and escaped texts)
    )


def draw_row(row: GanttRow, chart: Gantt) -> Markup:
    """Draw the bars of a step of a flow."""
    return draw_bars(row.bars, chart, word_of(row.kind))


def draw_bars(bars: Sequence[Bar], chart: Gantt, state: str) -> Markup:
    """Draw bars between the grid lines of the time axis. `state` describes a row without bars."""
    parts = [_grid_line(at_ms, chart) for at_ms in ticks(chart)]
    parts += [_draw_bar(bar, chart) for bar in bars]
    described = "; ".join(f"{bar.label} {span(bar.to_ms - bar.from_ms)}" for bar in bars) or state
    return Markup('<svg class="gantt-bars" height="{}" role="img" aria-label="{}">{}</svg>').format(
        HEIGHT,
        described,
        Markup("".join(parts)),  # noqa: S704 (numbers and escaped texts)
    )


def _grid_line(at_ms: int, chart: Gantt) -> str:
    share = f"{_percent(chart.from_ms + at_ms, chart):.2f}%"
    return f'<line class="grid-line" x1="{share}" x2="{share}" y1="0" y2="{HEIGHT}"/>'


def _draw_bar(bar: Bar, chart: Gantt) -> str:
    left, right = _percent(bar.from_ms, chart), _percent(bar.to_ms, chart)
    width = max(WIDTH_MIN, right - left)
    left = min(left, 100 - width)
    thin = bar.kind == "blocked"
    y, height = (BAR_Y + BAR_HEIGHT / 2 - 1, 2) if thin else (BAR_Y, BAR_HEIGHT)
    title = escape(f"{bar.label}, {span(bar.to_ms - bar.from_ms)}")
    return (
        f'<rect class="gantt-{bar.kind}" x="{left:.2f}%" width="{width:.2f}%" y="{y:g}" height="{height:g}" rx="2">'
        f"<title>{title}</title></rect>"
    )
