"""Prefix and error format of the downloader's API. Errors are plain text."""

from __future__ import annotations

from windlass.core import errors
from windlass.core.errors import WindlassError
from windlass.web.app.router import Routes
from windlass.web.listener.messages import Response
from windlass.wire.encoding import Encoding
from windlass.wire.problems import headers_of, status_for

PREFIX = "/downloader"
_ENGINE_ERRORS = (errors.EngineUnavailable, errors.EngineError, errors.EngineUnsuitable, errors.EngineFull)


def format_as_text(error: WindlassError, _encoding: Encoding) -> Response:
    """Format an error as text. Clients know one status for all engine errors."""
    status = 500 if isinstance(error, _ENGINE_ERRORS) else status_for(error)
    return Response(status, f"{error}\n".encode(), headers_of(error), "text/plain; charset=utf-8")


def routes_of(tag: str) -> Routes:
    return Routes(PREFIX, tag=tag, error_formatter=format_as_text)
