"""State of the server: the command `Status`, and `GET /status/…` for health checks over HTTP."""

from __future__ import annotations

from typing import Any

from windlass import __version__

from .wire import BedrockRequest, Reply, encode_json

STATE = "LEADING"  # there are no followers: all processes are equal
_HTTP = {
    "/status/handlingcommands": Reply(200, STATE),
    "/status/isfollower": Reply(500, f"Not Following. State={STATE}"),
}
_NOT_FOUND = Reply(404, "Not Found")


def status_reply(host: str, commands: int) -> Reply:
    """Return the reply to `Status`. `commands`: number of running commands."""
    found: dict[str, Any] = {
        "commandCount": commands,
        "host": host,
        "isDetached": False,
        "isLeader": True,
        "nodeName": "windlass",
        "peerList": [],
        "plugins": [{"name": "Jobs", "version": __version__}],
        "state": STATE,
        "version": f"windlass {__version__}",
    }
    return Reply(200, "OK", encode_json(found))


def http_status_reply(request: BedrockRequest) -> Reply | None:
    """Return the reply to `GET /status/…`, or None for any other request."""
    method, _, rest = request.line.partition(" ")
    path = rest.partition(" ")[0].lower()
    if method.upper() != "GET" or not path.startswith("/status/"):
        return None
    return _HTTP.get(path, _NOT_FOUND)
