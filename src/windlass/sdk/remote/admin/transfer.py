"""Export and import over HTTP: an export is one stream, an import is sent in parts that may be repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any

from windlass.core.errors import BadInput, Refusal, WindlassError
from windlass.core.export import lines as export_lines
from windlass.core.export.import_report import REASONS_KEPT, ImportReport
from windlass.core.text.line_splitter import LineSplitter
from windlass.core.validation.bounds import MIB
from windlass.sdk.remote.facet import RemoteFacet
from windlass.sdk.remote.request import ApiRequest, ApiResponse, RequestFlow, answer_lost, error_of, get, post
from windlass.sdk.remote.store import RemoteStore
from windlass.store.operation import WaitingOperation
from windlass.wire.admin import CompletedImportShape, ImportReportShape, import_report_of

CHUNK_BYTES = 64 * 1024
SILENT_S = 300.0  # how long the server may look for the next entry
PART_LINES = 5_000
PART_BYTES = 4 * MIB
PART_LIMIT_MS = 60_000
COMPLETE_LIMIT_MS = 3_600_000  # it looks at every imported job
_END = b'{"kind":"end"'


class RemoteTransferOperations(RemoteFacet):
    def export(self) -> Any:
        """Return all stored data, line by line, as the service does. It is one request, which is not repeated."""
        return RemoteExport(self.remote)

    def import_jobs(self, lines: Iterable[bytes | str] | AsyncIterable[bytes | str]) -> WaitingOperation[ImportReport]:
        """Import the lines of an export in parts. A part whose answer was lost is sent again: what the first request
        imported then counts as existing."""
        super().import_jobs(lines)
        parts = ImportParts()
        return WaitingOperation(
            self.remote, lambda: self._send_all(parts, lines), lambda: self._send_all_sync(parts, lines)
        )

    async def _send_all(self, parts: ImportParts, lines: Any) -> ImportReport:
        if isinstance(lines, AsyncIterable):
            async for line in lines:
                if (flow := parts.read(line)) is not None:
                    await self.remote.run(flow)
        else:
            for line in lines:
                if (flow := parts.read(line)) is not None:
                    await self.remote.run(flow)
        await self.remote.run(parts.finish())
        return parts.done

    def _send_all_sync(self, parts: ImportParts, lines: Any) -> ImportReport:
        if not isinstance(lines, Iterable):
            raise BadInput("An asynchronous iterable of lines needs an event loop: await this operation.")
        for line in lines:
            if (flow := parts.read(line)) is not None:
                self.remote.run_sync(flow)
        self.remote.run_sync(parts.finish())
        return parts.done


class ImportParts:
    """Divides an export into requests. No I/O: a line that fills a part returns the flow that sends the part."""

    def __init__(self) -> None:
        self.done = ImportReport()
        self._part: list[bytes] = []
        self._bytes = 0
        self._seen: Counter[str] = Counter()
        self._is_over = False

    def read(self, text: Any) -> RequestFlow[None] | None:
        """Read one line. Return a flow that must run before the next line, or None."""
        self.done.lines += 1
        number = self.done.lines
        if number == 1:
            export_lines.decode_header(text)
            return None
        line = export_lines.decode_line(text, number)
        if self._is_over:
            raise BadInput(f"Line {number} comes after the end of the export.")
        if isinstance(line, export_lines.HeaderLine):
            raise BadInput(f"Line {number}: a header can only be the first line.")
        if isinstance(line, export_lines.EndLine):
            self._read_end(line, number)
            return None
        self._seen[export_lines.kind_of(line)] += 1
        return self._add(text.encode(errors="surrogatepass") if isinstance(text, str) else bytes(text))

    def _read_end(self, line: export_lines.EndLine, number: int) -> None:
        try:
            export_lines.check_counts(line, self._seen)
        except Refusal as refusal:
            raise BadInput(f"Line {number}: {refusal}") from refusal
        self._is_over = True

    def _add(self, line: bytes) -> RequestFlow[None] | None:
        is_full = len(self._part) >= PART_LINES or self._bytes + len(line) > PART_BYTES
        flow = self._send(self._take_part(), self.done.lines) if self._part and is_full else None
        self._part.append(line.rstrip(b"\n"))
        self._bytes += len(line)
        return flow

    def _take_part(self) -> list[bytes]:
        part, self._part, self._bytes = self._part, [], 0
        return part

    def _send(self, part: list[bytes], before: int) -> RequestFlow[None]:
        """Send the lines that precede line `before`."""
        request = ApiRequest(
            method="POST",
            path="/import",
            response_type=ImportReportShape,
            lines=b"\n".join(part),
            query={"line": before - len(part)},
            wait_ms=PART_LIMIT_MS,
        )
        self._note(import_report_of((yield request)))

    def _note(self, report: ImportReport) -> None:
        self.done.added += report.added
        self.done.existing += report.existing
        self.done.refused += report.refused
        self.done.reasons += report.reasons[: REASONS_KEPT - len(self.done.reasons)]
        self.done.remade_ids += report.remade_ids

    def finish(self) -> RequestFlow[None]:
        """Send the last part, and link jobs to their parents and dependencies."""
        if not self._is_over:
            raise export_lines.truncated(self.done.lines)
        if self._part:
            yield from self._send(self._take_part(), self.done.lines)
        reply = yield post("/import:complete", CompletedImportShape, wait_ms=COMPLETE_LIMIT_MS)
        self.done.unknown_awaited = reply.unknown_awaited


class RemoteExport:
    """Iterator over the lines of an export: `async for`, or `for` without an event loop."""

    def __init__(self, store: RemoteStore) -> None:
        self._store = store
        self._request = get("/export", None)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await self._store.open()
        reading = _Reading()
        async with self._store.session.open_response(self._request, read_s=SILENT_S) as response:
            if response.status != 200:
                raise self._refusal(await self._store.session.read_response(response))
            async for chunk in response.content.iter_any():
                for line in reading.feed(chunk):
                    yield line
        self._check_end(reading)

    def __iter__(self) -> Iterator[bytes]:
        self._store.open_sync()
        reading = _Reading()
        with self._store.sync_session.open_response(self._request, timeout_s=SILENT_S) as response:
            if response.status != 200:
                raise self._refusal(self._store.sync_session.read_response(response, timeout_s=SILENT_S))
            while chunk := response.read1(CHUNK_BYTES):
                yield from reading.feed(chunk)
        self._check_end(reading)

    def _refusal(self, response: ApiResponse) -> WindlassError:
        return error_of(self._store.endpoint, self._request.path, response)

    def _check_end(self, reading: _Reading) -> None:
        if not reading.is_complete:
            raise answer_lost(self._store.endpoint, "the export ended early; start it again")


class _Reading:
    """Lines of a stream, and whether the last was the end of the export."""

    def __init__(self) -> None:
        self._splitter = LineSplitter(export_lines.LINE_MAX)
        self.is_complete = False

    def feed(self, chunk: bytes) -> list[bytes]:
        lines = [line + b"\n" for line in self._splitter.feed(chunk)]
        if lines:
            self.is_complete = lines[-1].startswith(_END)
        return lines
