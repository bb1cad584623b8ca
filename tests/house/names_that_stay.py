"""Names that users, stored data and other programs rely on, collected from the code.

The list may grow; its names never change. `python tools/write_names_that_stay.py` writes it to `names_that_stay.json`
after an addition."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import logging
import pkgutil
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import click
import msgspec

import windlass
from windlass import aliases, contrib, engine_api
from windlass.cli import main as command_line
from windlass.core import diagnosis, errors
from windlass.core.event import EventKind
from windlass.core.job import Codec, Flag, Job
from windlass.core.states import State
from windlass.dialects.bedrock.refusals import STATUS_LINES
from windlass.dialects.bedrock.verbs import VERBS
from windlass.dialects.lightjq import openapi_document as lightjq_document
from windlass.dialects.stdio.logs import log_line
from windlass.downloads.api import openapi_document as downloader_document
from windlass.sdk import push
from windlass.sdk.worker.logs import JsonFormatter
from windlass.server.server import ROUTES
from windlass.settings import Settings
from windlass.store.records import record
from windlass.web.app.router import Router
from windlass.web.docs.openapi import build_document

FILE = Path(__file__).with_name("names_that_stay.json")
Names: TypeAlias = list[str]
ALIASES = "windlass.sdk.contrib."
_METRIC = re.compile(r'"(windlass_[a-z_]+)"')


def collect() -> dict[str, Names]:
    routes = Router(ROUTES).routes
    documents = {
        "api": build_document(routes),
        "lightjq": lightjq_document.self_description(routes),
        "downloader": downloader_document.self_description(routes),
    }
    found: dict[str, Iterable[str]] = {
        "python": _python_names(),
        "entry points": _entry_points(),
        "settings": Settings.__struct_fields__,
        "command line": _commands(command_line.windlass, "windlass"),
        "routes": (f"{route.method} {route.path}" for route in routes),
        "audited actions": (route.operation for route in routes if route.is_audited),
        "openapi operations": (name for key, made in documents.items() for name in _operations(key, made)),
        "openapi fields": (name for key, made in documents.items() for name in _fields(key, made)),
        "error codes": _error_codes(),
        "doctor findings": diagnosis.MEANINGS,
        "bedrock commands": (verb.name for verb in VERBS.values()),
        "bedrock refusals": (f"{kind.code}: {status} {line}" for kind, (status, line) in STATUS_LINES.items()),
        "json log keys": _log_keys(),
        "metrics and cookies": _metrics(),
        "states": _members(State),
        "event kinds": _members(EventKind),
        "flags of a record": _members(Flag),
        "codecs": _members(Codec),
        "record": _record(),
        "fields of a job": Job.__struct_fields__,
    }
    return {section: sorted(names) for section, names in found.items()}


def read() -> dict[str, Names]:
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Names])


def write() -> None:
    FILE.write_text(json.dumps(collect(), indent=1, ensure_ascii=False) + "\n")


def _python_names() -> Iterator[str]:
    """Yield names that programs import. Modules of extras come with their public functions and classes."""
    yield from (f"windlass.{name}" for name in windlass.__all__)
    yield from (f"{push.__name__}.{name}" for name in push.__all__)
    yield from (f"{engine_api.__name__}.{name}" for name in engine_api.__all__)
    yield from (path for path in aliases.FORMER_MODULES if not path.startswith(ALIASES))
    for module in pkgutil.walk_packages(contrib.__path__, f"{contrib.__name__}."):
        yield module.name
    for extra in ("opentelemetry", "opentelemetry_metrics", "prometheus", "sentry"):
        yield from _defined_in(importlib.import_module(f"{contrib.__name__}.{extra}"))
    yield f"{contrib.__name__}.django.WindlassBackend"
    yield from (name for name in read()["python"] if name.startswith(ALIASES) and _resolves(name))


def _resolves(name: str) -> bool:
    """Return whether a former path still leads to a module, or to a name in a module."""
    if name.endswith("django.WindlassBackend"):  # its module needs settings of Django to be imported
        name = f"{ALIASES}django.backend"
    module, _, attribute = name.rpartition(".")
    if attribute[0].isupper() or attribute == "instrument" or attribute.startswith("serve_"):
        return hasattr(importlib.import_module(module), attribute)
    return importlib.util.find_spec(name) is not None


def _defined_in(module: Any) -> Iterator[str]:
    for name, value in vars(module).items():
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__:
            yield f"{module.__name__}.{name}"


def _entry_points() -> Iterator[str]:
    for point in importlib.metadata.distribution("windlass-queue-client").entry_points:
        yield f"{point.group}: {point.name}"


def _commands(command: click.Command, path: str) -> Iterator[str]:
    """Yield the subcommands of a group with their arguments and options."""
    context = click.Context(command)
    for parameter in command.params:
        yield f"{path} {' '.join(parameter.opts + parameter.secondary_opts)}"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield f"{path} {name}"
            found = command.get_command(context, name)
            assert found is not None, name
            yield from _commands(found, f"{path} {name}")


def _operations(key: str, made: dict[str, Any]) -> Iterator[str]:
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            about = f"{key} {operation['operationId']}"
            yield f"{about}: {method.upper()} {path}"
            yield from (f"{about} {found['in']} {found['name']}" for found in operation.get("parameters", ()))


def _fields(key: str, made: dict[str, Any]) -> Iterator[str]:
    for component, schema in made["components"]["schemas"].items():
        yield f"{key} {component}"
        yield from (f"{key} {component}.{field}" for field in schema.get("properties", ()))


def _error_codes() -> Iterator[str]:
    """Yield the codes of all modules. All modules are loaded first, because only loaded classes are found."""
    for module in pkgutil.walk_packages(windlass.__path__, "windlass."):
        if not module.name.startswith((contrib.__name__, ALIASES, "windlass.__main__")):
            importlib.import_module(module.name)
    yield from {kind.code for kind in _subclasses(errors.WindlassError) if kind.__module__.startswith("windlass.")}


def _subclasses(kind: type[errors.WindlassError]) -> Iterator[type[errors.WindlassError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _subclasses(below)


def _log_keys() -> Iterator[str]:
    written = logging.makeLogRecord({"msg": "x", "exc_info": (ValueError, ValueError("x"), None)})
    written.__dict__.update(job_id="1", task_name="n", attempt=1, queue_name="q")
    yield from (f"worker {key}" for key in json.loads(JsonFormatter().format(written)))
    yield from (f"processor {key}" for key in json.loads(log_line(written)))


def _metrics() -> set[str]:
    """Return the names of metrics and cookies, which are whole literals in the code."""
    code = Path(windlass.__file__).parent.rglob("*.py")
    return {name for file in code for name in _METRIC.findall(file.read_text())}


def _members(kind: Any) -> Iterator[str]:
    yield from (f"{member.name} {member.value}" for member in kind)


def _record() -> Iterator[str]:
    """Yield the parts of a stored job record (lua/lib/jobs/record.lua is its Lua side)."""
    yield f"format {record.FORMAT}"
    yield f"header {record.HEADER.format}"
    info = msgspec.structs.fields(record.Extras)
    yield from (f"extra {field.encode_name} {field.name}" for field in info)
