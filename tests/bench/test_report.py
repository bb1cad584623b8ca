"""The report is made from a file of figures; a section that fails costs only itself."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from bench import __main__ as command
from bench import report
from bench.figures import Bars, Environment, Figures, Finding, Lines, Measured, Picture, Reading, Setting, Table, spread
from bench.sections import SECTIONS, Chapter

DOCUMENTS = Path(__file__).parents[2] / "docs"
FINDINGS: list[Finding] = [
    Table("Enqueue", ("how", "jobs/s"), [["bulk", "95,000 (94,000–96,000)"]], "A note."),
    Picture("enqueue", "Enqueue beside the field", [Bars("bulk", "jobs/s", {"windlass": 95e3, "rq": 7.8e3})]),
    Picture("growth", "Growth", [Lines("by jobs", "queued jobs", "µs", {"take": [(1e3, 90.0), (1e6, 99.0)]}, ())]),
    Reading("bulk", [95e3, 94e3, 96e3], [7e3, 8e3, 9e3], "rq"),
]


def measured(name: str = "enqueue", failed: str = "", findings: list[Finding] | None = None) -> Measured:
    return Measured(name, "2026-11-16 12:00", 0.3, 61.0, False, FINDINGS if findings is None else findings, failed)


def figures(*sections: Measured) -> Figures:
    return Figures("2 threads of a kind", {"windlass": "1.2", "rq": "rq 2.12"}, list(sections))


def test_it_is_the_same_from_the_file_as_from_what_was_measured(tmp_path: Path) -> None:
    made = figures(measured(), measured("http", "AssertionError: nobody answers"))
    report.save(tmp_path / "figures.json", made)
    assert report.rendered(report.load(tmp_path / "figures.json")) == report.rendered(made)


def test_it_says_what_was_measured_where_and_with_what() -> None:
    document = report.rendered(figures(measured()))["performance.md"]
    assert "- Machine: 2 threads of a kind" in document
    assert "- Versions: windlass 1.2, rq rq 2.12" in document
    assert "| bulk | 95,000 (94,000–96,000) |" in document
    assert re.search(r"enqueue in bulk \| best peer: rq \| 11\.75× \| .* \| floor held \|", document)
    assert f"## {SECTIONS['enqueue'].heading}\n\n*2026-11-16 12:00 UTC, 61 s, load average before 0.3.*" in document
    assert "not complete" not in document.lower()


def test_it_shows_exactly_the_pictures_that_it_makes() -> None:
    files = report.rendered(figures(measured()))
    shown = re.findall(r"!\[.*?\]\((.*?)\)", files.pop("performance.md"))
    assert sorted(shown) == sorted(files)
    for picture in files.values():
        ElementTree.fromstring(picture)  # noqa: S314 (our own)


def test_it_says_which_section_came_to_no_end() -> None:
    made = figures(measured(), measured("http", "RuntimeError: 3 of `5`\nwere refused", []))
    document = report.rendered(made)["performance.md"]
    assert "**Not completed: http.**" in document
    assert "**This section did not complete:** `RuntimeError: 3 of '5' were refused`" in document


def test_without_any_reading_it_is_still_a_report() -> None:
    document = report.rendered(figures(measured(findings=[])))["performance.md"]
    assert "performance-floors.svg" not in document
    assert "| not measured |" in document


def test_a_section_that_fails_is_kept_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(setting: Setting) -> list[Table]:
        raise AssertionError("a job ran twice")

    monkeypatch.setitem(SECTIONS, "enqueue", Chapter("Enqueue", broken))
    kept = command.measured("enqueue", Setting(True, lambda _: None))
    assert (kept.failed, list(kept.findings)) == ("AssertionError: a job ran twice", [])
    assert "in broken" in capsys.readouterr().err


def test_a_file_that_holds_no_figures_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "DOCUMENTS", tmp_path)
    (tmp_path / "other.json").write_text('{"machine": 5}')
    for name, said in (("none.json", "There are no figures in"), ("other.json", "does not hold figures")):
        monkeypatch.setattr("sys.argv", ["bench", "--report", str(tmp_path / name)])
        assert command.main() == 2
        assert said in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["other.json"]


def test_sections_that_were_measured_again_take_their_old_places() -> None:
    before = figures(measured("enqueue"), measured("http", "broken", []))
    after = command.replaced(before, [measured("http"), measured("sdk")])
    assert [(section.name, section.failed) for section in after.sections] == [
        ("enqueue", ""),
        ("http", ""),
        ("sdk", ""),
    ]


def test_a_section_that_was_measured_elsewhere_says_so() -> None:
    before = figures(measured("enqueue"))
    later = Figures("4 threads", {"windlass": "1.3", "rq": "rq 2.12"}, [])
    apart = command.environment(before, later)
    assert apart == Environment("4 threads", {"windlass": "1.3"})
    assert command.environment(before, before) is None
    section = msgspec.structs.replace(measured("http"), apart=apart)
    document = report.rendered(figures(measured("enqueue"), section))["performance.md"]
    assert document.count("*Measured later, with windlass 1.3, 4 threads.*") == 1


def test_one_round_has_no_spread() -> None:
    assert spread([95_000.4]) == "95,000"
    assert spread([3.0, 1.0, 2.0]) == "2.00 (1.00–3.00)"


def test_the_report_in_the_repository_is_made_from_its_figures() -> None:
    files = report.rendered(report.load(DOCUMENTS / "performance.json"))
    for name, content in files.items():
        assert (DOCUMENTS / name).read_text() == content, f"{name}: python -m bench --report docs/performance.json"
    there = {f"images/{file.name}" for file in (DOCUMENTS / "images").glob("performance-*.svg")}
    assert there == set(files) - {"performance.md"}
