"""Charts as SVG, without inline scripts and styles: the stylesheet colours lines and areas by class.

Each chart has a text description, and carries its numbers for the script that shows them as a tooltip."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from markupsafe import Markup, escape

from windlass.core.text.control_characters import escape_control

from .formats import short, span

SPARK_HEIGHT = 28
WIDTH, HEIGHT = 560, 196
LEFT, RIGHT, TOP, BOTTOM = 46, 6, 10, 24
FOOT = HEIGHT - BOTTOM
LINES = 4  # grid lines above the time axis
LABELS = 6  # of the time axis
GAP_MAX = 10  # steps without a value that a line spans
_NICE = (1, 2, 2.5, 5, 10)
_SPANS_MS = (1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 360_000_000, 3_600_000_000)


class Series(NamedTuple):
    """Values of one line. `kind` is a class of the stylesheet: enqueued, finished, failed, wait, run. None: no value
    for this step."""

    name: str
    kind: str
    values: Sequence[float | None]
    is_faint: bool = False


class Scale(NamedTuple):
    """Scale of the value axis: its ticks, and the mapping from a value to its height."""

    ticks: Sequence[float]
    position: Callable[[float], float]  # 0 at the bottom, 1 at the top
    format: Callable[[float], str]

    def y(self, value: float) -> float:
        return FOOT - (FOOT - TOP) * min(1.0, max(0.0, self.position(value)))


# Small charts


def sparkline(values: Sequence[float], failed: Sequence[float] = (), *, label: str) -> Markup:
    """Draw a step chart of the values, oldest first, with the failures in front."""
    top = max([*values, *failed, 1])
    paths = "".join(
        f'<path class="spark-{kind}" d="{_step_path(steps, top)}"/>'
        for kind, steps in (("good", values), ("bad", failed))
        if any(steps)
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        '<path class="spark-ground" d="M0 {height}H{width}"/>{paths}</svg>'
    ).format(width=max(1, len(values)) * 2, height=SPARK_HEIGHT, label=escape_control(label), paths=Markup(paths))  # noqa: S704 (numbers)


def _step_path(values: Sequence[float], top: float) -> str:
    """Build the path. Values above 0 are at least 2 units high, so that they are visible."""
    parts, height = [f"M0 {SPARK_HEIGHT}"], 0
    for value in values:
        wanted = max(2, round(value / top * (SPARK_HEIGHT - 2))) if value > 0 else 0
        if wanted != height:
            parts.append(f"v{height - wanted}")
        height = wanted
        parts.append("h2")
    return "".join(parts) + f"V{SPARK_HEIGHT}z"


def gauge(part: float, whole: float, *, label: str) -> Markup:
    """Draw a horizontal bar; the class marks a full bar."""
    share = 0.0 if whole <= 0 else min(1.0, max(0.01 if part > 0 else 0.0, part / whole))  # small values stay visible
    kind = "full" if whole > 0 and part >= whole else "high" if share > 0.8 else "fine"
    return Markup(
        '<svg class="gauge gauge-{}" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="gauge-ground" width="100" height="6"/>'
        '<rect class="gauge-fill" width="{}" height="6"/></svg>'
    ).format(kind, escape_control(label), f"{share * 100:.1f}")


# Time series


def time_series(
    series: Sequence[Series], times_ms: Sequence[int], *, title: str, are_durations: bool = False, areas: bool = True
) -> Markup:
    """Draw lines over time, with axes. The last step is incomplete and gets a class of its own. With `are_durations`,
    values are milliseconds on a logarithmic scale."""
    known = [value for line in series for value in line.values if value is not None]
    scale = _duration_scale(known) if are_durations else _linear_scale(known)
    body = [_draw_grid(scale), _draw_time_axis(times_ms)]
    for line in series:
        body += _draw_series(line, scale, areas and not line.is_faint)
    description = "; ".join(_describe(line, scale) for line in series)
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}" data-chart="{}"><desc>{}</desc>{}</svg>'
    ).format(
        WIDTH,
        HEIGHT,
        f"{title}. {description}",
        _encode_data(series, times_ms, are_durations),
        description,
        Markup("".join(body)),  # noqa: S704 (numbers and escaped texts)
    )


def nice_top(most: float) -> float:
    """Return a round number at or above `most` that LINES divides evenly."""
    if most <= LINES:
        return float(LINES)
    step = most / LINES
    unit = 10.0 ** math.floor(math.log10(step))
    return LINES * next(nice * unit for nice in _NICE if nice * unit >= step)


def _linear_scale(known: Sequence[float]) -> Scale:
    top = nice_top(max(known, default=0))
    return Scale([top * number / LINES for number in range(LINES + 1)], lambda value: value / top, short)


def _duration_scale(known: Sequence[float]) -> Scale:
    lowest = max((at for at, tick in enumerate(_SPANS_MS) if tick <= max(1, min(known, default=1))), default=0)
    most = max(known, default=1)
    highest = next((at for at, tick in enumerate(_SPANS_MS) if tick >= most), len(_SPANS_MS) - 1)
    ticks = _SPANS_MS[lowest : max(highest, lowest + 2) + 1]
    if len(ticks) > LABELS:
        ticks = (*ticks[:-1:2], ticks[-1])
    low, high = math.log(ticks[0]), math.log(ticks[-1])
    return Scale(ticks, lambda value: (math.log(max(value, ticks[0])) - low) / (high - low), span)


def _describe(line: Series, scale: Scale) -> str:
    known = [value for value in line.values if value is not None]
    if not known:
        return f"{line.name}: no values"
    return f"{line.name}: last {scale.format(known[-1])}, maximum {scale.format(max(known))}"


def _encode_data(series: Sequence[Series], times_ms: Sequence[int], are_durations: bool) -> str:
    data = {
        "times": times_ms,
        "unit": "ms" if are_durations else "",
        "left": LEFT / WIDTH,
        "right": 1 - RIGHT / WIDTH,
        "series": [{"name": line.name, "kind": line.kind, "values": line.values} for line in series],
    }
    return msgspec.json.encode(data).decode()


def _x(at: int, number: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at / max(1, number - 1)


def _draw_series(line: Series, scale: Scale, has_area: bool) -> list[str]:
    last = len(line.values) - 1
    parts = []
    kind = f"line line-{line.kind}{' is-faint' if line.is_faint else ''}"
    for segment in _segments(line.values):
        points = [f"{_x(at, len(line.values)):.1f} {scale.y(line.values[at] or 0):.1f}" for at in segment]
        if has_area:
            ends = f"V{FOOT}H{_x(segment[0], len(line.values)):.1f}Z"
            parts.append(f'<path class="area area-{line.kind}" d="M{"L".join(points)}{ends}"/>')
        if segment[-1] == last and len(segment) > 1:
            parts.append(f'<path class="{kind} is-open" d="M{"L".join(points[-2:])}"/>')
            points = points[:-1]
        dot = "" if len(points) > 1 else " is-dot"
        parts.append(f'<path class="{kind}{dot}" d="M{"L".join(points)}h.01"/>')
    return parts


def _segments(values: Sequence[float | None]) -> list[list[int]]:
    """Group the indexes of known values. Gaps of up to GAP_MAX steps stay within a segment, so that a quiet queue still
    gets a line."""
    segments: list[list[int]] = []
    for at, value in enumerate(values):
        if value is None:
            continue
        if segments and at - segments[-1][-1] <= GAP_MAX:
            segments[-1].append(at)
        else:
            segments.append([at])
    return segments


def _draw_grid(scale: Scale) -> str:
    parts = []
    for number, tick in enumerate(scale.ticks):
        y = scale.y(tick)
        parts.append(f'<path class="{"grid-line" if number else "axis"}" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        text = escape(scale.format(tick))
        parts.append(f'<text class="tick" x="{LEFT - 7}" y="{y + 3.5:.1f}" text-anchor="end">{text}</text>')
    return "".join(parts)


def _draw_time_axis(times_ms: Sequence[int]) -> str:
    """Label round instants. A script rewrites them in the viewer's time zone."""
    parts = []
    if len(times_ms) > 1:
        step_ms = times_ms[1] - times_ms[0]
        every_ms = _tick_interval_ms((times_ms[-1] - times_ms[0]) / LABELS, step_ms)
        for at, at_ms in enumerate(times_ms):
            x = _x(at, len(times_ms))
            if at_ms % every_ms == 0 and LEFT + 8 < x < WIDTH - 18:
                text = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M")
                position = f'x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="middle"'
                parts.append(f'<text class="tick" {position} data-clock="{at_ms}">{text}</text>')
    return "".join(parts)


_ROUND_MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720)


def _tick_interval_ms(wanted_ms: float, step_ms: int) -> int:
    for minutes in _ROUND_MINUTES:
        if minutes * 60_000 >= wanted_ms and minutes * 60_000 % step_ms == 0:
            return minutes * 60_000
    return 86_400_000
