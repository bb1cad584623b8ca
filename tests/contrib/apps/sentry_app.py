"""Application of a worker process that sends its failures to Sentry, with the SDK as programs configure it."""

from __future__ import annotations

import os

import sentry_sdk

from windlass import Windlass
from windlass.contrib import sentry

sentry_sdk.init(os.environ["SENTRY_DSN"], auto_enabling_integrations=False)  # these import all installed frameworks
app = Windlass()
sentry.instrument(app)


@app.task(retry=1)
def fail(card: str) -> None:
    raise ValueError("no")
