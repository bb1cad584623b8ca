"""Service on the engine itself that writes what a command changes to the audit log."""

from __future__ import annotations

import functools
import getpass
import inspect
import socket
from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, TypeVar

import msgspec

from windlass.cli.output import print_note
from windlass.core.access.audit import DONE, AuditEntry
from windlass.core.errors import WindlassError
from windlass.core.export.import_report import ImportReport
from windlass.service import Service
from windlass.store.commands.command import Flow
from windlass.store.operation import Operation, WaitingOperation

from .rules import RULES, Rule

T = TypeVar("T")
PEER = "command line"


class AuditedService(Service):
    """Service whose changes are in the audit log, with the user of this machine as their author.

    The entry follows the change, as over a server. A change is not undone if the entry cannot be written."""

    def import_jobs(self, lines: Iterable[bytes | str] | AsyncIterable[bytes | str]) -> WaitingOperation[ImportReport]:
        operation = super().import_jobs(lines)

        async def run() -> ImportReport:
            report = await operation
            await self.store.run(self._record(_import_entry(report)))
            return report

        def run_sync() -> ImportReport:
            report = operation.wait()
            self.store.run_sync(self._record(_import_entry(report)))
            return report

        return WaitingOperation(self.store, run, run_sync)

    def _recorded(self, flow: Flow[T], entry: AuditEntry) -> Flow[T]:
        """Run a flow, then write its entry with its outcome."""
        try:
            result = yield from flow
        except WindlassError as error:
            yield from self._record(entry, error.code)
            raise
        yield from self._record(entry)
        return result

    def _record(self, entry: AuditEntry, outcome: str = DONE) -> Flow[None]:
        signed = msgspec.structs.replace(entry, who=author(), outcome=outcome, peer=PEER)
        try:
            yield from self._audit_flow([signed.sanitize()])
        except WindlassError as error:
            print_note(f"windlass: could not write {entry.what} to the audit log: {error}")


def _import_entry(report: ImportReport) -> AuditEntry:
    return AuditEntry(who="", what="import_lines", detail=report.summary())


@functools.cache
def author() -> str:
    """Return the user and the host of this process. Nothing proves them: who reaches the engine may write anything."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # the user id has no name, as in some containers
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def _audited(method: Callable[..., Operation[Any]], rule: Rule) -> Callable[..., Operation[Any]]:
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(self: AuditedService, *args: Any, **options: Any) -> Operation[Any]:
        operation = method(self, *args, **options)
        bound = signature.bind(self, *args, **options)
        bound.apply_defaults()
        if not rule.is_change(bound.arguments):
            return operation
        entry = AuditEntry(
            who="", what=rule.operation, target=rule.target(bound.arguments), detail=rule.detail(bound.arguments)
        )
        return operation.within(lambda flow: self._recorded(flow, entry))

    return call


for _name, _rule in RULES.items():
    setattr(AuditedService, _name, _audited(getattr(Service, _name), _rule))
