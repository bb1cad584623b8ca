"""Export and import of a whole deployment as a stream of lines, for backups and migrations."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any

from windlass.core.errors import BadInput
from windlass.core.export.import_report import ImportReport
from windlass.core.validation.bounds import PAYLOAD_STORED_MAX
from windlass.core.validation.values import check_integer
from windlass.service.limits import LimitOperations
from windlass.store.commands.command import Flow
from windlass.store.export.writer import ExportWriter
from windlass.store.operation import Operation, WaitingOperation

from .importer import Importer


class ExportOperations(LimitOperations):
    def export(self) -> ExportWriter:
        """Return all stored data, line by line: use `async for`, or `for` without an event loop."""
        return ExportWriter(self.store)

    def import_jobs(self, lines: Iterable[bytes | str] | AsyncIterable[bytes | str]) -> WaitingOperation[ImportReport]:
        """Import the lines of an export. Return what was added, existed already, or was refused and why."""
        if isinstance(lines, str | bytes) or not isinstance(lines, Iterable | AsyncIterable):
            raise BadInput("lines must be an iterable of lines, such as a file or an export.")
        importer = Importer(self.store, PAYLOAD_STORED_MAX, self._limit_flow)
        return WaitingOperation(
            self.store,
            lambda: self._import(importer, lines, importer.finish),
            lambda: self._import_sync(importer, lines, importer.finish),
        )

    def import_part(
        self, lines: AsyncIterable[bytes] | Iterable[bytes], *, first_line: int = 1
    ) -> WaitingOperation[ImportReport]:
        """Import some lines of an export, without its header and its end. Import all parts in their order, then call
        `complete_import`. A repeated part adds nothing twice. `first_line`: its number in the file, for messages."""
        check_integer("first_line", first_line, 1, 2**53)
        if isinstance(lines, str | bytes) or not isinstance(lines, Iterable | AsyncIterable):
            raise BadInput("lines must be an iterable of lines.")
        importer = Importer(self.store, PAYLOAD_STORED_MAX, self._limit_flow, first_line=first_line)
        return WaitingOperation(
            self.store,
            lambda: self._import(importer, lines, importer.finish_part),
            lambda: self._import_sync(importer, lines, importer.finish_part),
        )

    def complete_import(self) -> Operation[ImportReport]:
        """Link imported jobs to their parents and dependencies, after the last part."""
        importer = Importer(self.store, PAYLOAD_STORED_MAX, self._limit_flow)
        return Operation(self.store, importer.complete)

    async def _import(self, importer: Importer, lines: Any, finish: Callable[[], Flow[None]]) -> ImportReport:
        await self.store.open()
        if isinstance(lines, AsyncIterable):
            async for line in lines:
                if (flow := importer.read(line)) is not None:
                    await self.store.run(flow)
        else:
            for line in lines:
                if (flow := importer.read(line)) is not None:
                    await self.store.run(flow)
        await self.store.run(finish())
        return importer.done

    def _import_sync(self, importer: Importer, lines: Any, finish: Callable[[], Flow[None]]) -> ImportReport:
        self.store.open_sync()
        if not isinstance(lines, Iterable):
            raise BadInput("An asynchronous iterable of lines needs an event loop: await this operation.")
        for line in lines:
            if (flow := importer.read(line)) is not None:
                self.store.run_sync(flow)
        self.store.run_sync(finish())
        return importer.done
