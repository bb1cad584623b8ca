"""Routes that move all data out and in, line by line, in the format of `windlass export`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from windlass.core import errors
from windlass.core.export.lines import LINE_MAX
from windlass.core.text.line_splitter import LineSplitter
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, Routes
from windlass.web.listener.messages import IncompleteBody, StreamedResponse
from windlass.wire.admin import (
    NDJSON,
    CompletedImportShape,
    ExportLineShape,
    ImportQuery,
    ImportReportShape,
    import_report_shape,
)

routes = Routes("/api/v1", tag="Steering")


@routes.get("/export", roles=ADMINS, response=ExportLineShape, response_media=NDJSON, waits=True, is_audited=True)
async def export(context: RequestContext[None, None]) -> StreamedResponse:
    """Read all data as a stream of lines, each a JSON object.

    It only reads, in bounded steps. The last line has the kind `end`; without it the export is incomplete."""
    context.audit_target = ""
    context.check_all_queues()
    return StreamedResponse(200, _lines_of_export(context), (), NDJSON)


async def _lines_of_export(context: RequestContext[None, None]) -> AsyncIterator[bytes]:
    async for line in context.service.export():
        yield line


@routes.post(
    "/import", roles=ADMINS, body=ExportLineShape, body_media=NDJSON, query=ImportQuery, response=ImportReportShape,
    streams_body=True, refuses=(errors.TooLarge, errors.EngineFull),
    operation="import_lines", is_audited=True,
)  # fmt: skip
async def import_lines(context: RequestContext[None, ImportQuery]) -> ImportReportShape:
    """Import some lines of an export, in their order, without its header and its end.

    Send an export in parts, one after the other, and then POST /import:complete. A repeated part adds nothing twice.
    An error names the first invalid line; entries before it may be imported."""
    context.audit_target, context.audit_detail = "", f"from line {context.query.line}"
    context.check_all_queues()
    report = await context.service.import_part(_lines_of_body(context), first_line=context.query.line)
    context.audit_detail += f": {report.summary()}"
    return import_report_shape(report)


async def _lines_of_body(context: RequestContext[None, ImportQuery]) -> AsyncIterator[bytes]:
    splitter = LineSplitter(LINE_MAX)
    assert context.request.chunks is not None  # noqa: S101 (the route streams)
    try:
        async for chunk in context.request.chunks:
            for line in splitter.feed(chunk):
                yield line
    except IncompleteBody as error:
        raise errors.BadInput("The lines ended early: the connection was lost. Send them again.") from error
    for line in splitter.end():
        yield line


@routes.post(
    "/import:complete", roles=ADMINS, response=CompletedImportShape, refuses=(errors.EngineFull,), is_audited=True
)
async def complete_import(context: RequestContext[None, None]) -> CompletedImportShape:
    """Complete an import after its last line: link jobs to their parents and to the jobs that they wait for.

    Repeat it after a lost answer."""
    context.audit_target = ""
    context.check_all_queues()
    report = await context.service.complete_import()
    return CompletedImportShape(unknown_awaited=report.unknown_awaited)
