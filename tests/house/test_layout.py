"""Limits on the size of folders, modules and functions."""

from __future__ import annotations

import ast
from collections import Counter

from tests.house.source_tree import lua_files, parse, python_files, relative

FOLDER_FILES_MAX = 20
MODULE_LINES_MAX = 400  # a longer module has two subjects
FUNCTION_LINES_MAX = 50  # a longer function hides its steps
DEPTH_MAX = 5  # folders below src/
# Folder -> reason why it may hold more files.
LARGER_FOLDERS: dict[str, str] = {}
NOT_COUNTED = ("__init__.py", "conftest.py")


def test_no_folder_has_too_many_files() -> None:
    files = [*python_files("src", "tests", "bench", "faults", "tools", "website"), *lua_files()]
    counts = Counter(relative(path.parent) for path in files if path.name not in NOT_COUNTED)
    too_large = {folder: count for folder, count in counts.items() if count > FOLDER_FILES_MAX}
    assert too_large.keys() <= LARGER_FOLDERS.keys(), "group these files in sub-packages by concept"
    assert LARGER_FOLDERS.keys() <= too_large.keys(), "these exceptions are no longer needed"


def test_no_module_is_too_long() -> None:
    lines = {relative(path): len(path.read_text().splitlines()) for path in (*python_files("src"), *lua_files())}
    assert {path: count for path, count in lines.items() if count > MODULE_LINES_MAX} == {}


def test_no_function_is_too_long() -> None:
    too_long = {
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in python_files("src")
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES_MAX
    }
    assert too_long == set()


def test_no_folder_is_too_deep() -> None:
    folders = {relative(path.parent) for path in (*python_files("src"), *lua_files())}
    assert {folder for folder in folders if folder.count("/") > DEPTH_MAX} == set()
