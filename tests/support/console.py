"""The command line run in this process, as `windlass …` runs it: with its exit code, stdout and stderr apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from click.testing import CliRunner

from windlass.cli.main import main
from windlass.service import Service


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.out.splitlines()]

    @property
    def lines(self) -> list[Any]:
        """Of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def environment(service: Service) -> dict[str, str]:
    store = service.store
    store.open_sync()
    return {"WINDLASS_URL": str(store.endpoint), "WINDLASS_NAMESPACE": store.namespace, "WINDLASS_PATIENCE": "10s"}


def run(service: Service, *arguments: str, given: bytes = b"") -> Done:
    return done_by(*arguments, given=given, settings=environment(service))


def done_by(*arguments: str, given: bytes = b"", settings: Mapping[str, str] | None = None) -> Done:
    """Run with these settings in its environment."""
    with CliRunner().isolation(input=given, env=settings) as (out, err, _):
        try:
            main(list(arguments))
        except SystemExit as end:
            return Done(int(end.code or 0), out.getvalue().decode(), err.getvalue().decode())
    raise AssertionError("main always ends by an exit code")


def did(service: Service, *arguments: str, given: bytes = b"") -> Done:
    """Run, and it went well."""
    done = run(service, *arguments, given=given)
    assert done.code == 0, done
    return done
