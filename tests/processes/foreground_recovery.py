"""Recovery program of a foreground parent: writes down its arguments and its input."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

place, *rest = sys.argv[1:]
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
with (Path(place) / "recoveries").open("a") as recoveries:
    recoveries.write(repr((*map(int, rest), os.getpgrp() == os.getpid(), *sys.stdin.read().splitlines())) + "\n")
if (Path(place) / "slow").exists():
    time.sleep(600)
