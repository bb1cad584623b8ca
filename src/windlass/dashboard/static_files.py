"""Static files of the dashboard. They contain no data of the deployment, so no token is needed."""

from __future__ import annotations

from windlass.web.app.problems import NotFound
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import Routes
from windlass.web.listener.messages import Response

from .assets import ASSETS

routes = Routes(tag="Dashboard")

_CACHE_FOREVER = "public, max-age=31536000, immutable"


@routes.get("/static/{version}/{file}", roles=None, response_media="*/*", is_listed=False)
async def dashboard_file(context: RequestContext[None, None]) -> Response:
    """Send a static file. A request for another version, as during a rolling upgrade, gets the file without the long
    cache lifetime."""
    asset = ASSETS.files.get(context.path["file"])
    if asset is None:
        raise NotFound
    headers = [
        ("Cache-Control", _CACHE_FOREVER if context.path["version"] == ASSETS.version else "no-cache"),
        ("X-Content-Type-Options", "nosniff"),
        ("Vary", "Accept-Encoding"),
    ]
    if "gzip" in context.request.head.headers.get("accept-encoding", ""):
        return Response(200, asset.packed, (*headers, ("Content-Encoding", "gzip")), asset.media)
    return Response(200, asset.body, tuple(headers), asset.media)
