"""Versions of Python: the classifiers name those with which all tests pass; for others the source is checked.

Deprecations are errors in all tests (`filterwarnings`), so a run with one version also finds what the next one removes.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from tests.house.source_tree import ROOT, parse, python_files, relative

# Modules of the standard library that a version later than 3.11 has removed (PEP 594, PEP 632 and their notes).
REMOVED = {
    "3.12": {"asynchat", "asyncore", "distutils", "imp", "smtpd"},
    "3.13": {
        "aifc", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr", "lib2to3", "mailcap", "msilib", "nis", "nntplib",
        "ossaudiodev", "pipes", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib",
    },
}  # fmt: skip
RELEASED = sorted(python_files("src"))


def imported_modules(path: Path) -> set[str]:
    nodes = list(ast.walk(parse(path)))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}


@pytest.mark.parametrize("version", REMOVED)
def test_no_module_is_imported_that_the_version_has_removed(version: str) -> None:
    found = {
        f"{relative(path)} imports {name}"
        for path in RELEASED
        for name in imported_modules(path)
        if name.partition(".")[0] in REMOVED[version]
    }
    assert found == set()


def test_the_source_compiles_without_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in RELEASED:
            compile(path.read_bytes(), str(path), "exec")


def test_the_classifiers_name_the_versions_of_the_document() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert f"({', '.join(versions)})" in (ROOT / "docs" / "install.md").read_text()
    assert versions[0] == project["requires-python"].removeprefix(">=")
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in versions
