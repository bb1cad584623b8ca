"""One load client of a given kind. It runs until its time is over or SIGTERM arrives."""

from __future__ import annotations

import asyncio
import signal
import sys

from ..history import Recorder
from .client_kinds import CLIENT_KINDS
from .context import ClientContext
from .options import Options, read_options
from .task_count import write_count_on_signal


async def run(options: Options) -> None:
    write_count_on_signal(options.history)
    context = ClientContext(Recorder(options.history, options.client), options.seed, options.seconds)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, context.end)
    await CLIENT_KINDS[options.kind](context, options)


if __name__ == "__main__":
    asyncio.run(run(read_options(sys.argv[1:], list(CLIENT_KINDS))))
