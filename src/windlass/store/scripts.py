"""Engine code: the Lua files, joined into one function library, or into one script per operation for engines without
functions.

A file of `lua/lib` is a module: it ends with `return <its table>` and names the modules that it uses with `require`. A
file of an operation returns a function of the call's arguments and, if it has one, its fast path. The loader only joins
files, each in its own scope; it changes no name. The library is named by its hash, so that two versions of Windlass can
share an engine.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from windlass.core import durable
from windlass.core.event import EventKind
from windlass.core.job import Flag
from windlass.core.log import BYTES_KEPT, LINES_KEPT
from windlass.core.namespace.format import SINCE, WITH_STEPS
from windlass.core.queue import FIXED_LEASE_PREFIX, Configuration
from windlass.core.states import State

_LUA = files("windlass.store") / "lua"
_REQUIRE = re.compile(r"\brequire\(?'([\w.]+)'|\brequire '([\w.]+)'")
_COMPANIONS = re.compile(r"^-- with: (.+)$", re.MULTILINE)
_FLAGS = re.compile(r"^-- flags: (.+)$", re.MULTILINE)
_COMMENT = re.compile(r"(^|\s)--\s.*")
_CONSTANTS = "constants"  # a module that is made here, from values that Python defines

_PRELUDE = """local modules = {}
local function require(name) return modules[name] end
"""
_MODULE = """modules['%(name)s'] = (function()
%(body)s
end)()"""
_FUNCTION = """do
local operation, fast_path = (function()
%(body)s
end)()
redis.register_function{
  function_name = '%(name)s',
  callback = function(keys, arguments) return run(operation, fast_path, keys[1], arguments) end,
  flags = {%(flags)s},
}
end"""
# An engine keeps nothing of a script between calls, so each call builds its modules again: all of them, in one order,
# since they register functions for the end of a call.
# A script without keys is only loaded: `EVAL script 0` needs no permission but that of EVAL.
_SCRIPT = """%(head)s
if not KEYS[1] then return end
%(modules)s
local operation, fast_path = (function()
%(body)s
end)()
return modules['script'].run(operation, fast_path, KEYS[1], ARGV)"""


class Script(NamedTuple):
    source: str
    sha: str  # the engine's name for it


class Library:
    """Code of all operations: the name and source of a function library, and one script per operation. The sources are
    built on demand: that takes longer than most calls, and is not needed if the engine has the code."""

    def __init__(self, suffix: str, rewrite: Callable[[str], str] = str) -> None:
        self.suffix = suffix  # of the names of its functions
        self.name = f"windlass_{suffix}"
        self._rewrite = rewrite  # applied to every source
        self._functions: dict[str, str] = {}
        self._scripts: dict[str, Script] = {}
        self._operations: dict[str, str] = {}  # by the hash of their script

    @cached_property
    def source(self) -> str:
        return self._rewrite(_join_library(self.name, self.suffix))

    def function(self, operation: str) -> str:
        found = self._functions.get(operation)
        if found is None:
            found = self._functions[operation] = f"{operation}_{self.suffix}"
        return found

    def script(self, operation: str) -> Script:
        found = self._scripts.get(operation)
        if found is None:
            source = self._rewrite(_join_script(operation))
            found = Script(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
            self._scripts[operation] = found
            self._operations[found.sha] = operation
        return found

    def operation_of(self, sha: str) -> str:
        """Return the operation of a script that this library has built."""
        return self._operations[sha]

    def rewritten(self, mark: str, rewrite: Callable[[str], str]) -> Library:
        """Return a library of its own name whose sources are rewritten, after those of this library."""
        return Library(f"{self.suffix}_{mark}", lambda source: rewrite(self._rewrite(source)))


def _lua_files(folder: Traversable, prefix: str = "") -> dict[str, Traversable]:
    """Return the Lua files of a folder by their dotted path."""
    found: dict[str, Traversable] = {}
    for entry in folder.iterdir():
        if entry.is_dir():
            found |= _lua_files(entry, f"{prefix}{entry.name}.")
        elif entry.name.endswith(".lua"):
            found[prefix + entry.name[:-4]] = entry
    return found


@cache
def _operation_files() -> dict[str, Traversable]:
    """Return the files of operations by name. Folders group them; names are unique across folders."""
    folders = [entry for entry in _LUA.iterdir() if entry.is_dir() and entry.name != "lib"]
    return {path: file for folder in folders for path, file in _lua_files(folder).items()}


@cache
def _module_files() -> dict[str, Traversable]:
    return _lua_files(_LUA / "lib")


@cache
def operations() -> tuple[str, ...]:
    return tuple(sorted(_operation_files()))


@cache
def operation_source(name: str) -> str:
    return _operation_files()[name].read_text()


@cache
def modules() -> tuple[str, ...]:
    """Return all modules, each after the modules that it requires."""
    return _in_order(sorted(_module_files()))


@cache
def module_source(name: str) -> str:
    return constants() if name == _CONSTANTS else _module_files()[name].read_text()


def requires(source: str) -> list[str]:
    """Return the modules that a source requires itself."""
    return [first or second for first, second in _REQUIRE.findall(source)]


def companions(source: str) -> list[str]:
    """Return the modules that must be loaded wherever this source is, though it does not call them: they handle what it
    leaves behind at the end of a call."""
    return _listed(_COMPANIONS, source)


def flags(source: str) -> list[str]:
    return _listed(_FLAGS, source)


def _listed(header: re.Pattern[str], source: str) -> list[str]:
    found = header.search(source)
    return [word.strip() for word in found[1].split(",")] if found else []


def constants() -> str:
    """Return the module of the constants that Lua and Python share. Python defines them."""
    defaults = Configuration()
    tables = {
        "STATE": {state.label: state.value for state in State},
        "FLAG": {str(flag.name).lower(): flag.value for flag in Flag},
        "EVENT": {happening.label: happening.value for happening in EventKind},
        "STEP_KIND": {kind.label: kind.value for kind in durable.StepKind},
        "STEP_STATUS": {status.label: status.value for status in durable.StepStatus},
        "DURABLE": {
            "steps_max": durable.STEPS_MAX,
            "steps_bytes_max": durable.STEPS_BYTES_MAX,
            "suspensions_max": durable.SUSPENSIONS_MAX,
            "signals_max": durable.SIGNALS_MAX,
            "stream_values_max": durable.STREAM_VALUES_MAX,
            "stream_kept_ms": durable.STREAM_KEPT_MS,
            "stream_bytes_max": durable.STREAM_BYTES_MAX,
        },
        "FORMAT": {"with_steps": WITH_STEPS},
        "LOG": {"lines_kept": LINES_KEPT, "bytes_kept": BYTES_KEPT},
        "DEFAULT": {field: int(getattr(defaults, field)) for field in defaults.__struct_fields__ if field != "index"},
    }
    lines = [f"{name} = {_table(entries)}," for name, entries in tables.items()]
    lines += [f"FIXED_LEASE_PREFIX = '{FIXED_LEASE_PREFIX}',", f"STEPS_NEED_VERSION = '{SINCE[WITH_STEPS]}',"]
    return "\n".join(["return {", *lines, "}"])


def _table(entries: dict[str, int]) -> str:
    return f"{{{', '.join(f'{key} = {value}' for key, value in entries.items())}}}"


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return these modules, all that they require and their companions, each after those that it requires."""
    order: dict[str, None] = {}
    unsatisfied = [*names]

    def visit(name: str) -> None:
        if name not in order:
            for inner in requires(module_source(name)):
                visit(inner)
            order[name] = None
            unsatisfied.extend(companions(module_source(name)))

    while unsatisfied:
        visit(unsatisfied.pop(0))
    return tuple(order)


def _without_comments(source: str) -> str:
    lines = (_COMMENT.sub("", line).rstrip() for line in source.splitlines())
    return "\n".join(line for line in lines if line)


def join_modules(names: Iterable[str]) -> str:
    """Return Lua code that defines these modules, and all that they require, in a table `modules`."""
    parts = [_MODULE % {"name": name, "body": _without_comments(module_source(name))} for name in _in_order(names)]
    return "\n".join([_PRELUDE, *parts])


def _function(name: str, suffix: str) -> str:
    source = operation_source(name)
    quoted = ", ".join(f"'{flag}'" for flag in flags(source))
    return _FUNCTION % {"body": _without_comments(source), "name": f"{name}_{suffix}", "flags": quoted}


@cache
def library() -> Library:
    """Return the library, named by the hash of all its sources, including this file."""
    parts = [constants(), files("windlass.store").joinpath("scripts.py").read_text()]
    parts += [module_source(name) for name in modules()]
    parts += [f"{name}\n{operation_source(name)}" for name in operations()]
    return Library(hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12])


def _join_library(name: str, suffix: str) -> str:
    functions = [_function(operation, suffix) for operation in operations()]
    return "\n".join([f"#!lua name={name}", join_modules(modules()), "local run = modules['script'].run", *functions])


def _join_script(operation: str) -> str:
    source = operation_source(operation)
    return _SCRIPT % {
        "head": f"#!lua flags={','.join(flags(source))}" if flags(source) else "#!lua",
        "modules": join_modules(["script", *requires(source)]),
        "body": _without_comments(source),
    }
