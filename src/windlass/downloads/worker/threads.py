"""Thread pool for calls to disks and buckets, which block."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ThreadPool:
    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, "windlass-downloads")

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a thread. If this call is cancelled, it waits until the function ends, so that nothing the
        function uses is closed before."""
        future = asyncio.get_running_loop().run_in_executor(self._pool, lambda: work(*args, **kwargs))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait({future})
            future.exception()  # marks it as retrieved: the caller gets the cancellation
            raise

    def close(self) -> None:
        self._pool.shutdown(wait=False)
