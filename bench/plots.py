"""SVG pictures of figures: bar charts, growth lines, and the distance of each row from its floor. No I/O."""

from collections.abc import Mapping, Sequence
from statistics import median

from . import svg
from .figures import Bars, Lines, Picture, Reading, number
from .floors import FLOORS, shown, times_the_floor, verdict

WIDTH = 940.0
MARGIN = 20.0
GAP = 28.0
TOP = 50.0
ROW = 20.0  # height of a bar plus the gap to the next
BARS_TOP = 32.0  # below a panel's title
LINES_HEIGHT = 240.0  # without the names below
LOG_FROM = 150  # ratio of largest to smallest value above which small bars would be indistinguishable
COLOURS = "abcde"
OURS = "windlass"  # prefix of our names, in any case


def drawn(picture: Picture) -> str:
    columns = _columns(picture.panels)
    width = (WIDTH - 2 * MARGIN - (columns - 1) * GAP) / columns
    content: list[str] = []
    y = TOP
    for start in range(0, len(picture.panels), columns):
        line = picture.panels[start : start + columns]
        for at, panel in enumerate(line):
            content += _panel(panel, MARGIN + at * (width + GAP), y, width)
        y += max(_height(panel) for panel in line) + GAP
    return svg.document(WIDTH, y - GAP + MARGIN, picture.title, content)


def _columns(panels: Sequence[Bars | Lines]) -> int:
    """Return the number of columns: at most three, to fit the width of a page."""
    if len(panels) == 1:
        return 1
    return 3 if len(panels) % 3 == 0 else 2


def _height(panel: Bars | Lines) -> float:
    return BARS_TOP + ROW * len(panel.values) if isinstance(panel, Bars) else LINES_HEIGHT + 18 * len(panel.series)


def _panel(panel: Bars | Lines, x: float, y: float, width: float) -> list[str]:
    return _bars(panel, x, y, width) if isinstance(panel, Bars) else _lines(panel, x, y, width)


def _bars(bars: Bars, x: float, y: float, width: float) -> list[str]:
    """Draw a bar chart: the best value on top, ours highlighted."""
    ranked = sorted(bars.values.items(), key=lambda item: item[1], reverse=bars.is_more_better)
    values = [value for value in bars.values.values() if value > 0] or [1.0]
    is_log = max(values) > LOG_FROM * min(values)
    start = x + max(svg.width_of(name, 13) for name in bars.values) + 10
    scale = svg.Scale(min(values) / 3 if is_log else 0, max(values), start, x + width - 56, is_log)
    meant = "more is better" if bars.is_more_better else "less is better"
    content = [
        svg.text(x, y + 4, bars.title, "head"),
        svg.text(x, y + 20, f"{bars.unit}, {meant}{', logarithmic' if is_log else ''}", "soft"),
    ]
    for at, (name, value) in enumerate(ranked):
        content += _bar(name, value, scale, y + BARS_TOP + at * ROW, _is_ours(name, bars))
    return content


def _bar(name: str, value: float, scale: svg.Scale, top: float, is_ours: bool) -> list[str]:
    reach = scale.at(value) - scale.start
    return [
        svg.text(scale.start - 8, top + 11, name, "strong" if is_ours else "", "end"),
        svg.bar(scale.start, top, reach, ROW - 6, f"fill {'a' if is_ours else 'x'}"),
        svg.text(scale.start + max(reach, 1.5) + 6, top + 11, number(value), "strong" if is_ours else "soft"),
    ]


def _is_ours(name: str, bars: Bars) -> bool:
    """Report whether a bar is ours. If no name starts with `OURS`, all but the bare ones are."""
    if any(other.lower().startswith(OURS) for other in bars.values):
        return name.lower().startswith(OURS)
    return "bare" not in name and "no store" not in name


def _lines(lines: Lines, x: float, y: float, width: float) -> list[str]:
    left, right, top, bottom = x + 44, x + width - 10, y + 24, y + LINES_HEIGHT - 44
    values = [value for points in lines.series.values() for _, value in points]
    sizes = [size for points in lines.series.values() for size, _ in points]
    across = svg.Scale(min(sizes), max(sizes) if max(sizes) > min(sizes) else min(sizes) * 10, left, right, is_log=True)
    up = svg.log_scale(values, bottom, top)
    content = [
        svg.text(x, y + 4, lines.title, "head"),
        svg.text(right, y + 4, f"{lines.unit}, both axes log", "soft", "end"),
    ]
    for value in up.ticks():
        content.append(svg.line(left, up.at(value), right, up.at(value)))
        content.append(svg.text(left - 7, up.at(value) + 4, svg.short(value), "soft", "end"))
    content += [svg.text(across.at(size), bottom + 17, svg.short(size), "soft", "middle") for size in across.ticks()]
    content.append(svg.text((left + right) / 2, bottom + 33, lines.across, "soft", "middle"))
    for at, (name, points) in enumerate(lines.series.items()):
        content += _series(lines, at, name, [(across.at(size), up.at(value)) for size, value in points])
        content += _key(lines, at, name, x + 4, y + LINES_HEIGHT + 14 + 18 * at, right)
    return content


def _look(lines: Lines, at: int, name: str) -> str:
    return "x faint" if name in lines.limits else COLOURS[at % len(COLOURS)]


def _series(lines: Lines, at: int, name: str, points: Sequence[tuple[float, float]]) -> list[str]:
    look = _look(lines, at, name)
    dots = [] if name in lines.limits else [svg.circle(px, py, 3, f"fill {look}") for px, py in points]
    return [svg.path(points, f"line {look}"), *dots]


def _key(lines: Lines, at: int, name: str, x: float, y: float, right: float) -> list[str]:
    """Draw the legend of a series: colour, name, and ratio of the last value to the first."""
    points = lines.series[name]
    grown = f"{points[-1][1] / points[0][1]:.2f}×" if points[0][1] else ""
    return [
        svg.path([(x, y - 4), (x + 22, y - 4)], f"line {_look(lines, at, name)}"),
        svg.text(x + 30, y, name),
        svg.text(right, y, grown, "soft", "end"),
    ]


def floors(found: Mapping[str, Reading]) -> str:
    """Draw a row for each floor. Values are multiples of the floor, so that all rows share one axis."""
    rows = [row for row in FLOORS if row in found]
    label, left, right = MARGIN + 300, MARGIN + 312, WIDTH - MARGIN - 110
    scale = svg.Scale(0.1, 10, left, right, is_log=True)
    bottom = TOP + 34 + 24 * len(rows)
    content = [svg.text(scale.at(1), TOP + 4, "floor", "soft", "middle")]
    for value in (0.1, 0.2, 0.5, 2, 5, 10):
        content.append(svg.line(scale.at(value), TOP + 12, scale.at(value), bottom - 10))
        content.append(svg.text(scale.at(value), TOP + 4, f"{value:g}×", "soft", "middle"))
    content.append(svg.line(scale.at(1), TOP + 12, scale.at(1), bottom - 10, "mark"))
    for at, row in enumerate(rows):
        content += _floor(row, found[row], scale, TOP + 30 + at * 24, label, right)
    content += _legend(MARGIN + 312, bottom + 12)
    return svg.document(WIDTH, bottom + 32, "Distance from the floors: further right is better", content)


def _floor(row: str, reading: Reading, scale: svg.Scale, y: float, label: float, right: float) -> list[str]:
    floor = FLOORS[row]
    value = median(reading.values)
    look = {"goal": "good", "floor": "fair"}.get(verdict(floor, reading.values), "bad")
    reach, zero = scale.at(times_the_floor(floor, value)), scale.at(1)
    goal = scale.at(times_the_floor(floor, floor.goal))
    return [
        svg.text(label, y + 4, floor.title.replace("`", ""), "", "end"),
        svg.bar(min(reach, zero), y - 5, abs(reach - zero), 10, f"fill {look}"),
        svg.circle(reach, y, 5.5, f"fill {look}"),
        svg.line(goal, y - 9, goal, y + 9, "mark"),
        svg.text(right + 14, y + 4, shown(value, floor.unit), "strong"),
    ]


def _legend(x: float, y: float) -> list[str]:
    content = []
    for look, said in (("good", "goal reached"), ("fair", "floor held"), ("bad", "missed")):
        content += [svg.circle(x, y - 4, 5.5, f"fill {look}"), svg.text(x + 11, y, said, "soft")]
        x += 30 + svg.width_of(said, 11)
    return [*content, svg.line(x, y - 11, x, y + 3, "mark"), svg.text(x + 8, y, "goal", "soft")]
