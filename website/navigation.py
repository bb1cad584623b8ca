"""Navigation of the site: the table of navigation.toml, with the decisions under the subjects of their index."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from website.repository import ROOT

DECISIONS = "decisions/index.md"
ROW = re.compile(r"^\| (\d+) \| \[([^\]]+)\]\(([^)]+)\)", re.MULTILINE)


def navigation() -> list[dict[str, Any]]:
    """Return the sections of the site, in the form of Zensical."""
    sections: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("navigation.toml").read_text())["nav"]
    return [*sections, {"Decisions": [DECISIONS, *_decisions()]}]


def _decisions() -> list[dict[str, Any]]:
    """Return the decisions by subject, from the index."""
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    subjects = (part.partition("\n") for part in re.split(r"^## ", index, flags=re.MULTILINE)[1:])
    return [
        {title: [{f"{number} {name}": f"decisions/{file}"} for number, name, file in rows]}
        for title, _, text in subjects
        if (rows := ROW.findall(text))
    ]


def pages_in(entries: Any) -> Iterator[str]:
    """Return the pages of a part of the navigation, in their order."""
    if isinstance(entries, str):
        yield entries
    else:
        for entry in entries.values() if isinstance(entries, dict) else entries:
            yield from pages_in(entry)


def as_toml(entries: Any) -> str:
    """Return a part of the navigation as a TOML value."""
    if isinstance(entries, str):
        return json.dumps(entries, ensure_ascii=False)
    if isinstance(entries, dict):
        return "{ " + ", ".join(f"{as_toml(title)} = {as_toml(entry)}" for title, entry in entries.items()) + " }"
    return "[" + ", ".join(as_toml(entry) for entry in entries) + "]"
