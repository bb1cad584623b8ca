"""Engine code: the Lua files, joined into one function library or into one script per operation.

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

from windlass.core import durable
from windlass.core.event import EventKind
from windlass.core.job import Flag
from windlass.core.log import BYTES_KEPT, LINES_KEPT
from windlass.core.queue import FIXED_LEASE_PREFIX, Configuration
from windlass.core.states import State

_LUA = files("windlass.store") / "lua"
_REQUIRE = re.compile(r"\brequire\(?'([\w.]+)'|\brequire '([\w.]+)'")
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
_SCRIPT = """local operation, fast_path = (function()
%(body)s
end)()
return modules['script'].run(operation, fast_path, KEYS[1], ARGV)"""


class Library:
    """Name and source of a function library. `source` may be a function that builds it: that takes longer than most
    calls, and is not needed if the engine has the library."""

    def __init__(self, name: str, source: str | Callable[[], str], suffix: str) -> None:
        self.name = name
        self.suffix = suffix  # of its functions' names
        self._source = source
        self._functions: dict[str, str] = {}

    @cached_property
    def source(self) -> str:
        return self._source if isinstance(self._source, str) else self._source()

    def function(self, operation: str) -> str:
        found = self._functions.get(operation)
        if found is None:
            found = self._functions[operation] = f"{operation}_{self.suffix}"
        return found


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


def flags(source: str) -> list[str]:
    found = _FLAGS.search(source)
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
        "LOG": {"lines_kept": LINES_KEPT, "bytes_kept": BYTES_KEPT},
        "DEFAULT": {field: int(getattr(defaults, field)) for field in defaults.__struct_fields__},
    }
    lines = [f"{name} = {_table(entries)}," for name, entries in tables.items()]
    return "\n".join(["return {", *lines, f"FIXED_LEASE_PREFIX = '{FIXED_LEASE_PREFIX}',", "}"])


def _table(entries: dict[str, int]) -> str:
    return f"{{{', '.join(f'{key} = {value}' for key, value in entries.items())}}}"


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return these modules and all that they require, each after those that it requires."""
    order: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in order:
            for inner in requires(module_source(name)):
                visit(inner)
            order[name] = None

    for name in names:
        visit(name)
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
    suffix = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    name = f"windlass_{suffix}"
    return Library(name, lambda: _join_library(name, suffix), suffix)


def _join_library(name: str, suffix: str) -> str:
    functions = [_function(operation, suffix) for operation in operations()]
    return "\n".join([f"#!lua name={name}", join_modules(modules()), "local run = modules['script'].run", *functions])


@cache
def script(operation: str) -> str:
    """Return an operation as a script of its own, for engines that offer EVAL but no functions."""
    source = operation_source(operation)
    shared = join_modules(["script", *requires(source)])
    head = f"#!lua flags={','.join(flags(source))}" if flags(source) else "#!lua"
    return "\n".join([head, shared, _SCRIPT % {"body": _without_comments(source)}])
