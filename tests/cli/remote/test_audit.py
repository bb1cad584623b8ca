"""Actions of the command line on the engine itself are in the audit log, as those over a server are."""

from __future__ import annotations

import getpass
import socket
from pathlib import Path

import pytest

from tests.migration.source_redis import SourceRedis
from tests.service.helpers import new, put
from tests.support.console import run, run_ok
from windlass.cli.audit.service import AuditedService
from windlass.core.errors import EngineFull
from windlass.service import Service
from windlass.store.commands.command import Flow

from .audited_commands import AUDITED, READ_OVER_A_SERVER, described, read_entries
from .command_cases import CASES, Target
from .conftest import make_token

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
AUTHOR = f"{getpass.getuser()}@{socket.gethostname()}"

MORE = {"jobs signal-url": ["--server", "https://jobs.example.org"]}  # a server knows its address


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_command_on_the_engine_is_recorded(service: Service, tmp_path: Path, old: SourceRedis, name: str) -> None:
    make_token(service, "admin")  # the first token must be an admin's
    run_ok(service, *name.split(), *CASES[name](Target(service, tmp_path, old.url)), *MORE.get(name, ()))
    entries = read_entries(service)
    assert described(entries) == AUDITED.get(name, [])
    assert {(entry.who, entry.peer, entry.outcome) for entry in entries} <= {(AUTHOR, "command line", "done")}


def test_tables_name_commands(service: Service) -> None:
    assert {*AUDITED, *READ_OVER_A_SERVER} <= set(CASES)


def test_a_refusal_is_recorded_with_its_code(service: Service) -> None:
    put(service, new("q"))
    assert run(service, "queues", "rm", "q", "--yes").code == 1
    (entry,) = read_entries(service)
    assert (entry.what, entry.target, entry.outcome) == ("remove_queue", "q", "queue_in_use")


def test_commands_that_only_read_leave_no_entry(service: Service) -> None:
    put(service, new("q"))
    run_ok(service, "queues", "show", "q")
    run_ok(service, "doctor")
    assert read_entries(service) == []


def test_an_entry_that_cannot_be_written_does_not_undo_the_change(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_self: AuditedService, _entries: object) -> Flow[None]:
        raise EngineFull("The engine is full.")
        yield

    monkeypatch.setattr(AuditedService, "_audit_flow", refuse)
    done = run_ok(service, "queues", "pause", "q")
    assert "could not write pause_queue to the audit log: The engine is full." in done.err
    assert [pause.queue for pause in [service.stats(["q"]).wait()[0]] if pause.is_paused] == ["q"]
