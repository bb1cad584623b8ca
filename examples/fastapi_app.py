"""Web application whose workers write reports.

uvicorn fastapi_app:api
windlass worker fastapi_app:app

curl -X POST 'localhost:8000/reports?pages=5'        → {"id": "0198…"}
curl localhost:8000/reports/0198…                    → {"state": "running", "progress": 0.4, "result": null}
curl -N localhost:8000/reports/0198…/stream          → the pages, from the first one on, as they are written
http://localhost:8000/reports/0198…/page             → the same in a browser; a reload loses nothing
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from windlass import Context, Refusal, Windlass
from windlass.contrib.starlette import stream_response

app = Windlass()


@app.task(queue="reports", timeout="5m")
async def write_report(ctx: Context, pages: int) -> dict[str, int]:
    for page in range(1, pages + 1):
        await asyncio.sleep(0.01)  # the work
        await ctx.stream.write({"page": page})
        ctx.progress(page, pages)
    return {"pages": pages}


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with app:  # connect now instead of at the first request, and close at the end
        yield


api = FastAPI(lifespan=lifespan)


@api.post("/reports", status_code=202)
async def start(pages: Annotated[int, Query(ge=1, le=1000)]) -> dict[str, str]:
    handle = await write_report.aenqueue(pages)
    return {"id": handle.id}


@api.get("/reports/{job_id}")
async def read(job_id: str) -> dict[str, Any]:
    handle = app.job(job_id)
    job = await handle.ainfo()
    result = await handle.aresult() if job.state.label == "finished" else None
    return {"state": job.state.label, "progress": job.progress, "result": result}


@api.get("/reports/{job_id}/stream")
async def stream(job_id: str, request: Request) -> Response:
    """Stream server-sent events: all pages, also those that were written before this request, then the final state."""
    return await stream_response(request, app.job(job_id))


@api.get("/reports/{job_id}/page")
async def page(job_id: str) -> HTMLResponse:
    return HTMLResponse(PAGE)


# The browser reconnects by itself, and sends the position of the last page that it has seen.
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<link rel="icon" href="data:,">
<title>Report</title>
<ol id="pages"></ol>
<p id="state">writing</p>
<script>
const pages = document.getElementById("pages");
const state = document.getElementById("state");
const source = new EventSource("stream");
source.onmessage = (event) => {
  const item = document.createElement("li");
  item.textContent = `page ${JSON.parse(event.data).page}`;
  pages.append(item);
};
source.addEventListener("end", (event) => {
  state.textContent = JSON.parse(event.data).state;
  source.close();
});
</script>
"""


@api.exception_handler(Refusal)
async def refused(_: Request, refusal: Refusal) -> JSONResponse:
    """Turn a refusal of Windlass, which has a code and a sentence, into a response."""
    status = 404 if refusal.code in ("unknown_job", "already_ended", "bad_input") else 409
    return JSONResponse({"code": refusal.code, "detail": str(refusal)}, status)
