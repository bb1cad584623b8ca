"""Parts of the dashboard that need no server: session cookies, number formats, charts, static files, the base path."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from windlass.core.errors import BadSetting
from windlass.dashboard import flash
from windlass.dashboard.assets import ASSETS
from windlass.dashboard.views import charts, formats, icons
from windlass.settings import load
from windlass.web.app import sessions

MINUTE_MS = 60_000


def test_a_session_expires() -> None:
    issued = sessions.issue_session("abc", b"digest", now_s=1000)
    read = sessions.parse_session(issued.text)
    assert read == issued
    assert read is not None
    assert read.is_signed_with(b"digest")
    assert not read.is_signed_with(b"another")
    assert not read.is_expired(1000 + sessions.LIFETIME_S - 1)
    assert read.is_expired(1000 + sessions.LIFETIME_S)


def test_the_first_of_several_cookies_with_the_same_name_counts() -> None:
    assert sessions.parse_cookies({"cookie": 'a=1; b="2"; a=3; c; d=x=y'}) == {"a": "1", "b": "2", "d": "x=y"}


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (3210, "3.2 s"),
        (61_000, "1 m 1 s"),
        (7_500_000, "2 h 5 m"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_durations_have_at_most_two_units(duration_ms: int, text: str) -> None:
    assert formats.span(duration_ms).replace(formats.NARROW, " ") == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (0.25, "0.2"), (999, "999"), (1000, "1k"), (12_345, "12.3k"), (2_000_000, "2M")]
)
def test_short_numbers(number: float, text: str) -> None:
    assert formats.short(number) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**40, "1.0 TiB")])
def test_sizes(size: int, text: str) -> None:
    assert formats.size(size).replace(formats.NARROW, " ") == text


@pytest.mark.parametrize("at_ms", [1, 1_700_000_000_000, 2**48 - 1, 2**63])
def test_formats_any_instant(at_ms: int) -> None:
    ElementTree.fromstring(formats.when(at_ms))  # noqa: S314 (it is ours)


@pytest.mark.parametrize("values", [[], [0], [5], [0, 0, 0], [1, 10, 1e12], [0.5] * 60])
def test_charts_are_well_formed_for_any_values(values: list[float]) -> None:
    times_ms = [at * MINUTE_MS for at in range(len(values))]
    series = [charts.Series("<b>", "enqueued", values)]
    for svg in (
        charts.time_series(series, times_ms, title='"<&>'),
        charts.sparkline(values, values, label='"<&>'),
        charts.gauge(sum(values), 10, label='"<&>'),
    ):
        element = ElementTree.fromstring(svg)  # noqa: S314 (it is ours)
        assert '"<&>' in element.attrib["aria-label"]
        assert "nan" not in svg
        assert "style" not in svg


@pytest.mark.parametrize("most", [0, 1, 4, 5, 17, 99, 100, 101, 12_345, 3.2e9])
def test_the_top_of_an_axis_is_a_near_round_number(most: float) -> None:
    top = charts.nice_top(most)
    assert most <= top <= max(4, 2.1 * most)


def test_every_navigation_item_has_an_icon_and_a_unique_key() -> None:
    assert len({item.key for item in icons.NAVIGATION}) == len(icons.NAVIGATION)
    for item in icons.NAVIGATION:
        ElementTree.fromstring(icons.icon(item.section))  # noqa: S314 (it is ours)


def test_a_flash_message_round_trips() -> None:
    message = flash.Flash('Größe: <b>; "x"', "bad")
    assert flash.read({flash.COOKIE: flash.write(message)}) == message
    assert re.fullmatch(r"[A-Za-z0-9_-]+", flash.write(message))
    assert flash.read({flash.COOKIE: "%%%"}) is None


def test_scripts_import_only_existing_files() -> None:
    for name, asset in ASSETS.files.items():
        if name.endswith(".js"):
            for imported in re.findall(r'(?:from|import) "\./([^"]+)"', asset.body.decode()):
                assert imported in ASSETS.files


def test_the_base_path_is_validated(tmp_path: Path) -> None:
    for given, wanted in (("", ""), ("/", ""), ("ops", "/ops"), ("/ops/jobs/", "/ops/jobs")):
        assert load(environment={"WINDLASS_BASE_PATH": given}, directory=tmp_path)[0].base_path == wanted
    for wrong in ("/a b", "/a?x", "/../x", "/a//b", "/é"):
        with pytest.raises(BadSetting):
            load(environment={"WINDLASS_BASE_PATH": wrong}, directory=tmp_path)
