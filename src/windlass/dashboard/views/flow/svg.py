"""Graph of a flow as SVG: a box for each step or fold, with the icon, the word and the colour of its state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup, escape

from windlass.core.flow import FlowStep
from windlass.core.flow.graph import find_causes
from windlass.core.ids import format_id
from windlass.core.text.control_characters import escape_control
from windlass.core.text.humanize import pluralize, shorten
from windlass.dashboard.views.formats import count, span
from windlass.dashboard.views.icons import outline

from .fold import FlowGraph
from .layered_layout import BOX_HEIGHT, BOX_WIDTH, GAP_X, Edge, Layout, Point, lay_out
from .steps import IMPORTANCE, icon_of, kind_of, ran_ms, what_happened, word_of

LABEL_MAX, NOTE_MAX = 19, 23  # characters in a box; wider characters are clipped
TITLE_MAX = 400  # characters
_ICON, _TEXT_X, _LABEL_Y, _NOTE_Y = 'transform="translate(8 13) scale(.875)"', 29, 17, 32
_CLIP = (
    f'<clipPath id="box-text"><rect x="{_TEXT_X}" y="2" width="{BOX_WIDTH - _TEXT_X - 6}" height="{BOX_HEIGHT - 4}"/>'
    "</clipPath>"
)


def render_graph(
    graph: FlowGraph, steps: Sequence[FlowStep], now_ms: int, job_link: Callable[[str], str], unfolded_link: str
) -> Markup:
    """Draw the graph. `steps` are all steps of the flow, `job_link` builds the address of a job's page, and
    `unfolded_link` leads to the graph without folds."""
    layout = lay_out(len(graph.boxes), graph.edges)
    boxes = _Boxes(find_causes(steps), now_ms, job_link, unfolded_link)
    drawn = [boxes.render(box, corner) for box, corner in zip(graph.boxes, layout.corners, strict=True)]
    layers = max(layout.layers, default=-1) + 1
    label = f"Graph of {pluralize(len(steps), 'step')} in {pluralize(layers, 'layer')}, from left to right"
    return Markup(
        '<svg class="flow-graph" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="group" '
        'aria-label="{label}">{clip}{edges}{boxes}</svg>'
    ).format(
        width=f"{layout.width:.0f}",
        height=f"{layout.height:.0f}",
        label=label,
        clip=Markup(_CLIP),  # noqa: S704 (numbers)
        edges=Markup(_draw_edges(graph, layout)),  # noqa: S704 (numbers)
        boxes=Markup("".join(drawn)),  # noqa: S704 (numbers and escaped texts)
    )


# Edges


def _draw_edges(graph: FlowGraph, layout: Layout) -> str:
    """Draw the edges of each kind as one path, which keeps a page with thousands of them small."""
    kinds = [_most_important(box) for box in graph.boxes]
    paths: dict[str, list[str]] = {}
    for edge in graph.edges:
        paths.setdefault(_edge_kind(kinds, edge), []).append(_curve(edge, layout))
    heads: dict[int, str] = {}
    for edge in graph.edges:
        heads.setdefault(edge[1], _arrow_head(layout.corners[edge[1]]))
    lines = "".join(f'<path class="edge edge-{kind}" d="{"".join(parts)}"/>' for kind, parts in sorted(paths.items()))
    return lines + (f'<path class="edge-head" d="{"".join(heads.values())}"/>' if heads else "")


def _edge_kind(kinds: Sequence[str], edge: Edge) -> str:
    source, target = kinds[edge[0]], kinds[edge[1]]
    if target == "consequence":
        return "blocked"
    return "done" if source == "finished" else "open"


def _curve(edge: Edge, layout: Layout) -> str:
    source, target = edge
    x, y = layout.corners[source]
    x, y = x + BOX_WIDTH, y + BOX_HEIGHT / 2
    end_x, end_y = layout.corners[target]
    parts = [f"M{x:.0f} {y:.1f}"]
    for middle_x, middle_y in (*layout.bends.get(edge, ()), (end_x + BOX_WIDTH / 2, end_y + BOX_HEIGHT / 2)):
        left = middle_x - BOX_WIDTH / 2
        bow = GAP_X / 2 if left - x <= GAP_X else (left - x) / 2
        parts.append(f"C{x + bow:.0f} {y:.1f} {left - bow:.0f} {middle_y:.1f} {left:.0f} {middle_y:.1f}")
        x, y = left + BOX_WIDTH, middle_y
        parts.append(f"H{x:.0f}")
    return "".join(parts[:-1])  # without the line through the target


def _arrow_head(corner: Point) -> str:
    x, y = corner[0], corner[1] + BOX_HEIGHT / 2
    return f"M{x:.0f} {y:.1f}l-6-3.5v7z"


# Boxes


def _most_important(box: Sequence[FlowStep]) -> str:
    return min((kind_of(step) for step in box), key=IMPORTANCE.__getitem__)


class _Boxes:
    def __init__(
        self, causes: Mapping[bytes, FlowStep], now_ms: int, job_link: Callable[[str], str], unfolded_link: str
    ) -> None:
        self._causes = causes
        self._now_ms = now_ms
        self._job_link = job_link
        self._unfolded_link = unfolded_link

    def render(self, box: Sequence[FlowStep], corner: Point) -> str:
        return self._fold(box, corner) if len(box) > 1 else self._step(box[0], corner)

    def _step(self, step: FlowStep, corner: Point) -> str:
        kind = kind_of(step)
        note, title = self._note(step, kind), self._title(step, kind)
        kinds = f"{kind}{' is-cause' if step.is_cause else ''}{' is-join' if step.joins else ''}"
        key = format_id(step.job_id)
        return _box(
            kinds, icon_of(kind), step.label, note, title, self._job_link(key) if step.is_kept else "", key, corner
        )

    def _note(self, step: FlowStep, kind: str) -> str:
        cause = self._causes.get(step.job_id)
        if cause is not None:
            return f"because of {cause.label}"
        word = word_of(kind)
        if kind == "running" and step.progress:
            word = f"{word} {step.progress:.0%}"
        duration_ms = None if step.joins else ran_ms(step, self._now_ms)
        return word if duration_ms is None else f"{word} · {span(duration_ms)}"

    def _title(self, step: FlowStep, kind: str) -> str:
        cause = self._causes.get(step.job_id)
        because = "" if cause is None else f", because {cause.label} {what_happened(cause)}"
        duration_ms = ran_ms(step, self._now_ms)
        took = "" if duration_ms is None else f", {span(duration_ms)}"
        attempt = f", attempt {step.attempt}" if step.attempt > 1 else ""
        task = f" ({step.name} in {step.queue})" if step.step and step.name != step.step else f" in {step.queue}"
        return f"{step.label}{task}: {word_of(kind)}{because}{took}{attempt}"

    def _fold(self, box: Sequence[FlowStep], corner: Point) -> str:
        kinds = sorted(Counter(map(kind_of, box)).items(), key=lambda item: IMPORTANCE[item[0]])
        kind = kinds[0][0]
        counts = ", ".join(f"{count(number)} {word_of(found)}" for found, number in kinds)
        label = f"+ {count(len(box))} more"
        note = counts if len(kinds) > 1 else word_of(kind)
        title = f"{count(len(box))} more steps: {counts}. Show all steps"
        key = f"fold-{format_id(box[0].job_id)}"
        return _box(f"{kind} is-fold", icon_of(kind), label, note, title, self._unfolded_link, key, corner)


def _box(kinds: str, icon: str, label: str, note: str, title: str, link: str, key: str, corner: Point) -> str:
    x, y = corner
    behind = f'<rect class="box-behind" x="5" y="5" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="7"/>'
    inside = (
        f"<title>{_text(title)}</title>{behind if 'is-fold' in kinds else ''}"
        f'<rect class="box-shape" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="7"/>'
        f'<path class="box-icon" {_ICON} d="{outline(icon)}"/><g clip-path="url(#box-text)">'
        f'<text class="box-label" x="{_TEXT_X}" y="{_LABEL_Y}">{_text(shorten(label, LABEL_MAX))}</text>'
        f'<text class="box-note" x="{_TEXT_X}" y="{_NOTE_Y}">{_text(shorten(note, NOTE_MAX))}</text></g>'
    )
    place = f'class="box box-{kinds}" data-key="{key}" transform="translate({x:.0f} {y:.1f})"'
    if link:
        return f'<a {place} href="{escape(link)}" aria-label="{_text(title)}">{inside}</a>'
    return f'<g {place} role="img" aria-label="{_text(title)}">{inside}</g>'


def _text(text: str) -> str:
    return str(escape(escape_control(text[:TITLE_MAX])))
