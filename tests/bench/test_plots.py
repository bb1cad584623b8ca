"""Pictures are well-formed, hold every name and figure, and take any text."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bench import plots, svg
from bench.figures import Bars, Lines, Picture, Reading
from bench.floors import FLOORS

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert('&\"')</script>"


def read(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)  # noqa: S314 (our own)


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in read(picture).iter(f"{SVG}text")]


def bars(**values: float) -> Bars:
    return Bars("bulk", "jobs/s", values)


def test_bars_are_ranked_and_ours_stands_out() -> None:
    drawn = plots.drawn(Picture("p", "Bulk", [bars(rq=7800, windlass=95_000, celery=1000)]))
    assert [text for text in texts(drawn) if text in ("windlass", "rq", "celery")] == ["windlass", "rq", "celery"]
    assert {"95,000", "7,800", "1,000"} <= set(texts(drawn))
    filled = [element.get("class") for element in read(drawn).iter(f"{SVG}rect") if "fill" in str(element.get("class"))]
    assert filled == ["fill a", "fill x", "fill x"]


def test_less_is_better_ranks_the_other_way() -> None:
    panel = Bars("p50", "ms", {"windlass": 0.5, "rq": 3.7, "huey": 1.2}, is_more_better=False)
    drawn = texts(plots.drawn(Picture("p", "t", [panel])))
    assert [text for text in drawn if text in panel.values] == ["windlass", "huey", "rq"]


def test_longer_bars_mean_more_on_both_scales() -> None:
    for values in ({"windlass": 3.0, "a": 2.0, "b": 1.0}, {"windlass": 3000.0, "a": 1000.0, "b": 1.0}):
        drawn = read(plots.drawn(Picture("p", "t", [Bars("t", "u", values)])))
        widths = [float(str(one.get("width"))) for one in drawn.iter(f"{SVG}rect") if "fill" in str(one.get("class"))]
        assert widths == sorted(widths, reverse=True)
        assert len(set(widths)) == 3


def test_any_text_is_only_text() -> None:
    lines = Lines(HOSTILE, HOSTILE, HOSTILE, {HOSTILE: [(1, 2), (10, 3)]})
    drawn = plots.drawn(Picture(HOSTILE, HOSTILE, [Bars(HOSTILE, HOSTILE, {HOSTILE: 1.0}), lines]))
    assert texts(drawn).count(HOSTILE) >= 5
    assert not list(read(drawn).iter(f"{SVG}script"))


@pytest.mark.parametrize(
    "panel",
    [
        bars(windlass=0.0),
        bars(windlass=0.0, rq=5.0),
        Lines("t", "jobs", "µs", {"take": [(1, 0.0), (10, 0.0)]}),
        Lines("t", "jobs", "µs", {"take": [(1000, 5.0)]}),
    ],
)
def test_nothing_and_one_can_be_drawn(panel: Bars | Lines) -> None:
    drawn = plots.drawn(Picture("p", "t", [panel]))
    assert "nan" not in drawn
    assert read(drawn).get("role") == "img"


def test_lines_have_a_path_each_and_the_bare_engines_are_faint() -> None:
    series = {"take": [(1000.0, 90.0), (1e6, 99.0)], "bare": [(1000.0, 3.0), (1e6, 4.5)]}
    drawn = plots.drawn(Picture("p", "t", [Lines("t", "queued jobs", "µs", series, ["bare"])]))
    paths = [str(element.get("class")) for element in read(drawn).iter(f"{SVG}path")]
    assert [name for name in paths if "faint" in name] == ["line x faint"] * 2  # itself, and in the key
    assert {"1.10×", "1.50×", "1k", "1M", "queued jobs"} <= set(texts(drawn))


def test_the_picture_of_floors_has_a_row_for_each_reading() -> None:
    found = {row: Reading(row, [floor.goal] * 3) for row, floor in FLOORS.items()}
    found["idle_commands"] = Reading("idle_commands", [0.0])
    found["bulk"] = Reading("bulk", [1, 1, 1])
    drawn = plots.floors(found)
    dots = [str(element.get("class")) for element in read(drawn).iter(f"{SVG}circle")]
    assert dots.count("fill good") == len(FLOORS) - 1 + 1  # and the key
    assert dots.count("fill bad") == 1 + 1
    assert "inf" not in drawn


def test_scales_end_where_their_values_do() -> None:
    scale = svg.Scale(1, 1000, 0, 300, is_log=True)
    assert (scale.at(1), scale.at(10), scale.at(1000)) == pytest.approx((0, 100, 300))
    assert (scale.at(0.001), scale.at(1e9)) == pytest.approx((0, 300))
    assert scale.ticks() == pytest.approx([1, 10, 100, 1000])
    assert svg.steps(95) == [0, 50]
    assert svg.steps(4) == [0, 1, 2, 3, 4]
