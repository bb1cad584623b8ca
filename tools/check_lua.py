"""Check of the Lua files: headers of operations, `uses:` lines, and names that hide a used name.

It reads the sources only; the tests load the library into an engine.
"""

from __future__ import annotations

import re
import sys

from windlass.store import scripts

HEADER = ("arguments:", "returns:", "refusals:")
OPERATION_LINES_MAX = 120
DEFINED = re.compile(r"^local (?:function )?([\w, ]+?)(?: =|\(|$)", re.MULTILINE)
INNER = re.compile(
    r"\blocal (?:function )?([\w, ]+?)(?: =|\(|$)|\bfunction ?\w*\(([\w, ]*)\)|\bfor ([\w, ]+) in", re.MULTILINE
)
TABLE_KEY = re.compile(r"([{,]\s*)\w+ = ")
WORD = re.compile(r"(?<![.:'\w])[A-Za-z_]\w*(?!')")


def names_in(groups: list[str]) -> set[str]:
    return {word.strip() for group in groups for word in group.split(",") if word.strip()}


def code_of(source: str) -> str:
    without_comments = re.sub(r"--.*", "", source)
    without_texts = re.sub(r"'[^'\n]*'", "''", without_comments)
    return TABLE_KEY.sub(r"\1", without_texts)


def defined_by(name: str) -> set[str]:
    return names_in(DEFINED.findall(scripts.shared_source(name)))


def missing_uses(source: str, own_name: str | None) -> set[str]:
    """Return the library files that a source uses without listing them in its `uses:` line."""
    code = code_of(source)
    own = names_in([part for groups in INNER.findall(code) for part in groups])
    words = set(WORD.findall(code)) - own
    known = {*scripts.reachable(tuple(scripts.uses(source))), own_name}
    return {name for name in scripts.shared_files() if name not in known and words & defined_by(name)}


def problems() -> list[str]:
    found = []
    for name in scripts.operations():
        source = scripts.operation_source(name)
        found += [f"{name}.lua: no line '{part}' in its header" for part in HEADER if f"-- {part}" not in source]
        if not source.startswith("-- "):
            found.append(f"{name}.lua: does not begin with a comment that states its purpose")
        if source.count("\n") > OPERATION_LINES_MAX:
            found.append(f"{name}.lua: longer than {OPERATION_LINES_MAX} lines; move code to lib/")
        found += [f"{name}.lua: its `uses:` line lacks {used}" for used in missing_uses(source, None)]
        hidden = scripts.shadowed_names(source, tuple(scripts.uses(source)))
        found += [f"{name}.lua: {word} hides a name of a file that it uses; rename it" for word in hidden]
    for name in scripts.shared_files():
        source = scripts.shared_source(name)
        if "-- " not in source.split("\nlocal", 1)[0]:
            found.append(f"lib/{name}.lua: does not begin with a comment that states its purpose")
        found += [f"lib/{name}.lua: its `uses:` line lacks {used}" for used in missing_uses(source, name)]
        hidden = scripts.shadowed_names(source, tuple(scripts.uses(source)), scripts.exports(name))
        found += [f"lib/{name}.lua: {word} hides a name of a file that it uses; rename it" for word in hidden]
    return found


if __name__ == "__main__":
    complaints = problems()
    print("\n".join(complaints) or f"{len(scripts.operations())} Lua operations are in order.")
    sys.exit(bool(complaints))
