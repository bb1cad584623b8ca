"""Application for a worker in a terminal."""

from __future__ import annotations

import asyncio
from pathlib import Path

from windlass import Windlass

app = Windlass()


@app.task(lease="10m")
async def held(place: str) -> None:
    (Path(place) / "started").touch()
    await asyncio.sleep(3600)


@app.task(lease="10m")
def debugged(number: int) -> int:
    breakpoint()
    return number
