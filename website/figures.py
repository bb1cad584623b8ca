"""Figures of the home page, from the measurements in docs/performance.json."""

from __future__ import annotations

import json
import re
from statistics import median
from typing import Any, NamedTuple

from website.repository import ROOT

BLOCK = re.compile(r"(<!-- figures:.*?-->\n).*?(<!-- end of figures -->)", re.DOTALL)


class Row(NamedTuple):
    reading: str  # name of the row in performance.json
    title: str
    unit: str
    digits: int = 0


ROWS = (
    Row("bulk", "enqueue in bulk", "jobs/s"),
    Row("enqueue_50", "enqueue from 50 concurrent tasks", "jobs/s"),
    Row("drain_100", "run no-op jobs in one worker process", "jobs/s"),
    Row("drain_threads", "the same with plain functions, in threads", "jobs/s"),
    Row("pickup_p50", "from enqueue to the first line of the job, median", "ms", 2),
    Row("engine_cpu", "processor time of the engine for a job", "µs", 1),
)


def render(page: str) -> str:
    """Return the home page with the current figures."""
    measured = json.loads((ROOT / "docs" / "performance.json").read_text())
    lines = ["| | Windlass | the best other | ratio |", "|---|---:|---:|---:|"]
    lines += [_line(row, _reading(measured, row.reading)) for row in ROWS]
    return BLOCK.sub(lambda block: block[1] + "\n" + "\n".join(lines) + "\n\n" + block[2], page)


def _reading(measured: Any, name: str) -> Any:
    (found,) = [
        finding
        for section in measured["sections"]
        for finding in section.get("findings", ())
        if finding["type"] == "Reading" and finding["row"] == name
    ]
    return found


def _line(row: Row, reading: Any) -> str:
    ours, other = (f"{median(reading[side]):,.{row.digits}f}" for side in ("ours", "other"))
    # As in performance.md: the median of the ratios round by round.
    ratio = median(mine / theirs for mine, theirs in zip(reading["ours"], reading["other"], strict=True))
    return f"| {row.title} | {ours} {row.unit} | {other} {row.unit} ({reading['against']}) | **{ratio:.2g}×** |"
