"""The files that pages need. They tell nothing of what is queued: everybody may have them."""

from __future__ import annotations

from windlass.web.app.problems import NotFound
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import Routes
from windlass.web.listener.messages import Response

from .assets import ASSETS

routes = Routes(tag="Dashboard")

_FOR_EVER = "public, max-age=31536000, immutable"


@routes.get("/static/{version}/{file}", roles=None, response_media="*/*", is_listed=False)
async def dashboard_file(context: RequestContext[None, None]) -> Response:
    """One of them. Of another version than ours, as while servers are renewed one by one: the file, but not for
    ever."""
    asset = ASSETS.files.get(context.path["file"])
    if asset is None:
        raise NotFound
    headers = [
        ("Cache-Control", _FOR_EVER if context.path["version"] == ASSETS.version else "no-cache"),
        ("X-Content-Type-Options", "nosniff"),
        ("Vary", "Accept-Encoding"),
    ]
    if "gzip" in context.request.head.headers.get("accept-encoding", ""):
        return Response(200, asset.packed, (*headers, ("Content-Encoding", "gzip")), asset.media)
    return Response(200, asset.body, tuple(headers), asset.media)
