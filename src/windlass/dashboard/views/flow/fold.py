"""Graph of a flow with few enough boxes to read: steps that look alike are folded into one box.

Three folds, each only where it is needed: long chains of steps in the same state; layers with very many steps; and
layers in the middle of a very deep graph. Failed and running steps stay visible as long as there is room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from windlass.core.flow import FlowStep

from .layered_layout import Edge, assign_layers
from .steps import IMPORTANCE, kind_of

ALL_SHOWN_MAX = 24  # steps of a flow that is never folded
CHAIN_MIN = 4  # steps of a chain that are worth a fold
FOLDED_CHAINS = frozenset({"finished", "waiting", "consequence"})
LAYER_MAX = 14  # boxes of a layer without folds
LAYER_SHOWN = 11  # boxes of a layer beside its folds
OF_A_KIND = 3  # boxes that a kind may show before the next kind's turn
LAYERS_MAX = 48
ENDS_SHOWN = 10  # layers at the begin and at the end of a deep graph
IMPORTANT_SHOWN = 10  # layers of a deep graph with important steps
IMPORTANT = IMPORTANCE["cancelled"]


class FlowGraph(msgspec.Struct, frozen=True):
    """Boxes, each with its steps, and the edges between them. A box with several steps is a fold."""

    boxes: list[list[FlowStep]]
    edges: list[Edge]

    @property
    def is_folded(self) -> bool:
        return any(len(box) > 1 for box in self.boxes)


def show_all(steps: Sequence[FlowStep]) -> FlowGraph:
    """Return the graph with a box for each step."""
    return FlowGraph([[step] for step in steps], _edges(steps))


def fold(steps: Sequence[FlowStep]) -> FlowGraph:
    """Return the graph with alike steps folded."""
    edges = _edges(steps)
    if len(steps) <= ALL_SHOWN_MAX:
        return FlowGraph([[step] for step in steps], edges)
    folding = _Folding(steps, edges)
    folding.merge(list(folding.chains()))
    folding.merge(list(folding.wide_layers()))
    folding.merge(list(folding.middle_layers()))
    return FlowGraph([[steps[at] for at in box] for box in folding.boxes], folding.edges)


def _edges(steps: Sequence[FlowStep]) -> list[Edge]:
    """Return the edges as pairs of places in the list. A step comes after the steps that it waits for."""
    places = {step.job_id: at for at, step in enumerate(steps)}
    return sorted(
        {
            (before, at)
            for at, step in enumerate(steps)
            for job_id in step.after
            if (before := places.get(job_id, at)) < at
        }
    )


class _Folding:
    """Boxes as lists of places in the list of steps, and the edges between boxes."""

    def __init__(self, steps: Sequence[FlowStep], edges: Sequence[Edge]) -> None:
        self.boxes = [[at] for at in range(len(steps))]
        self.edges = list(edges)
        self._kinds = [kind_of(step) for step in steps]
        self._ranks = [float(IMPORTANCE[kind]) for kind in self._kinds]
        for source, target in edges:  # neighbours of important steps are shown before others of their kind
            near = min(IMPORTANCE[self._kinds[source]], IMPORTANCE[self._kinds[target]]) / 100 - 0.5
            for at in (source, target):
                self._ranks[at] = min(self._ranks[at], IMPORTANCE[self._kinds[at]] + near)

    def merge(self, groups: Sequence[Sequence[int]]) -> None:
        """Merge each group of boxes into one, and put these last, so that they come last in their layers."""
        if not groups:
            return
        merged = {box for group in groups for box in group}
        parts = [[box] for box in range(len(self.boxes)) if box not in merged] + [list(group) for group in groups]
        new = {box: at for at, part in enumerate(parts) for box in part}
        self.edges = sorted({(new[source], new[target]) for source, target in self.edges if new[source] != new[target]})
        self.boxes = [[at for box in part for at in self.boxes[box]] for part in parts]

    def chains(self) -> Iterator[list[int]]:
        """Yield the inner boxes of long chains of steps of one kind. Their first and last step stay."""
        followers, predecessors = Counter(s for s, _ in self.edges), Counter(t for _, t in self.edges)
        next_of = {
            source: target
            for source, target in self.edges
            if followers[source] == 1 == predecessors[target]
            and self._kinds[source] == self._kinds[target]
            and self._kinds[source] in FOLDED_CHAINS
        }
        for start in sorted(next_of.keys() - set(next_of.values())):
            chain = [start]
            while chain[-1] in next_of:
                chain.append(next_of[chain[-1]])
            if len(chain) - 2 >= CHAIN_MIN:
                yield chain[1:-1]

    def wide_layers(self) -> Iterator[list[int]]:
        """Yield boxes of wide layers, by kind. Some of each kind stay, more of the important ones."""
        for row in self._rows():
            if len(row) > LAYER_MAX:
                by_kind: dict[str, list[int]] = {}
                for box in sorted(row, key=self._rank):
                    by_kind.setdefault(self._kinds[self.boxes[box][0]], []).append(box)
                turns = sorted(
                    ((at // OF_A_KIND, IMPORTANCE[kind], at), box)
                    for kind, boxes in by_kind.items()
                    for at, box in enumerate(boxes)
                )
                shown = {box for _, box in turns[:LAYER_SHOWN]}
                rests = ([box for box in boxes if box not in shown] for boxes in by_kind.values())
                yield from (rest for rest in rests if len(rest) > 1)

    def middle_layers(self) -> Iterator[list[int]]:
        """Yield the boxes of consecutive layers in the middle of a deep graph, except of important layers."""
        rows = self._rows()
        if len(rows) <= LAYERS_MAX:
            return
        middle = range(ENDS_SHOWN, len(rows) - ENDS_SHOWN)
        important = [at for at in middle if min(map(self._rank, rows[at])) <= IMPORTANT][:IMPORTANT_SHOWN]
        group: list[int] = []
        for at in (*middle, -1):
            if at in important or at == -1:
                if len(group) > 1:
                    yield group
                group = []
            else:
                group += rows[at]

    def _rows(self) -> list[list[int]]:
        layers = assign_layers(len(self.boxes), self.edges)
        rows: list[list[int]] = [[] for _ in range(max(layers, default=-1) + 1)]
        for box, layer in enumerate(layers):
            rows[layer].append(box)
        return rows

    def _rank(self, box: int) -> float:
        return min(self._ranks[at] for at in self.boxes[box])
