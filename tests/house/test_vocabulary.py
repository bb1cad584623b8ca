"""Names use the words of the field: retired private words do not return, and modules are nouns (docs/glossary.md)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import windlass
from tests.house.source_tree import lua_files, parse, python_files, relative

# Words with no everyday use in a job queue's code. They are refused as a part of a name.
_RETIRED = """
    slip slips scatter coalesce gathering chronicle lately keeper holdup debt debts owed kin bell bells wishing
    narrowing staffing trusting intervening producing postponing lifeline reuniting revival upkeep office guest
    desk reception pump telling exchange pulse
"""
# Ordinary words that had a private meaning. They are refused as the whole name of a module or class.
_RETIRED_AS_WHOLE = """
    asked driving straight single drawing link blocking patience ring strike known_limits held standing written
    audience backlog opening trial filled spans wording collecting working acting failing conclude hear weigh draw
    family families by_hand rescue notices ask intake guard later admission actor answering entering seeking
    sharing visit refusing adding concluding handover joining offers overdue parking pick place rank tally
    together walking
"""
# Participles and retired verbs as the whole name of a function.
_RETIRED_FUNCTIONS = "told written shown conclude hear weigh draw asked by_hand wishing"
# Words that are allowed in names of tests, which are sentences.
_ENGLISH = "owed desk office guest exchange reception lately telling pulse gathering producing"
# Gerunds that are nouns of the field.
_FIELD_NOUNS = """
    batching encoding fencing routing scheduling signing streaming testing timing transcoding tuning waiting
    logging rendering polling setting caching finding
"""
RETIRED = frozenset(_RETIRED.split())
RETIRED_AS_WHOLE = frozenset(_RETIRED_AS_WHOLE.split())
RETIRED_FUNCTIONS = frozenset(_RETIRED_FUNCTIONS.split())
ENGLISH = frozenset(_ENGLISH.split())
FIELD_NOUNS = frozenset(_FIELD_NOUNS.split())
WORD_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words_of(name: str) -> list[str]:
    return [word for word in WORD_BORDER.sub("_", name).lower().strip("_").split("_") if word]


def is_retired(name: str, whole_words: frozenset[str], retired: frozenset[str] = RETIRED) -> bool:
    words = words_of(name)
    whole = "_".join(words[1:] if words[:1] == ["test"] else words)
    return whole in whole_words or not retired.isdisjoint(words)


def route_words(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the words of a handler's public paths: a handler may have the name of its route."""
    paths = (call.args[0] for call in node.decorator_list if isinstance(call, ast.Call) and call.args)
    texts = (path.value for path in paths if isinstance(path, ast.Constant) and isinstance(path.value, str))
    return {word for text in texts for word in re.split(r"[/{}_:-]", text)}


def retired_names() -> Iterator[str]:
    for path in python_files("src", "tests", "faults"):
        if is_retired(path.stem, RETIRED_AS_WHOLE):
            yield f"module {relative(path)}"
        yield from (
            f"folder {relative(folder)}" for folder in (path.parent,) if is_retired(folder.name, RETIRED_AS_WHOLE)
        )
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef) and node.name not in windlass.__all__:
                if is_retired(node.name, RETIRED_AS_WHOLE):
                    yield f"class {node.name} in {relative(path)}:{node.lineno}"
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                retired = RETIRED - ENGLISH if node.name.startswith("test_") else RETIRED
                if is_retired(node.name, RETIRED_FUNCTIONS, retired - route_words(node)):
                    yield f"function {node.name} in {relative(path)}:{node.lineno}"
    for path in lua_files():
        if is_retired(path.stem, RETIRED_AS_WHOLE):
            yield f"Lua file {relative(path)}"


def test_retired_words_do_not_return() -> None:
    assert sorted(set(retired_names())) == [], "docs/glossary.md has the words to use instead"


def test_modules_are_nouns() -> None:
    gerunds = {
        relative(path)
        for path in python_files("src", "faults")
        if (words := words_of(path.stem)) and words[-1].endswith("ing") and words[-1] not in FIELD_NOUNS
    }
    assert gerunds == set(), "name the module after what it holds"
