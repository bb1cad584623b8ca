"""ARCHITECTURE.md is a map: it names every package of src/windlass, and no folder or file that does not exist."""

from __future__ import annotations

import re

from tests.house.source_tree import ROOT, SOURCE, lua_files, python_files

TEXT = (ROOT / "ARCHITECTURE.md").read_text()
TREE = re.search(r"```[^\n]*\n(src/windlass/.*?)```", TEXT, re.DOTALL)
EXAMPLE = "touch"  # the operation that the page adds as an example


def packages() -> set[str]:
    files = [*python_files("src"), *lua_files()]
    folders = {path.parent.relative_to(SOURCE).as_posix() for path in files} - {"."}
    return {folder for folder in folders if not folder.startswith("store/lua")} | {"store/lua", "store/lua/lib"}


def mapped_packages() -> set[str]:
    """Return the paths in the tree of the page, where indentation shows the parent."""
    assert TREE is not None, "the tree begins with src/windlass/"
    found: set[str] = set()
    parents: list[tuple[int, str]] = []
    for line in TREE[1].splitlines()[1:]:
        named = re.match(r"( +)((?:[a-z_0-9]+/)+)", line)
        if named is None:
            continue
        indent = len(named[1])
        while parents and parents[-1][0] >= indent:
            parents.pop()
        path = (f"{parents[-1][1]}/" if parents else "") + named[2].rstrip("/")
        parents.append((indent, path))
        found.add(path)
    return found


def test_the_tree_has_every_package_and_no_other() -> None:
    assert mapped_packages() == packages()


def test_the_tree_names_every_lua_folder() -> None:
    assert TREE is not None
    folders = {path.parent.name for path in lua_files()} - {"lib"}
    assert {folder for folder in folders if f" {folder}/" not in TREE[1]} == set()


def test_every_path_that_it_and_contributing_name_exists() -> None:
    roots = (ROOT, SOURCE, SOURCE / "store", SOURCE / "store" / "lua", ROOT / "docs")
    text = TEXT + (ROOT / "CONTRIBUTING.md").read_text()
    named = {match for span in re.findall(r"`([^`\n]+)`", text) for match in re.findall(r"^[\w./]+/[\w.]*$", span)}
    missing = {
        name
        for name in named
        if not name.startswith(("/", "."))
        and not {EXAMPLE, "generators"} & set(re.split(r"[/._]", name))
        and not any((root / name).exists() for root in roots)
    }
    assert missing == set()
