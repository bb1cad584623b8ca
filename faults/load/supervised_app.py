"""The application of a client that runs as `windlass worker`: its process may die, and its parent frees the jobs.

The parent imports no such module, so only the process that runs jobs writes the history."""

from __future__ import annotations

import os
from pathlib import Path

from ..history import Recorder
from .context import ClientContext
from .front_ends import sdk_worker
from .worker import WorkerProfile

QUEUE = "supervised"
WORK_MS = 400  # long enough that a killed process holds jobs
NEVER_S = 1e9  # it ends by SIGTERM

_history = Path(os.environ["FAULTS_HISTORY"])
_context = ClientContext(Recorder(_history, _history.stem), int(os.environ["FAULTS_SEED"]), NEVER_S)
app, _ = sdk_worker.build(
    _context, os.environ["FAULTS_URL"], "wl", 5.0, WorkerProfile(queues=(QUEUE,), work_ms=WORK_MS)
)  # fmt: skip
