"""SVG elements and axes for the pictures, as text. No I/O."""

import math
from collections.abc import Iterable
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

LETTER = 0.56  # average width of a letter, as a share of the font size: fonts cannot be measured here
STYLE = """
text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--text) }
.title { font-size: 15px; font-weight: 600 }
.head { font-size: 12.5px; font-weight: 600 }
.soft { fill: var(--soft); font-size: 11px }
.strong { font-weight: 600 }
.card { fill: var(--card); stroke: var(--edge) }
.grid { stroke: var(--edge); stroke-width: 1 }
.mark { stroke: var(--text); stroke-width: 1.5 }
.a { --c: var(--ours) } .b { --c: #d97a1d } .c { --c: #4a7fe0 } .d { --c: #a464c8 } .e { --c: #c8527a }
.x { --c: var(--others) } .good { --c: #2f9e5f } .fair { --c: #d99a1d } .bad { --c: #d64550 }
.fill { fill: var(--c) } .line { fill: none; stroke: var(--c); stroke-width: 2.2; stroke-linejoin: round }
.faint { stroke: var(--soft); stroke-dasharray: 3 4; stroke-width: 1.6 }
svg { --text: #1d2630; --soft: #5c6875; --card: #ffffff; --edge: #e1e5ea; --ours: #0e8f78; --others: #b4bec9 }
@media (prefers-color-scheme: dark) {
  svg { --text: #e6eaee; --soft: #9aa6b2; --card: #151b22; --edge: #2b343e; --ours: #35c9a8; --others: #566472 }
}
"""


class Scale(NamedTuple):
    """Mapping from values to positions on an axis."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        return decades(self.low, self.high) if self.is_log else steps(self.high)


def decades(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    found = [10.0**power for power in range(first, last + 1)]
    return [value for value in found if low * 0.999 <= value <= high * 1.001]


def steps(high: float, about: int = 4) -> list[float]:
    """Return round steps from 0: 1, 2 or 5 times a power of ten."""
    rough = high / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [step * number for number in range(int(high / step + 1e-9) + 1)]


def log_scale(values: Iterable[float], start: float, end: float) -> Scale:
    """Return a scale of whole decades around all positive values."""
    known = [value for value in values if value > 0] or [1.0]
    low = 10.0 ** math.floor(math.log10(min(known)))
    high = 10.0 ** math.ceil(math.log10(max(known)))
    return Scale(low, high if high > low else low * 10, start, end, is_log=True)


def short(value: float) -> str:
    """Format a value for an axis."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def width_of(text: str, size: float = 12) -> float:
    return len(text) * LETTER * size


def element(name: str, content: str = "", **attributes: object) -> str:
    said = " ".join(
        f"{key.rstrip('_').replace('_', '-')}={quoteattr(_said(value))}" for key, value in attributes.items()
    )
    return f"<{name} {said}>{content}</{name}>" if content else f"<{name} {said}/>"


def _said(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def text(x: float, y: float, content: str, class_: str = "", anchor: str = "start") -> str:
    return element("text", escape(content) or " ", x=float(x), y=float(y), class_=class_, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str = "grid") -> str:
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def bar(x: float, y: float, width: float, height: float, class_: str) -> str:
    return element(
        "rect", x=float(x), y=float(y), width=float(max(width, 1.5)), height=float(height), rx=2, class_=class_
    )


def circle(x: float, y: float, radius: float, class_: str) -> str:
    return element("circle", cx=float(x), cy=float(y), r=radius, class_=class_)


def path(points: Iterable[tuple[float, float]], class_: str) -> str:
    return element("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), class_=class_)


def document(width: float, height: float, title: str, content: Iterable[str]) -> str:
    """Make a document on its own card, so that it is readable on any page background."""
    body = [
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        element("rect", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=8, class_="card"),
        text(20, 30, title, "title"),
        *content,
    ]
    box = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img">'
    return "\n".join([head, *body, "</svg>", ""])
