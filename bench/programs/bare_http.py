"""HTTP servers without a store, to measure the cost of HTTP alone.

Run as `python -m bench.programs.bare_http uvicorn|listener PORT`.
"""

import asyncio
import sys
from typing import Any

import uvicorn
import uvloop

from windlass.web.listener.listener import HttpListener
from windlass.web.listener.messages import Head, Plan, Request, Response

ANSWER = b'{"id":"01890a5d-ac96-774b-bcce-b302099a8057","status":"queued","revision":1,"is_durable":true}'


async def asgi(scope: dict[str, Any], receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


class Bare:
    def plan(self, head: Head) -> Plan | Response:
        return Plan(self._handle, 1_000_000)

    async def _handle(self, request: Request) -> Response:
        return Response(201, ANSWER, (), "application/json")

    def refuse(self, status: int, detail: str, head: Head | None) -> Response:
        return Response(status, detail.encode())


async def listen(port: int) -> None:
    await HttpListener(Bare()).start("127.0.0.1", port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    kind, port = sys.argv[1], int(sys.argv[2])
    if kind == "uvicorn":
        options: Any = {"log_level": "warning", "access_log": False, "http": "httptools", "loop": "uvloop"}
        uvicorn.run(asgi, host="127.0.0.1", port=port, lifespan="off", **options)
    else:
        uvloop.run(listen(port))
