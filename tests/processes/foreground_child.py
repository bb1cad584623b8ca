"""Child of a foreground parent: reports as a worker does, and then does what its first argument says."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    action, place, address = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    with (place / "started").open("a") as started:
        started.write(f"{os.getpid()} {os.getpgrp()} {address.partition(':')[0]}\n")
    if action == "exits_unready":
        sys.exit(7)
    if action == "hangs_unready":
        time.sleep(600)
    connection = socket.socket(fileno=int(address.partition(":")[2]))
    if action == "ignores":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if action == "handles":
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            signal.signal(number, lambda number, _: note(place, signal.Signals(number).name))
    connection.sendall(b'{"type":"LoadedMessage","settings":"s"}\n{"type":"ReadyMessage","engine":"e"}\n')
    note(place, "ready")
    act(action, place, connection)


def act(action: str, place: Path, connection: socket.socket) -> None:
    if action == "exits":
        sys.exit(7)
    if action == "ends":
        sys.exit(0)
    if action == "leaves_orphan":  # it has ended, but its parent does not ask for its exit code
        (place / "orphan").write_text(str(subprocess.Popen(["/bin/true"]).pid))
        note(place, "left")
        time.sleep(600)
    while order := connection.recv(100):
        note(place, order.decode().strip())
        if action != "ignores":
            sys.exit(0)
    note(place, "alone")


def note(place: Path, word: str) -> None:
    with (place / "notes").open("a") as notes:
        notes.write(word + "\n")


main()
