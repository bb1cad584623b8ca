"""Function library: the Lua files joined into one source, with one function per operation.

The library is named by its hash, so that two versions of Windlass can share an engine. The engine keeps it, so a call
needs no set-up.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable

from windlass.core.event import EventKind
from windlass.core.job import Flag
from windlass.core.log import BYTES_KEPT, LINES_KEPT
from windlass.core.queue import Configuration
from windlass.core.states import State

_LUA = files("windlass.store") / "lua"
_USES = re.compile(r"^-- uses: (.+)$", re.MULTILINE)
_COMMENT = re.compile(r"(^|\s)--\s.*")
_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|\d[\w.]*|[=~<>]=|\.\.\.?|\s+|.", re.DOTALL)
_INNER = re.compile(
    r"^[ \t]+local (?:function )?([\w, ]+?)(?: =|\(|$)|\bfunction ?[\w.]*\(([\w, ]*)\)|\bfor ([\w, ]+) (?:in|=)",
    re.MULTILINE,
)
# Files on the path of every job: their names are locals. Names of other files are table fields, which cost a look-up.
_HOT_FILES = frozenset(
    (
        "keys",
        "clock",
        "batch",
        "record",
        "new_record",
        "config",
        "lanes",
        "index",
        "counters",
        "ending",
        "order",
        "plain",
    )
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_DEFINED = re.compile(r"^local (?P<function>function )?(?P<names>[\w, ]+?)(?P<rest> =|\(|$)", re.MULTILINE)
_FLAGS = re.compile(r"^-- flags: (.+)$", re.MULTILINE)
_FIRST = re.compile(r"^-- first: (\w+)$", re.MULTILINE)

# Per-call state lives in variables of the library's files, which each call resets. The fast path of an operation runs
# after `begin` and before `start`: most calls end there and need no more.
_PRELUDE = """
local KEYS, ARGV
local at_begin, at_start = {}, {}
-- A table that a call left empty is used by the next call, too.
local function clean(table_of_call)
  if table_of_call and next(table_of_call) == nil then return table_of_call end
  return {}
end
local function begin(keys, arguments)
  KEYS, ARGV = keys, arguments
  for i = 1, #at_begin do at_begin[i]() end
end
local function start()
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
  callback = function(keys, arguments)
    begin(keys, arguments)
    %(first)sstart()
    return operation()
  end,
  flags = {%(flags)s},
}
end
"""


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


def _table(name: str, entries: dict[str, int]) -> str:
    return f"local {name} = {{{', '.join(f'{key} = {value}' for key, value in entries.items())}}}"


def constants() -> str:
    """Return Lua tables of the constants that Lua and Python share. Python defines them."""
    defaults = Configuration()
    return "\n".join(
        (
            _table("STATE", {state.label: state.value for state in State}),
            _table("FLAG", {str(flag.name).lower(): flag.value for flag in Flag}),
            _table("EVENT", {happening.label: happening.value for happening in EventKind}),
            _table("LOG", {"lines_kept": LINES_KEPT, "bytes_kept": BYTES_KEPT}),
            _table("DEFAULT", {field: int(getattr(defaults, field)) for field in defaults.__struct_fields__}),
        )
    )


def _lua_files(folder: Traversable) -> Iterator[Traversable]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _lua_files(entry)
        elif entry.name.endswith(".lua"):
            yield entry


@cache
def _operation_files() -> dict[str, Traversable]:
    """Return the files of operations by name. Folders group them; names are unique across folders."""
    folders = [entry for entry in _LUA.iterdir() if entry.is_dir() and entry.name != "lib"]
    return {file.name[:-4]: file for folder in folders for file in _lua_files(folder)}


@cache
def _shared_paths() -> dict[str, Traversable]:
    return {file.name[:-4]: file for file in _lua_files(_LUA / "lib")}


@cache
def operations() -> tuple[str, ...]:
    return tuple(sorted(_operation_files()))


@cache
def operation_source(name: str) -> str:
    return _operation_files()[name].read_text()


@cache
def shared_files() -> tuple[str, ...]:
    """Return the files of lib/, each after the files that it uses."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name not in order:
            for inner in uses(shared_source(name)):
                visit(inner)
            order.append(name)

    # Lua allows 200 locals at a time, and each file adds to those of the files before it: large files come first.
    for name in sorted(_shared_paths(), key=lambda name: (-len(_DEFINED.findall(shared_source(name))), name)):
        visit(name)
    return tuple(order)


@cache
def shared_source(name: str) -> str:
    return _shared_paths()[name].read_text()


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
    visible = _qualified_names(tuple(uses(source)))
    tried = _FIRST.search(source)
    first = f"local answer = {visible[tried[1]]}()\n    if answer then return answer end\n    " if tried else ""
    body = _qualify(_without_comments(source), visible)
    return _FUNCTION % {"body": body, "name": f"{name}_{suffix}", "flags": quoted, "first": first}


@cache
def _words(source: str) -> frozenset[str]:
    return frozenset(_WORD.findall(_without_comments(source)))


@cache
def exports(name: str) -> tuple[str, ...]:
    """Return the names that a shared file defines and others use."""
    others = [shared_source(other) for other in shared_files() if other != name]
    others += [operation_source(operation) for operation in operations()]
    tried = frozenset(word for source in others for word in _FIRST.findall(source))
    elsewhere = tried.union(*(_words(source) for source in others))
    found: list[str] = []
    for match in _DEFINED.finditer(_without_comments(shared_source(name))):
        names = [word.strip() for word in match["names"].split(",")]
        found += names if elsewhere.intersection(names) else []
    return tuple(found)


@cache
def reachable(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return these files and all files that they use."""
    found: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in found:
            found[name] = None
            for inner in uses(shared_source(name)):
                visit(inner)

    for name in names:
        visit(name)
    return tuple(found)


def _qualified_names(names: tuple[str, ...]) -> dict[str, str]:
    """Return the exports of shared files that are fields of their file's table, with their qualified names."""
    return {word: f"{name}_.{word}" for name in reachable(names) if name not in _HOT_FILES for word in exports(name)}


def _qualify(source: str, fields: dict[str, str]) -> str:
    """Return the source with the names in `fields` qualified, except keys of tables and fields of other tables."""
    written: list[str] = []
    depth, before, words = 0, "", _TOKEN.findall(source)
    for at, word in enumerate(words):
        if word in fields and before not in (".", ":"):
            after = next((token for token in words[at + 1 :] if not token.isspace()), "")
            is_key = depth > 0 and before in ("{", ",") and after == "="
            written.append(word if is_key else fields[word])
        else:
            written.append(word)
        depth += (word == "{") - (word == "}")
        before = before if word.isspace() else word
    return "".join(written)


def shadowed_names(source: str, names: tuple[str, ...], own: tuple[str, ...] = ()) -> set[str]:
    """Return names that a source defines itself although a file it uses exports them: they would be qualified."""
    code = _without_comments(source)
    inner = {word.strip() for groups in _INNER.findall(code) for group in groups for word in group.split(",")}
    outer = {word.strip() for match in _DEFINED.finditer(code) for word in match["names"].split(",")}
    return (_qualified_names(names).keys() & (inner | outer)) | (set(own) & inner)


def _scope_file(name: str) -> str:
    """Return a shared file in its own block, with its exports declared before it. Lua allows 200 locals at a time, so
    only the exports of the busiest files are locals; the others are fields of the file's table."""
    source, exported = _without_comments(shared_source(name)), exports(name)
    is_hot = name in _HOT_FILES
    fields = {} if is_hot else {word: f"{name}_.{word}" for word in exported}

    def reveal(found: re.Match[str]) -> str:
        names = [word.strip() for word in found["names"].split(",")]
        if names[0] not in exported:
            return found[0]
        written = ", ".join(fields.get(word, word) for word in names)
        if found["function"]:
            return f"function {written}{found['rest']}"
        return f"{written}{found['rest']}" if found["rest"] else ""

    body = _qualify(_DEFINED.sub(reveal, source), {**_qualified_names(tuple(uses(shared_source(name)))), **fields})
    declared = f"local {', '.join(exported)}\n" if is_hot and exported else f"local {name}_ = {{}}\n"
    return f"{declared}do\n{body}\nend"


@cache
def library() -> Library:
    """Return the library, named by the hash of all its sources, including this file."""
    parts = [constants(), files("windlass.store").joinpath("scripts.py").read_text()]
    parts += [shared_source(name) for name in shared_files()]
    parts += [f"{name}\n{operation_source(name)}" for name in operations()]
    suffix = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    name = f"windlass_{suffix}"
    return Library(name, lambda: _join_sources(name, suffix), suffix)


def _join_sources(name: str, suffix: str) -> str:
    shared = [f"#!lua name={name}", constants(), _PRELUDE, *(_scope_file(file) for file in shared_files())]
    return "\n".join([*shared, *(_function(operation, suffix) for operation in operations())])
