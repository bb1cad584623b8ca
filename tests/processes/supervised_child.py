"""Program of the tests of supervisors: `supervised_child.py DIRECTORY [DESCRIPTOR]`.

It notes its pid and the orders that it receives in files of the directory. The file `mode` says what it does:
    work            is ready, and ends by the first order
    busy            is ready, and ends by the order to stop now
    stubborn        is ready, and ignores orders and SIGTERM
    silent          works, but is never ready
    garbled         sends a line that cannot be read, then works
    exit CODE       ends at once
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from windlass.processes.parent_connection import ParentConnection

DIRECTORY = Path(sys.argv[1])


def note(name: str, text: object) -> None:
    with open(DIRECTORY / name, "a") as file:
        file.write(f"{text}\n")


async def serve(mode: str) -> None:
    parent = ParentConnection(int(sys.argv[2]), logging.getLogger("child"), "child")
    is_over = asyncio.Event()

    def stop() -> None:
        note("orders", "stop")
        if mode not in ("busy", "stubborn"):
            is_over.set()

    def now() -> None:
        note("orders", "now")
        if mode != "stubborn":
            is_over.set()

    parent.listen(stop, now)
    if mode == "garbled":
        parent.send(b"?")
    if mode != "silent":
        parent.send(b"ready")
    await is_over.wait()


def main() -> None:
    mode, _, code = (DIRECTORY / "mode").read_text().partition(" ")
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("pids", os.getpid())
    if code:
        sys.exit(int(code))
    if len(sys.argv) > 2:
        asyncio.run(serve(mode))
    else:
        signal.pause()


if __name__ == "__main__":
    main()
