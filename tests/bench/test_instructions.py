"""Counted instructions: what callgrind writes, what a comparison concludes, and one real count."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.instructions import __main__ as command
from bench.instructions import callgrind, comparison

PROFILE = """\
# callgrind format
version: 1
part: 2
desc: Trigger: Client Request
events: Ir
summary: 5848923

fn=(1) main
16 400

totals: 5848981
"""


def test_a_profile_has_the_sum_of_its_threads() -> None:
    assert callgrind.parse_profile(PROFILE) == 5_848_923
    assert callgrind.parse_profile(PROFILE + PROFILE.replace("5848923", "77")) == 5_849_000


def test_a_profile_without_a_sum_is_an_error() -> None:
    with pytest.raises(callgrind.BadProfile):
        callgrind.parse_profile("version: 1\nevents: Ir\n")


def test_counts_are_the_same_after_they_were_saved(tmp_path: Path) -> None:
    counts = {"enqueue, 1 per call": 140_148.25, "take": 1.0}
    comparison.save(tmp_path / "counts.json", counts)
    assert comparison.load(tmp_path / "counts.json") == counts


def test_a_row_is_worse_beyond_five_percent() -> None:
    before = {"a": 100.0, "b": 100.0, "c": 100.0, "gone": 1.0}
    counts = {"a": 105.0, "b": 105.1, "c": 50.0, "new": 9.0}
    assert comparison.worse_rows(counts, before) == ["b"]
    lines = [line.split() for line in comparison.table(counts, before).text().splitlines()[3:]]
    assert lines == [
        ["a", "100", "105", "1.050×"],
        ["b", "100", "105", "1.051×", "WORSE"],
        ["c", "100", "50", "0.500×"],
        ["new", "–", "9", "–"],
    ]


def test_a_worse_row_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    earlier = tmp_path / "before.json"
    comparison.save(earlier, {"enqueue": 100.0})
    monkeypatch.setattr(command, "missing_tools", list)
    monkeypatch.setattr(command.logging, "disable", lambda _: None)
    for count, code in ((100.0, 0), (106.0, 1)):
        monkeypatch.setattr(command, "count_all", lambda _words, count=count: {"enqueue": count})
        assert command.main(["--compare", str(earlier)]) == code
    assert "More than 1.05 times the instructions: enqueue." in capsys.readouterr().out


def test_it_names_the_package_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert command.main([]) == 2
    assert "install the package valgrind" in capsys.readouterr().err


def test_more_work_has_more_instructions() -> None:
    with callgrind.CountedProcess(["/bin/cat"]) as cat:
        cat.say("ready")
        cat.wait_for("ready")
        found = []
        for lines in (1, 20):
            with cat.counted() as count:
                for number in range(lines):
                    cat.say(f"line {number}")
                    cat.wait_for(f"line {number}")
            found.append(count.instructions)
    assert 0 < found[0] < found[1]
