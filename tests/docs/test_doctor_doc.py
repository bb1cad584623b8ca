"""docs/doctor.md names every code, with its severity, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from windlass.core.diagnosis import MEANINGS, Severity
from windlass.store.topology import health

DOCUMENT = Path(__file__).parents[2] / "docs" / "doctor.md"


def test_every_code_is_explained() -> None:
    explained = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", DOCUMENT.read_text(), re.MULTILINE))
    source = Path(health.__file__).read_text()
    letters = {severity.label[0].upper(): severity.label for severity in Severity}
    engine_codes = {code: letters[letter] for code, letter in re.findall(r'"(\w+)",\s*_([EWN]),', source)}
    assert explained == engine_codes | {code: meaning.severity.label for code, meaning in MEANINGS.items()}
