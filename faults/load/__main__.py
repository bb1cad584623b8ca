"""One client, by its kind, until its time is over or SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import sys

from ..history import Recorder
from .kinds import KINDS
from .life import Life
from .options import Options, read_options
from .telling import tell_when_asked


async def run(options: Options) -> None:
    tell_when_asked(options.history)
    life = Life(Recorder(options.history, options.client), options.seed, options.seconds)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, life.end)
    await KINDS[options.kind](life, options)


if __name__ == "__main__":
    asyncio.run(run(read_options(sys.argv[1:], list(KINDS))))
