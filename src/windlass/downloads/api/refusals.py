"""What all of the downloader's API shares: where it is, and how it says no: in plain text."""

from __future__ import annotations

from windlass.core import errors
from windlass.core.errors import WindlassError
from windlass.web.app.router import Routes
from windlass.web.listener.messages import Response
from windlass.wire.encoding import Encoding
from windlass.wire.problems import headers_of, status_for

PREFIX = "/downloader"
_ENGINE_TROUBLE = (errors.EngineUnavailable, errors.EngineError, errors.EngineUnsuitable, errors.EngineFull)


def format_as_text(error: WindlassError, _encoding: Encoding) -> Response:
    """Its clients know one status for all trouble with the engine."""
    status = 500 if isinstance(error, _ENGINE_TROUBLE) else status_for(error)
    return Response(status, f"{error}\n".encode(), headers_of(error), "text/plain; charset=utf-8")


def routes_of(tag: str) -> Routes:
    return Routes(PREFIX, tag=tag, error_formatter=format_as_text)
