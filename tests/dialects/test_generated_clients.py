"""Clients that code generators make of our OpenAPI documents, and a linter's findings in these. The set-up installs the
programs (`make setup test-packages`); without them the tests fail."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass.dialects.examples import EXAMPLES
from windlass.dialects.lightjq.openapi_document import self_description as lightjq_description
from windlass.dialects.lightjq.openapi_document import worker_description
from windlass.downloads.api.openapi_document import self_description as downloader_description
from windlass.server.server import ROUTES
from windlass.web.app.router import Router
from windlass.web.docs.openapi import build_document

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / ".generators" / "node_modules" / ".bin"
PYTHON_CLIENT_SETTINGS = ROOT / "tests" / "generators" / "python_client.yaml"
SERVED = Router(ROUTES).routes
DOCUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "main": lambda: build_document(SERVED, EXAMPLES),
    "lightjq": lambda: lightjq_description(SERVED),
    "worker": lambda: worker_description(SERVED),
    "downloader": lambda: downloader_description(SERVED),
}
each_document = pytest.mark.parametrize("name", DOCUMENTS)
# Nothing may leave this machine.
QUIET = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
MINIMAL_BODIES = """\
import type { operations } from "./main";

type Body<Name extends keyof operations> = operations[Name] extends {
    requestBody?: { content: { "application/json": infer Content } };
} ? Content : never;

export const enqueue: Body<"enqueue"> = { queue: "mail", name: "send" };
export const enqueueMany: Body<"enqueue_many"> = { items: [{ queue: "mail", name: "send", retry: { tries: 5 } }] };
export const take: Body<"take"> = { queues: ["mail"] };
export const finish: Body<"finish"> = { token: 7 };
export const fail: Body<"fail"> = { token: 7 };

// Without a required field, or with a wrong one, the compiler refuses a body.
// @ts-expect-error
export const withoutName: Body<"enqueue"> = { queue: "mail" };
// @ts-expect-error
export const unknownField: Body<"take"> = { queues: ["mail"], leased_for: 7 };
"""


def _run(folder: Path, *command: str | Path) -> str:
    ended = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=os.environ | QUIET,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    output = ended.stdout + ended.stderr
    assert ended.returncode == 0, output[-5000:]
    return output


def _write(name: str, folder: Path) -> Path:
    file = folder / f"{name}.json"
    file.write_bytes(msgspec.json.encode(DOCUMENTS[name]()))
    return file


@each_document
def test_redocly_finds_no_error_and_no_unused_component(name: str, tmp_path: Path) -> None:
    output = _run(tmp_path, PROGRAMS / "redocly", "lint", "--format=stylish", _write(name, tmp_path))
    assert "no-unused-components" not in output, output
    assert "valid" in output


@each_document
def test_no_request_has_a_field_that_a_generator_takes_for_required(name: str) -> None:
    written = DOCUMENTS[name]()
    schemas = written["components"]["schemas"]
    bodies = [one["requestBody"] for path in written["paths"].values() for one in path.values() if "requestBody" in one]
    seen = list(_schemas_in(bodies, schemas, set()))
    assert seen
    assert [schema for schema in seen if any("default" in one for one in schema.get("properties", {}).values())] == []


def _schemas_in(part: Any, schemas: dict[str, Any], known: set[str]) -> Iterator[dict[str, Any]]:
    if isinstance(part, list):
        for inner in part:
            yield from _schemas_in(inner, schemas, known)
    elif isinstance(part, dict):
        name = str(part.get("$ref", "")).rpartition("/")[2]
        if name and name not in known:
            known.add(name)
            yield schemas[name]
            yield from _schemas_in(schemas[name], schemas, known)
        yield from _schemas_in(list(part.values()), schemas, known)


def test_a_default_is_told_in_words() -> None:
    fields = DOCUMENTS["main"]()["components"]["schemas"]["NewJob"]["properties"]
    assert fields["priority"]["description"] == "Smaller values run first. Default: `0`."
    assert fields["retake"]["description"] == "Default: `false`."
    assert "description" not in fields["lane"]  # empty, when it is not given, as one would think


def test_a_typescript_client_accepts_minimal_bodies(tmp_path: Path) -> None:
    """With the generator's own defaults."""
    types = [_types_of(name, tmp_path) for name in DOCUMENTS]
    (tmp_path / "minimal.ts").write_text(MINIMAL_BODIES)
    _run(tmp_path, PROGRAMS / "tsc", "--noEmit", "--strict", "--lib", "es2022", "minimal.ts", *types)


def _types_of(name: str, folder: Path) -> str:
    _run(folder, PROGRAMS / "openapi-typescript", _write(name, folder), "--output", f"{name}.ts")
    return f"{name}.ts"


def test_a_python_client_type_checks(tmp_path: Path) -> None:
    for name in DOCUMENTS:
        generator = Path(sys.executable).with_name("openapi-python-client")
        made = ["--path", str(_write(name, tmp_path)), "--meta", "none", "--output-path", f"{name}_client"]
        _run(tmp_path, generator, "generate", "--config", PYTHON_CLIENT_SETTINGS, *made)
    clients = [f"{name}_client" for name in DOCUMENTS]
    assert (tmp_path / "main_client" / "models" / "new_job.py").exists()
    _run(tmp_path, sys.executable, "-m", "mypy", "--strict", "--config-file=", *clients)
