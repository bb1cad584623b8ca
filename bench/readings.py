"""Readings for the floors, and pictures, made from the comparison with the peers."""

from collections.abc import Mapping, Sequence
from statistics import median

from .figures import Bars, Picture, Reading
from .floors import BEST_PEER, FLOORS
from .peers import PEERS, WINDLASS
from .peers.rows import ROWS, Found, best


def readings(found: Found) -> list[Reading]:
    """Return readings of the compared rows that have a floor."""
    made = [
        _beside_best(row, found[row]) for row, floor in FLOORS.items() if row in found and floor.against == BEST_PEER
    ]
    loaded, idle = (found.get(row, {}).get(WINDLASS) for row in ("pickup_loaded_p99", "pickup_p99"))
    if loaded and idle:
        made.append(Reading("pickup_loaded", loaded, idle))
    if sizes := found.get("bytes_queued", {}).get(WINDLASS):
        made.append(Reading("bytes_queued", sizes))
    return [reading for reading in made if reading]


def _beside_best(row: str, by_who: Mapping[str, Sequence[float]]) -> Reading | None:
    peer = best(row, by_who)
    if peer is None or not by_who.get(WINDLASS):
        return None
    keeper = best(row, by_who, keeps_jobs=True)
    keeping, name = ((), "") if keeper is None else (by_who[keeper], PEERS[keeper].title)
    return Reading(row, by_who[WINDLASS], by_who[peer], PEERS[peer].title, keeping=keeping, keeping_name=name)


def picture(name: str, title: str, rows: Sequence[str], found: Found) -> list[Picture]:
    """Make a picture, or none if nothing was found. The bare engine is left out: its bar would dwarf the others."""
    panels = [_bars(row, found[row]) for row in rows if found.get(row)]
    return [Picture(name, f"{title}: Windlass and its peers", panels)] if panels else []


def _bars(row: str, by_who: Mapping[str, Sequence[float]]) -> Bars:
    values = {PEERS[who].title: median(rounds) for who, rounds in by_who.items() if who in PEERS and rounds}
    return Bars(ROWS[row].title, ROWS[row].unit, values, ROWS[row].is_more_better)
