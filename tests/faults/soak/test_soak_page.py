"""The published soak run: latency from histories, the picture, and its section of the page."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from faults import report
from faults.history import CallName, Entry, JobFacts, Phase
from faults.soak.latency import MEASURED_QUEUE, LatencyWindow, measure_latency
from faults.soak.page import FIGURES, PICTURE, read_soak, write_soak
from faults.soak.plot import draw_soak
from faults.soak.run import Curve, Soak, collect_curves

S = 1_000_000_000
LATENCY = LatencyWindow(at_s=60.0, jobs=40, p50_ms=4.0, p95_ms=9.0, p99_ms=30.0)
SOAK = Soak(
    seconds=120.0, samples=2, grown=[], findings=[], acknowledged=987, command="python -m faults soak --minutes 2",
    date="2030-01-01", sampled_at_s=[60.0, 120.0], latency=[LATENCY, msgspec.structs.replace(LATENCY, at_s=120.0)],
    total_latency=LATENCY,
    curves=[
        Curve(who="server-api", what="memory", values=[2.0**26, 2.0**27]),
        Curve(who="worker-1", what="memory", values=[None, 2.0**25]),
        Curve(who="worker-2", what="memory", values=[2.0**25, 2.0**25]),
        Curve(who="engine", what="used_memory", values=[2.0**20, 2.0**21]),
    ],
)  # fmt: skip
PAGE = "# Reliability\n\nBefore.\n\n## Soak run without faults\n\nOld.\n\n## Limits of the guarantees\n\nAfter.\n"


def _call(n: int, call: CallName, begun_s: float, took_s: float, queue: str = "", phase: Phase = "ok") -> list[Entry]:
    facts = JobFacts(key=f"job-{n}", id=f"id-{n}", queue=queue)
    return [
        Entry(at_ns=int(begun_s * S), client=call, n=n, call=call, phase="begun", jobs=(facts,)),
        Entry(at_ns=int((begun_s + took_s) * S), client=call, n=n, call=call, phase=phase, jobs=(facts,)),
    ]


def _job(n: int, enqueued_s: float, ended_s: float, queue: str = MEASURED_QUEUE, end: Phase = "ok") -> list[Entry]:
    return [*_call(n, "enqueue", enqueued_s, 0.001, queue), *_call(n, "finish", ended_s - 0.001, 0.001, phase=end)]


def test_latency_is_from_the_begin_of_the_enqueue_to_the_answer_about_the_end() -> None:
    entries = _job(1, 100.0, 100.5) + _job(2, 101.0, 101.1) + _job(3, 114.0, 115.0)
    entries += _job(4, 101.0, 109.0, "plain") + _job(5, 101.0, 109.0, end="refused")
    windows, total = measure_latency(entries, 100 * S, 20.0, 2)
    assert [(window.at_s, window.jobs, window.p50_ms) for window in windows] == [(10.0, 2, 500.0), (20.0, 1, 1000.0)]
    assert total is not None
    assert (total.jobs, total.p50_ms, total.p99_ms) == (3, 500.0, 1000.0)
    assert measure_latency(entries, 200 * S, 20.0, 2) == ([], None)


def test_curves_have_a_value_for_each_sample() -> None:
    curves = collect_curves([{("a", "memory"): 1.0}, {("a", "memory"): 2.0, ("b", "tasks"): 3.0}])
    assert [(curve.who, curve.values) for curve in curves] == [("a", [1.0, 2.0]), ("b", [None, 3.0])]


def test_the_picture_shows_each_figure() -> None:
    picture = draw_soak(SOAK)
    root = ElementTree.fromstring(picture)  # noqa: S314 (ours)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for text in ("p99", "server-api", "workers", "Memory of each process", "minutes", "last: 128"):
        assert text in texts
    assert "Open descriptors of each process" not in texts  # no figures
    assert texts.count("workers") == 1
    assert "NaN" not in picture


def test_a_run_replaces_its_section_alone(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    page = tmp_path / "reliability.md"
    page.write_text(PAGE)
    write_soak(SOAK, report.format_soak(SOAK), tmp_path)
    written = page.read_text()
    assert written.startswith("# Reliability\n\nBefore.\n\n## Soak run without faults\n\n2 minutes of load")
    assert written.endswith("\n\n## Limits of the guarantees\n\nAfter.\n")
    assert "Old." not in written
    assert f"]({PICTURE})" in written
    assert "4 ms (p50), 9 ms (p95) and 30 ms (p99) for 40 jobs" in " ".join(written.split())
    assert read_soak(tmp_path) == SOAK
    write_soak(SOAK, report.format_soak(SOAK), tmp_path)
    assert page.read_text() == written
    assert (tmp_path / PICTURE).read_text() == draw_soak(SOAK)


def test_a_page_without_the_section_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "reliability.md").write_text("# Reliability\n")
    with pytest.raises(ValueError, match="has no section"):
        write_soak(SOAK, "x", tmp_path)
    assert not (tmp_path / FIGURES).exists()


def test_a_report_of_faults_keeps_the_published_run() -> None:
    published = read_soak()
    text = report.render(report.Report(seed=7, command="again"))
    assert ("## Soak run without faults" in text) == (published is not None)
