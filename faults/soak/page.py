"""Files of the published soak run: its figures, its picture, and its section in docs/reliability.md."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import msgspec

from .latency import MEASURED_QUEUE
from .plot import draw_soak
from .run import Soak

DOCS = Path(__file__).resolve().parents[2] / "docs"
FIGURES = "soak.json"
PICTURE = "images/soak.svg"
HEADING = "## Soak run without faults"
_SECTION = re.compile(rf"^{re.escape(HEADING)}$.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def read_soak(docs: Path = DOCS) -> Soak | None:
    """Return the published run."""
    path = docs / FIGURES
    return msgspec.json.decode(path.read_bytes(), type=Soak) if path.exists() else None


def write_soak(soak: Soak, section: str, docs: Path = DOCS) -> list[Path]:
    """Publish a run. Other sections of the page stay as they are."""
    figures, picture, page = docs / FIGURES, docs / PICTURE, docs / "reliability.md"
    text = page.read_text()
    if not _SECTION.search(text):
        raise ValueError(f"{page} has no section {HEADING!r}.")
    figures.write_bytes(msgspec.json.encode(soak) + b"\n")
    picture.write_text(draw_soak(soak))
    page.write_text(_SECTION.sub(lambda _: f"{section}\n", text))
    return [figures, picture, page]


def describe_curves(soak: Soak) -> str:
    """Return the picture and the latency of a run in Markdown; empty for a run without curves."""
    if not soak.curves:
        return ""
    return f"\n![Memory, descriptors and latency of the soak run over time]({PICTURE})\n{_latency(soak)}"


def _latency(soak: Soak) -> str:
    total = soak.total_latency
    if total is None:
        return ""
    sentences = (
        f"Enqueue to end took {total.p50_ms:,.0f} ms (p50), {total.p95_ms:,.0f} ms (p95) and {total.p99_ms:,.0f} ms "
        f"(p99) for {total.jobs:,} jobs of the queue `{MEASURED_QUEUE}`, up to 20 ms of work included. That queue has "
        "one producer and one worker that takes one job at a time; all clients, servers and the engine share one "
        f"machine{_describe_machine(soak)}. "
        f"Run on {soak.date}: `{soak.command}`. Figures: [{FIGURES}]({FIGURES})."
    )
    return f"\n{textwrap.fill(sentences, 120, break_long_words=False, break_on_hyphens=False)}\n"


def _describe_machine(soak: Soak) -> str:
    if not soak.processors:
        return ""
    return f" with {soak.processors} processors, whose load average was {soak.machine_load:g} with all other programs"
