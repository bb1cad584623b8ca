"""Form of the Lua files, as `tools/check_lua.py` checks it, and the names of keys on both sides."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from tools import check_lua

from tests.house.source_tree import parse, python_files, relative
from windlass.store import scripts

BELOW_ROOT = re.compile(r"(root|namespace)(\(.*\))?$")  # expressions that stand for a root or a namespace
KEYS_MODULE = "src/windlass/store/keys.py"
OPERATION = """-- Do a thing.
-- arguments: id
-- returns:   1
-- refusals:  none
local keys = require 'keys'

return function(_, id)
  return redis.call('DEL', keys.job(id))
end
"""
Check = Callable[[str, str], Iterator[str]]


def test_all_lua_files_are_in_order() -> None:
    assert check_lua.problems() == []


def test_a_correct_operation_has_no_problem() -> None:
    checks = (check_lua.check_operation, check_lua.check_form, check_lua.check_requires, check_lua.check_names)
    assert [problem for check in checks for problem in check("wake.lua", OPERATION)] == []


@pytest.mark.parametrize(
    ("check", "old", "new", "problem"),
    [
        (check_lua.check_form, "keys.job(id)", "keys.prefix() .. id", "builds a key"),
        (check_lua.check_form, "keys.job(id)", "keys.root .. ':j:' .. id", "builds a key"),
        (check_lua.check_form, "keys.job(id)", "keys.job(arguments[2])", "arguments[2]: give the argument a name"),
        (check_lua.check_form, "keys.job(id)", "keys.job(ARGV[2])", "ARGV: give the argument a name"),
        (check_lua.check_form, "keys.job(id)", f"keys.job(id .. '{'x' * 90}')", ":8: longer than 120 columns"),
        (check_lua.check_form, "-- Do a thing.", "local first = 1", "does not begin with a comment"),
        (check_lua.check_names, "keys.job(id)", "keys.job(job_id)", "job_id is not declared"),
        (check_lua.check_requires, "redis.call", "local keys = id\n  redis.call", "a local keys hides the module"),
        (check_lua.check_requires, "require 'keys'", "require 'key_names'", "there is no module key_names"),
        (check_lua.check_requires, "keys.job(id)", "id", "requires keys and does not use it"),
        (check_lua.check_operation, "-- refusals:  none\n", "", "no line 'refusals:'"),
        (check_lua.check_operation, "  return", "\n" * 120 + "  return", "longer than 120 lines"),
    ],
)
def test_each_rule_finds_a_violation(check: Check, old: str, new: str, problem: str) -> None:
    assert OPERATION.count(old) == 1
    [found] = check("wake.lua", OPERATION.replace(old, new))
    assert problem in found


def test_the_doctor_knows_every_kind_of_key() -> None:
    """A kind that is missing would be reported as an unknown key in every deployment."""
    names = set(re.findall(r"P \.\. '(\w+)", scripts.module_source("keys")))
    names |= {"failed", "cancelled"}  # by state (STATE_INDEX)
    table = scripts.module_source("doctor.checkup").partition("local KIND = {")[2].partition("\n}\n")[0]
    assert len(names) > 60
    assert set(re.findall(r"^  (\w+) = ", table, re.MULTILINE)) == names


def built_keys(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield texts that join a root or a namespace and the name of a key."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            joined = list(pairwise(node.values))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            joined = [(node.left, node.right)]
        else:
            continue
        if any(is_root(first) and is_key_name(second) for first, second in joined):
            yield node


def is_root(node: ast.expr) -> bool:
    value = node.value if isinstance(node, ast.FormattedValue) else node
    return not isinstance(value, ast.Constant) and BELOW_ROOT.search(ast.unparse(value)) is not None


def is_key_name(node: ast.expr) -> bool:
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and re.match(r":\S|:$", text) is not None


def test_only_one_python_module_builds_keys() -> None:
    found = {
        f"{relative(path)}:{node.lineno}"
        for path in python_files("src")
        if relative(path) != KEYS_MODULE
        for node in built_keys(parse(path))
    }
    assert found == set(), f"name these keys in {KEYS_MODULE}"


@pytest.mark.parametrize(
    ("code", "is_key"),
    [
        ('f"{root}:token"', True),
        ('f"{store.root(0)}:bell:{name}"', True),
        ('f"~{namespace}:*"', True),
        ('self._root + ":events"', True),
        ('root + ":"', True),
        ('f"{namespace}: not found"', False),
        ('f"{host}:{port}"', False),
        ('root + "/file"', False),
    ],
)
def test_a_key_that_python_builds_is_found(code: str, is_key: bool) -> None:
    assert bool(list(built_keys(ast.parse(code)))) is is_key
