"""docs/upgrading.md agrees with the code and with the tests that it names."""

from __future__ import annotations

import re

from tests.house.source_tree import ROOT
from windlass.core.namespace.format import KNOWN, SINCE, NamespaceFormat, refusal_of

TEXT = (ROOT / "docs" / "upgrading.md").read_text()


def test_the_table_has_every_format() -> None:
    table = TEXT.partition("| format | first version |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (\d+) \| (\S+) \|", table, re.M) == [
        (str(number), first) for number, first in SINCE.items()
    ]


def test_the_example_is_what_a_program_says() -> None:
    shown = re.search(r"^windlass: (Namespace .*)$", TEXT, re.M)
    assert shown
    said = refusal_of("wl", NamespaceFormat(KNOWN + 1, "0.4.0"))
    assert re.sub(r"This is Windlass \S+,", "This is Windlass X,", shown[1]) == re.sub(
        r"This is Windlass \S+,", "This is Windlass X,", said
    )


def test_the_tests_that_it_names_exist() -> None:
    named = re.findall(r"`(tests/\S+\.py)`", TEXT)
    assert len(named) >= 4
    assert [path for path in named if not (ROOT / path).exists()] == []
