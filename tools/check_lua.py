"""Check of the Lua files: headers of operations, `require` lines, names, keys and arguments.

It reads the sources only; the tests load the library into an engine.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from windlass.store import scripts

HEADER = ("arguments:", "returns:", "refusals:")
OPERATION_LINES_MAX = 120
COLUMNS_MAX = 120
# Names that the engine offers to scripts, and Lua's own words.
OFFERED = "redis struct bit cmsgpack string table math"
FUNCTIONS = "unpack tonumber tostring ipairs pairs next select error type pcall require"
KEYWORDS = "and break do else elseif end false for function if in local nil not or repeat return then true until while"
KNOWN = frozenset(f"{OFFERED} {FUNCTIONS} {KEYWORDS}".split())
TEXT = re.compile(r"'(?:\\.|[^'\\\n])*'")
COMMENT = re.compile(r"(^|\s)--\s.*")
DECLARED = (
    re.compile(r"\blocal (?!function)(\w+(?:,\s+\w+)*)(?: =|$)", re.MULTILINE),
    re.compile(r"\blocal function (\w+)"),
    re.compile(r"\bfunction ?[\w.]*\(([\w,\s.]*)\)"),
    re.compile(r"\bfor ([\w, ]+?) (?:in|=) "),
)
WORD = re.compile(r"(?<![.:\w])[A-Za-z_]\w*")
TABLE_KEY = re.compile(r"([{,]\s*)[A-Za-z_]\w* = ")
NUMBERED_ARGUMENT = re.compile(r"\barguments\[\d+\]|\b(?:ARGV|KEYS)\b")
BUILT_KEY = re.compile(r"keys\.(?:root|prefix\(\)) \.\. |\.\. keys\.prefix\(\)")


def code_of(source: str) -> str:
    """Return the source without comments and texts."""
    lines = [COMMENT.sub("", line) for line in source.splitlines()]
    return TEXT.sub("''", "\n".join(lines))


def declared_names(code: str) -> list[str]:
    found = [group for pattern in DECLARED for group in pattern.findall(code)]
    return [word.strip() for group in found for word in group.split(",") if word.strip()]


def check_requires(path: str, source: str) -> Iterator[str]:
    """Every required module exists and is used, and no other name hides it."""
    code = code_of(source)
    body = re.sub(r"^local \w+ = require.*$", "", code, flags=re.MULTILINE)
    names = declared_names(body)
    yield from (
        f"{path}: there is no companion {module}"
        for module in scripts.companions(source)
        if module not in scripts.modules()
    )
    for line in re.findall(r"^local (\w+) = require ?\(?'([\w.]+)'", source, re.MULTILINE):
        name, module = line
        if module != "constants" and module not in scripts.modules():
            yield f"{path}: there is no module {module}"
        if not re.search(rf"(?<![.:\w]){name}\b", body):
            yield f"{path}: requires {module} and does not use it"
        if name in names:
            yield f"{path}: a local {name} hides the module of that name; rename it"


def check_names(path: str, source: str) -> Iterator[str]:
    """Every name is declared in its file: a misspelt name would be a global, which fails only when it is used."""
    code = code_of(source)
    unknown = set(WORD.findall(TABLE_KEY.sub(r"\1", code))) - KNOWN - set(declared_names(code))
    yield from (f"{path}: {word} is not declared" for word in sorted(unknown))


def check_form(path: str, source: str) -> Iterator[str]:
    if not source.startswith("-- "):
        yield f"{path}: does not begin with a comment that states its purpose"
    for number, line in enumerate(source.splitlines(), 1):
        if len(line) > COLUMNS_MAX:
            yield f"{path}:{number}: longer than {COLUMNS_MAX} columns"
    code = code_of(source)
    if path != "lib/script.lua" and (found := NUMBERED_ARGUMENT.search(code)):
        yield f"{path}: {found[0]}: give the argument a name (see lib/script.lua)"
    if path != "lib/keys.lua" and BUILT_KEY.search(source):
        yield f"{path}: builds a key; only lib/keys.lua does"


def check_operation(path: str, source: str) -> Iterator[str]:
    yield from (f"{path}: no line '{part}' in its header" for part in HEADER if f"-- {part}" not in source)
    if source.count("\n") > OPERATION_LINES_MAX:
        yield f"{path}: longer than {OPERATION_LINES_MAX} lines; move code to lib/"


def problems() -> list[str]:
    found: list[str] = []
    operations = {f"{name}.lua": scripts.operation_source(name) for name in scripts.operations()}
    modules = {f"lib/{name.replace('.', '/')}.lua": scripts.module_source(name) for name in scripts.modules()}
    for path, source in operations.items():
        found += check_operation(path, source)
    for path, source in (operations | modules).items():
        if path != "lib/constants.lua":
            found += [*check_form(path, source), *check_requires(path, source), *check_names(path, source)]
    return found


if __name__ == "__main__":
    complaints = problems()
    print("\n".join(complaints) or f"{len(scripts.operations())} Lua operations are in order.")
    sys.exit(bool(complaints))
