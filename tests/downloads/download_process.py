"""Download worker in a process of its own: `python -m tests.downloads.download_process URL NAMESPACE DIRECTORY`.

For each line on stdin it prints its peak memory in KiB. Tests kill it or read its memory."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from tests.downloads.origin import at_work
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

ROOT = Path(__file__).parents[2]


class DownloadProcess:
    """The process, as a test controls it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def peak_kib(self) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        return int(await self._process.stdout.readline())

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()


@contextlib.asynccontextmanager
async def download_process(store: Store, directory: Path) -> AsyncIterator[DownloadProcess]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.downloads.download_process", str(store.endpoint), store.namespace, str(directory),
        cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield DownloadProcess(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]


def _peak_kib() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


async def main(url: str, namespace: str, directory: str) -> None:
    async with (
        Store(parse_url(url), namespace=namespace, is_test=True) as store,
        at_work(Service(store), Path(directory)),
    ):
        while await asyncio.to_thread(sys.stdin.readline):
            print(_peak_kib(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
