"""Web application whose workers write reports.

uvicorn fastapi_app:api
windlass worker fastapi_app:app

curl -X POST 'localhost:8000/reports?pages=5'        → {"id": "0198…"}
curl localhost:8000/reports/0198…                    → {"state": "running", "progress": 0.4, "result": null}
curl -N localhost:8000/reports/0198…/events          → live events of the job
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, StreamingResponse

from windlass import Context, JobCancelled, JobFailed, Refusal, Windlass

app = Windlass()


@app.task(queue="reports", timeout="5m")
async def write_report(ctx: Context, pages: int) -> dict[str, int]:
    for page in range(1, pages + 1):
        await asyncio.sleep(0.01)  # the work
        ctx.emit({"page": page})
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


@api.get("/reports/{job_id}/events")
async def events(job_id: str) -> StreamingResponse:
    await app.job(job_id).ainfo()  # an unknown job is refused before the stream starts
    return StreamingResponse(tell(job_id), media_type="text/event-stream")


async def tell(job_id: str) -> AsyncIterator[str]:
    """Stream server-sent events: the pages as they are written, then the outcome."""
    handle = app.job(job_id)
    async for event in handle.events():
        if event.kind == "emitted":
            yield message("page", event.value)
    try:
        yield message("result", await handle.aresult())
    except (JobFailed, JobCancelled) as error:
        yield message("failure", {"reason": str(error)})


def message(kind: str, data: Any) -> str:
    return f"event: {kind}\ndata: {msgspec.json.encode(data).decode()}\n\n"


@api.exception_handler(Refusal)
async def refused(_: Request, refusal: Refusal) -> JSONResponse:
    """Turn a refusal of Windlass, which has a code and a sentence, into a response."""
    status = 404 if refusal.code in ("unknown_job", "already_ended", "bad_input") else 409
    return JSONResponse({"code": refusal.code, "detail": str(refusal)}, status)
