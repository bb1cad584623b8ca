"""The command line, run in this process as `windlass …` runs it. Exit code, stdout and stderr are separate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from click.testing import CliRunner

from windlass.cli.main import main
from windlass.service import Service


class CliResult(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.out.splitlines()]

    @property
    def lines(self) -> list[Any]:
        """Lines of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def environment(service: Service) -> dict[str, str]:
    store = service.store
    store.open_sync()
    return {"WINDLASS_URL": str(store.endpoint), "WINDLASS_NAMESPACE": store.namespace, "WINDLASS_PATIENCE": "10s"}


def run(service: Service, *arguments: str, given: bytes = b"") -> CliResult:
    return run_with_settings(*arguments, given=given, settings=environment(service))


def run_with_settings(*arguments: str, given: bytes = b"", settings: Mapping[str, str] | None = None) -> CliResult:
    """Run with these settings in the environment."""
    with CliRunner().isolation(input=given, env=settings) as (out, err, _):
        try:
            main(list(arguments))
        except SystemExit as end:
            return CliResult(int(end.code or 0), out.getvalue().decode(), err.getvalue().decode())
    raise AssertionError("main always ends with an exit code")


def run_ok(service: Service, *arguments: str, given: bytes = b"") -> CliResult:
    """Run, and check that the exit code is 0."""
    done = run(service, *arguments, given=given)
    assert done.code == 0, done
    return done
