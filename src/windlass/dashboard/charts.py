"""Series of numbers as SVG, without scripts and styles of their own: the stylesheet gives lines and areas their colours
by class. Each chart says in words what it shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from markupsafe import Markup, escape

from .figures import short, span

SPARK_WIDTH, SPARK_HEIGHT = 120, 28
WIDTH, HEIGHT = 640, 200
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 10, 22
LINES = 4  # across, above the axis
_NICE = (1, 2, 2.5, 5, 10)


class Series(NamedTuple):
    """`kind` is a class of the stylesheet: enqueued, finished, failed, latency…"""

    name: str
    kind: str
    values: Sequence[float]


def sparkline(values: Sequence[float], failed: Sequence[float] = (), *, label: str) -> Markup:
    """Columns, oldest first; the part of them that failed stands at the foot in another colour."""
    top = max([*values, *failed, 1])
    step = SPARK_WIDTH / max(1, len(values))
    good = _columns(values, top, step)
    bad = _columns(failed, top, step)
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<path class="spark-ground" d="M0 {}H{}"/><path class="spark-good" d="{}"/>'
        '<path class="spark-bad" d="{}"/></svg>'
    ).format(SPARK_WIDTH, SPARK_HEIGHT, label, SPARK_HEIGHT - 0.5, SPARK_WIDTH, good, bad)


def _columns(values: Sequence[float], top: float, step: float) -> str:
    parts = []
    width = max(0.5, step - 0.6)
    for at, value in enumerate(values):
        if value > 0:
            height = max(1.5, value / top * (SPARK_HEIGHT - 2))
            parts.append(f"M{at * step:.1f} {SPARK_HEIGHT}v-{height:.1f}h{width:.1f}v{height:.1f}z")
    return "".join(parts)


def time_series(
    series: Sequence[Series],
    times_ms: Sequence[int],
    *,
    title: str,
    write: Callable[[float], str] = short,
    areas: bool = True,
) -> Markup:
    """Lines over time, with axes. `write`: how a number stands at the axis."""
    top = nice_top(max((value for one in series for value in one.values), default=0))
    body = [_grid(top, write), _time_axis(times_ms)]
    for one in series:
        line = _line(one.values, top)
        if line and areas:
            foot = HEIGHT - BOTTOM
            body.append(f'<path class="area area-{one.kind}" d="{line}V{foot}H{_x(0, len(one.values)):.1f}Z"/>')
        body.append(f'<path class="line line-{one.kind}" d="{line}"/>')
    described = "; ".join(_described(one, write) for one in series)
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title><desc>{}</desc>{}</svg>'
    ).format(WIDTH, HEIGHT, f"{title}: {described}", title, described, Markup("".join(body)))  # noqa: S704 (numbers, and texts that are escaped)


def brief_span(duration_ms: float) -> str:
    """Milliseconds at an axis."""
    return span(duration_ms) if duration_ms else "0"


def nice_top(most: float) -> float:
    """A round number at or above it that can be divided by the lines across."""
    if most <= LINES:
        return float(LINES)
    step = most / LINES
    unit = 10.0 ** math.floor(math.log10(step))
    return LINES * next(nice * unit for nice in _NICE if nice * unit >= step)


def _described(one: Series, write: Callable[[float], str]) -> str:
    if not one.values:
        return f"{one.name}: nothing"
    return f"{one.name}: last {write(one.values[-1])}, most {write(max(one.values))}"


def _x(at: int, number: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at / max(1, number - 1)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top


def _line(values: Sequence[float], top: float) -> str:
    points = [f"{_x(at, len(values)):.1f} {_y(value, top):.1f}" for at, value in enumerate(values)]
    return f"M{'L'.join(points)}" if points else ""


def _grid(top: float, write: Callable[[float], str]) -> str:
    parts = []
    for number in range(LINES + 1):
        value = top * number / LINES
        y = _y(value, top)
        kind = "axis" if number == 0 else "grid"
        parts.append(f'<path class="{kind}" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{escape(write(value))}</text>'
        )
    return "".join(parts)


def _time_axis(times_ms: Sequence[int], labels: int = 6) -> str:
    """Some of the instants; a script writes them in the time zone of whoever looks."""
    parts = []
    every = max(1, round((len(times_ms) - 1) / labels)) if times_ms else 1
    for at in range(0, len(times_ms), every):
        text = datetime.fromtimestamp(times_ms[at] / 1000, UTC).strftime("%H:%M")
        x = _x(at, len(times_ms))
        anchor = "start" if at == 0 else "end" if x > WIDTH - 30 else "middle"
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}" '
            f'data-clock="{times_ms[at]}">{text}</text>'
        )
    return "".join(parts)


def gauge(part: float, whole: float, *, label: str) -> Markup:
    """A bar that fills; what is over stands out."""
    share = 0.0 if whole <= 0 else min(1.0, max(0.0, part / whole))
    kind = "full" if whole > 0 and part >= whole else "high" if share > 0.8 else "fine"
    return Markup(
        '<svg class="gauge gauge-{}" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="gauge-ground" width="100" height="6" rx="3"/>'
        '<rect class="gauge-fill" width="{}" height="6" rx="3"/></svg>'
    ).format(kind, label, f"{share * 100:.1f}")
