"""Layout of a graph in layers, from left to right. Pure geometry: it knows boxes and edges, not jobs.

Layers come from the longest path. A few barycenter sweeps order the boxes of each layer, and a few more move them
towards their neighbours. Every loop is bounded by the number of boxes, edges and bend points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

BOX_WIDTH, BOX_HEIGHT = 168, 40
GAP_X, GAP_Y = 46, 12
MARGIN = 4  # for lines and the focus ring around a box
SWEEPS = 4  # of the order, and of the places
BENDS_MAX = 3_000  # bend points of long edges; with more of them, edges are drawn as single curves

Edge: TypeAlias = tuple[int, int]
Point: TypeAlias = tuple[float, float]


class Layout(NamedTuple):
    """Places of boxes and edges, in pixels."""

    layers: list[int]  # of each box
    corners: list[Point]  # upper left corner of each box
    bends: dict[Edge, list[Point]]  # bend points of long edges: the middle of each layer that an edge crosses
    width: float
    height: float


def lay_out(count: int, edges: Sequence[Edge]) -> Layout:
    """Place `count` boxes. The edges must not form a cycle."""
    layers = assign_layers(count, edges)
    items = _Items(layers, edges)
    rows = items.rows()
    _order(rows, items)
    centers = _place(rows, items)
    top = min((centers[box] - BOX_HEIGHT / 2 for box in range(count)), default=0.0)
    top = min([top, *(centers[bend] for bend in range(count, len(centers)))])
    places = [y - top + MARGIN for y in centers]
    corners = [(_x(layers[box]), places[box] - BOX_HEIGHT / 2) for box in range(count)]
    bends = {
        edge: [(_x(items.layers[bend]) + BOX_WIDTH / 2, places[bend]) for bend in chain]
        for edge, chain in items.bends.items()
    }
    lowest = max([BOX_HEIGHT + MARGIN, *(y + BOX_HEIGHT for _, y in corners), *places])
    return Layout(layers, corners, bends, _x(max(layers, default=0)) + BOX_WIDTH + MARGIN, lowest + MARGIN)


def assign_layers(count: int, edges: Sequence[Edge]) -> list[int]:
    """Return the layer of each box: the length of the longest path that leads to it."""
    targets: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for source, target in edges:
        targets[source].append(target)
        missing[target] += 1
    layers = [0] * count
    ready = [box for box in range(count) if not missing[box]]
    for box in ready:  # it grows
        for target in targets[box]:
            layers[target] = max(layers[target], layers[box] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    if len(ready) < count:
        raise ValueError("the edges form a cycle")
    return layers


def _x(layer: int) -> float:
    return MARGIN + layer * (BOX_WIDTH + GAP_X)


class _Items:
    """Boxes, and the bend points of long edges, which take part in the order of a layer. Edges of one source share
    their bend points."""

    def __init__(self, box_layers: Sequence[int], edges: Sequence[Edge]) -> None:
        self.boxes = len(box_layers)
        self.layers = list(box_layers)
        self.bends: dict[Edge, list[int]] = {}
        self.before: list[list[int]] = [[] for _ in box_layers]
        self.after: list[list[int]] = [[] for _ in box_layers]
        crossed = sum(box_layers[target] - box_layers[source] - 1 for source, target in edges)
        if crossed <= BENDS_MAX:
            self._add_bends(edges)
        links = {link for source, target in edges for link in pairwise((source, *self.chain((source, target)), target))}
        for source, target in sorted(links):
            self.after[source].append(target)
            self.before[target].append(source)

    def chain(self, edge: Edge) -> list[int]:
        return self.bends.get(edge, [])

    def _add_bends(self, edges: Sequence[Edge]) -> None:
        shared: dict[Edge, int] = {}  # (source, layer) -> bend point
        for source, target in edges:
            crossed = range(self.layers[source] + 1, self.layers[target])
            if crossed:
                self.bends[source, target] = [self._bend(shared, source, layer) for layer in crossed]

    def _bend(self, shared: dict[Edge, int], source: int, layer: int) -> int:
        if (source, layer) not in shared:
            shared[source, layer] = len(self.layers)
            self.layers.append(layer)
            self.before.append([])
            self.after.append([])
        return shared[source, layer]

    def rows(self) -> list[list[int]]:
        """Return the items of each layer."""
        rows: list[list[int]] = [[] for _ in range(max(self.layers, default=-1) + 1)]
        for item, layer in enumerate(self.layers):
            rows[layer].append(item)
        return rows

    def distance(self, upper: int, lower: int) -> float:
        """Return the smallest distance between the centers of two neighbours in a layer."""
        return sum(BOX_HEIGHT / 2 for item in (upper, lower) if item < self.boxes) + GAP_Y


def _order(rows: list[list[int]], items: _Items) -> None:
    """Sort each layer by the mean place of its neighbours, forwards and backwards in turn."""
    place = [0.0] * len(items.layers)
    for row in rows:
        _number(row, place)
    for sweep in range(SWEEPS):
        is_forward = sweep % 2 == 0
        neighbours = items.before if is_forward else items.after
        for row in rows if is_forward else reversed(rows):
            wanted = {item: _mean(neighbours[item], place, place[item]) for item in row}
            row.sort(key=wanted.__getitem__)
            _number(row, place)


def _number(row: Sequence[int], place: list[float]) -> None:
    """Number the items around 0, so that layers of different sizes can be compared."""
    for at, item in enumerate(row):
        place[item] = at - (len(row) - 1) / 2


def _mean(neighbours: Sequence[int], values: Sequence[float], default: float) -> float:
    return sum([values[item] for item in neighbours]) / len(neighbours) if neighbours else default


def _place(rows: Sequence[Sequence[int]], items: _Items) -> list[float]:
    """Return the center of each item: near to those of its neighbours, in the order of its layer."""
    centers = [0.0] * len(items.layers)
    gaps = [[0.0, *(items.distance(upper, lower) for upper, lower in pairwise(row))] for row in rows]
    room = max(map(sum, gaps), default=0.0)
    for sweep in range(SWEEPS + 1):
        is_forward = sweep % 2 == 0
        neighbours = items.before if is_forward else items.after
        for row, gap in zip(rows, gaps, strict=True) if is_forward else zip(rows[::-1], gaps[::-1], strict=True):
            wanted = [_mean(neighbours[item], centers, centers[item]) for item in row]
            for item, center in zip(row, spread(wanted, gap, room), strict=True):
                centers[item] = center
    return centers


def spread(wanted: Sequence[float], gaps: Sequence[float], room: float) -> list[float]:
    """Return the places nearest to the wanted ones that keep the order, each at least its gap after the one before
    (isotonic regression by pooling: places that would come too close form a block around their mean). All of them are
    within `room` around 0: without this bound, layers would drift away from each other."""
    offsets = list(accumulate(gaps))
    blocks: list[tuple[float, int]] = []  # sum of wanted places less their offsets, number of places
    for place, offset in zip(wanted, offsets, strict=True):
        total, number = place - offset, 1
        while blocks and blocks[-1][0] * number >= total * blocks[-1][1]:
            before, size = blocks.pop()
            total, number = total + before, number + size
        blocks.append((total, number))
    bases = [total / number for total, number in blocks for _ in range(number)]
    highest, lowest = -room / 2, room / 2 - (offsets[-1] if offsets else 0.0)
    return [min(max(base, highest), lowest) + offset for base, offset in zip(bases, offsets, strict=True)]
