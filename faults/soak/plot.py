"""SVG picture of a soak run: latency, throughput, memory, descriptors, connections and tasks over time. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench import svg

from .run import WINDOWS, Curve, Soak

WIDTH, MARGIN, GAP, TOP = 940.0, 20.0, 28.0, 56.0
PANEL_WIDTH = (WIDTH - 2 * MARGIN - GAP) / 2
PLOT_HEIGHT, AXIS_LEFT, AXIS_BOTTOM, KEY_ROW = 190.0, 46.0, 20.0, 18.0
MIB = 2**20
ROLES = {"engine": "b", "server-api": "a", "server-loops": "c"}  # process -> colour
OTHERS = "x"
Points = list[tuple[float, float]]


class Series(NamedTuple):
    name: str  # empty: it has no entry of its own in the legend
    look: str
    points: Points  # seconds, value


class Panel(NamedTuple):
    title: str
    unit: str
    series: Sequence[Series]
    is_log: bool = False


def draw_soak(soak: Soak) -> str:
    panels = [panel for panel in make_panels(soak) if any(series.points for series in panel.series)]
    content: list[str] = []
    y = TOP
    for start in range(0, len(panels), 2):
        row = panels[start : start + 2]
        for at, panel in enumerate(row):
            content += _draw_panel(panel, soak.seconds, MARGIN + at * (PANEL_WIDTH + GAP), y)
        y += max(_height(panel) for panel in row) + GAP
    title = f"Soak run: {soak.seconds / 60:.0f} minutes of load, {soak.acknowledged:,} jobs"
    return svg.document(WIDTH, y, title, content)


def make_panels(soak: Soak) -> list[Panel]:
    windows, width_s = soak.latency, soak.seconds / WINDOWS
    latency = [
        Series("p50", "a", [(window.at_s, window.p50_ms) for window in windows]),
        Series("p95", "b", [(window.at_s, window.p95_ms) for window in windows]),
        Series("p99", "e", [(window.at_s, window.p99_ms) for window in windows]),
    ]
    rate = Series("jobs of the measured queue", "a", [(window.at_s, window.jobs / width_s) for window in windows])
    return [
        Panel("Enqueue to end", "milliseconds, logarithmic", latency, is_log=True),
        Panel("Measured jobs", "per second", [rate]),
        Panel("Memory of each process", "MiB", _curves(soak, "memory", _mebibytes)),
        Panel("Memory that the engine uses for data", "MiB", _curves(soak, "used_memory", _mebibytes)),
        Panel("Open descriptors of each process", "count", _curves(soak, "descriptors", float)),
        Panel("Connections of the engine, tasks of the others", "count", _connections_and_tasks(soak)),
    ]


def _connections_and_tasks(soak: Soak) -> list[Series]:
    connections = [series._replace(name="engine: connections") for series in _curves(soak, "connections", float)]
    tasks = [series._replace(name=series.name and f"{series.name}: tasks") for series in _curves(soak, "tasks", float)]
    return connections + tasks


def _curves(soak: Soak, what: str, convert: Callable[[float], float]) -> list[Series]:
    """Return the curves of a figure: servers and the engine by name, all clients in one colour, with one name."""
    series, has_others = list[Series](), False
    for curve in soak.curves:
        if curve.what != what:
            continue
        look = ROLES.get(curve.who, OTHERS)
        name = curve.who if look != OTHERS else "" if has_others else "workers"
        has_others = has_others or look == OTHERS
        series.append(Series(name, look, _points(soak, curve, convert)))
    return sorted(series, key=lambda drawn: drawn.look == OTHERS)


def _points(soak: Soak, curve: Curve, convert: Callable[[float], float]) -> Points:
    return [
        (at_s, convert(value))
        for at_s, value in zip(soak.sampled_at_s, curve.values, strict=True)
        if value is not None
    ]  # fmt: skip


def _mebibytes(size: float) -> float:
    return size / MIB


def _height(panel: Panel) -> float:
    return PLOT_HEIGHT + 34 + KEY_ROW * sum(bool(series.name) for series in panel.series)


def _draw_panel(panel: Panel, seconds: float, x: float, y: float) -> list[str]:
    left, right, top, bottom = x + AXIS_LEFT, x + PANEL_WIDTH - 10, y + 18, y + PLOT_HEIGHT - AXIS_BOTTOM
    values = [value for series in panel.series for _, value in series.points]
    up = svg.log_scale(values, bottom, top) if panel.is_log else svg.Scale(0, max(*values, 1) * 1.1, bottom, top)
    across = svg.Scale(0, seconds / 60, left, right)
    content = [svg.text(x, y + 4, panel.title, "head"), svg.text(right, y + 4, panel.unit, "soft", "end")]
    for value in up.ticks():
        content.append(svg.line(left, up.at(value), right, up.at(value)))
        content.append(svg.text(left - 7, up.at(value) + 4, svg.short(value), "soft", "end"))
    content += [svg.text(across.at(at), bottom + 15, svg.short(at), "soft", "middle") for at in across.ticks()]
    content.append(svg.text((left + right) / 2, bottom + 31, "minutes", "soft", "middle"))
    for series in panel.series:
        points = [(across.at(at_s / 60), up.at(value)) for at_s, value in series.points]
        content += [svg.path(points, f"line {series.look}")] if points else []
    named = [series for series in panel.series if series.name]
    for at, series in enumerate(named):
        content += _draw_key(series, x + 4, y + PLOT_HEIGHT + 30 + KEY_ROW * at, right)
    return content


def _draw_key(series: Series, x: float, y: float, right: float) -> list[str]:
    """Draw the colour, the name and the last value of a curve."""
    last = svg.short(series.points[-1][1]) if series.points else ""
    return [
        svg.path([(x, y - 4), (x + 22, y - 4)], f"line {series.look}"),
        svg.text(x + 30, y, series.name),
        svg.text(right, y, f"last: {last}", "soft", "end"),
    ]
