"""Processor session on stdin and stdout, with its own engine and background loops."""

from __future__ import annotations

import logging
import signal

from windlass.deployment import build_store
from windlass.dialects.stdio.envelope import process_identity
from windlass.dialects.stdio.logs import LineHandler
from windlass.dialects.stdio.messages import ProcessorOptions
from windlass.dialects.stdio.pipes import OutputPipe
from windlass.dialects.stdio.session import FLUSH_S, ProcessorSession
from windlass.processes.event_loop import handle_signals
from windlass.settings import Settings

from .service import open_service

__all__ = ["FLUSH_S", "LineHandler", "OutputPipe", "ProcessorOptions", "run_session"]

log = logging.getLogger("windlass.processor")


async def run_session(settings: Settings, options: ProcessorOptions) -> bool:
    """Run until the input ends or a signal stops the session. Return False when the output could not be written."""
    async with open_service(build_store(settings)) as service:
        session = ProcessorSession(service, process_identity(), options)
        handle_signals((signal.SIGTERM, signal.SIGINT), session.stop)
        # Loading the engine library takes time. Without this call the first message would be old when it is read.
        await service.ping()
        log.info("Ready on %s.", service.store.endpoint)
        return await session.run()
