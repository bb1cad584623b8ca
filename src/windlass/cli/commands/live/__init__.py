"""Commands that follow jobs while they run."""

from .logs import logs
from .watch import watch

COMMANDS = (watch, logs)
