"""Joins the Lua files into one function library, named by its hash: two versions of Windlass can share an engine. A
library is loaded once and stays, so a call costs no set-up; each operation is a function in it."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from ..core.event import Happening
from ..core.job import Flag
from ..core.queue import Configuration
from ..core.states import State

_LUA = files("windlass.store") / "lua"
_USES = re.compile(r"^-- uses: (.+)$", re.MULTILINE)
_COMMENT = re.compile(r"(^|\s)--\s.*")
_WORD = re.compile(r"[A-Za-z_]\w*")
_DEFINED = re.compile(r"^local (?P<function>function )?(?P<names>[\w, ]+?)(?P<rest> =|\(|$)", re.MULTILINE)
_FLAGS = re.compile(r"^-- flags: (.+)$", re.MULTILINE)

# Per-call state lives in variables of the library's files: each call starts them afresh.
_PRELUDE = """
local KEYS, ARGV
local at_start = {}
local function start(keys, arguments)
  KEYS, ARGV = keys, arguments
  for i = 1, #at_start do at_start[i]() end
end
"""
_FUNCTION = """
do
local function operation()
%(body)s
end
redis.register_function{
  function_name = '%(name)s',
  callback = function(keys, arguments) start(keys, arguments) return operation() end,
  flags = {%(flags)s},
}
end
"""


class Library(NamedTuple):
    name: str
    source: str
    suffix: str  # of its functions' names

    def function(self, operation: str) -> str:
        return f"{operation}_{self.suffix}"


def _table(name: str, entries: dict[str, int]) -> str:
    return f"local {name} = {{{', '.join(f'{key} = {value}' for key, value in entries.items())}}}"


def constants() -> str:
    """What Lua and Python must agree on, written once, in Python."""
    defaults = Configuration()
    return "\n".join(
        (
            _table("STATE", {state.label: state.value for state in State}),
            _table("FLAG", {str(flag.name).lower(): flag.value for flag in Flag}),
            _table("EVENT", {happening.label: happening.value for happening in Happening}),
            _table("DEFAULT", {field: int(getattr(defaults, field)) for field in defaults.__struct_fields__}),
        )
    )


@cache
def operations() -> tuple[str, ...]:
    return tuple(sorted(entry.name[:-4] for entry in _LUA.iterdir() if entry.name.endswith(".lua")))


def operation_source(name: str) -> str:
    return (_LUA / f"{name}.lua").read_text()


@cache
def shared_files() -> tuple[str, ...]:
    """The files of lib/, each after those it uses."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name not in order:
            for inner in uses(shared_source(name)):
                visit(inner)
            order.append(name)

    for entry in sorted(entry.name[:-4] for entry in (_LUA / "lib").iterdir()):
        visit(entry)
    return tuple(order)


def shared_source(name: str) -> str:
    return (_LUA / "lib" / f"{name}.lua").read_text()


def uses(source: str) -> list[str]:
    found = _USES.search(source)
    return [word.strip() for word in found[1].split(",")] if found else []


def flags(source: str) -> list[str]:
    found = _FLAGS.search(source)
    return [word.strip() for word in found[1].split(",")] if found else []


def _without_comments(source: str) -> str:
    lines = (_COMMENT.sub("", line).rstrip() for line in source.splitlines())
    return "\n".join(line for line in lines if line)


def _function(name: str, suffix: str) -> str:
    source = operation_source(name)
    quoted = ", ".join(f"'{flag}'" for flag in flags(source))
    return _FUNCTION % {"body": _without_comments(source), "name": f"{name}_{suffix}", "flags": quoted}


def _words_elsewhere(name: str) -> set[str]:
    others = [shared_source(other) for other in shared_files() if other != name]
    others += [operation_source(operation) for operation in operations()]
    return {word for source in others for word in _WORD.findall(_without_comments(source))}


def _scoped(name: str) -> str:
    """A shared file in a block of its own, with what others use declared before it: Lua allows 200 locals at a time."""
    source, words = _without_comments(shared_source(name)), _words_elsewhere(name)
    exported: list[str] = []

    def reveal(found: re.Match[str]) -> str:
        names = [word.strip() for word in found["names"].split(",")]
        if not words.intersection(names):
            return found[0]
        exported.extend(names)
        if found["function"]:
            return f"function {found['names']}{found['rest']}"
        return f"{found['names']}{found['rest']}" if found["rest"] else ""

    body = _DEFINED.sub(reveal, source)
    return f"local {', '.join(exported)}\ndo\n{body}\nend" if exported else f"do\n{body}\nend"


@cache
def library() -> Library:
    shared = "\n".join([constants(), _PRELUDE, *(_scoped(name) for name in shared_files())])
    content = shared + "".join(_function(name, "") for name in operations())
    suffix = hashlib.sha256(content.encode()).hexdigest()[:12]
    name = f"windlass_{suffix}"
    source = f"#!lua name={name}\n" + shared + "".join(_function(one, suffix) for one in operations())
    return Library(name, source, suffix)
