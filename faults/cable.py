"""A network of its own for one process: a namespace of the kernel and the cable (a veth pair) that leads there. It can
be pulled, and made narrow or lossy. Whatever becomes of this process, what it has made is taken away."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Sequence

LIMIT_S = 30.0
LEFT_OUT = "Faults that the kernel makes (a pulled cable, lost packets) are left out:"
# Of 198.18.0.0/15, which is set aside for tests of networks (RFC 2544): a /30 for each cable.
NETWORKS = 2**15
# In reverse order of how they are made. The shell goes on when this process is gone, however that came about.
TAKE_AWAY = 'read _; ip link delete "$1"; ip netns delete "$2"; ip route delete unreachable "$3"'


class CableTrouble(OSError):
    """What `ip` or `tc` said."""


def refusal() -> str:
    """Why no cable can be laid here, and what to do about it; empty: it can."""
    if os.geteuid() != 0:
        return f"{LEFT_OUT} they need root. Run this as root to have them."
    if not shutil.which("ip") or not shutil.which("tc"):
        return f"{LEFT_OUT} there is no `ip` and `tc`. Install the package iproute2."
    cable = Cable()
    try:
        cable.lay()
    except CableTrouble as error:
        return f"{LEFT_OUT} {error} Run this where root may make network namespaces (CAP_NET_ADMIN, CAP_SYS_ADMIN)."
    finally:
        cable.remove()
    return ""


def lacking() -> dict[str, str]:
    """Where cables can be laid: faults that this kernel cannot make all the same, each with a sentence."""
    found = {}
    for fault, (discipline, harm) in _BY_DISCIPLINE.items():
        cable = Cable()
        try:
            cable.lay()
            harm(cable)
        except CableTrouble:
            found[fault] = f"`{fault}` was left out: this kernel has no {discipline}. Load sch_{discipline} to have it."
        finally:
            cable.remove()
    return found


class Cable:
    def __init__(self) -> None:
        self.namespace = f"windlass-faults-{os.getpid()}-{os.urandom(3).hex()}"
        self._near, self._far = (f"wlf{self.namespace[-6:]}{end}" for end in "nf")
        self._guard: subprocess.Popen[bytes] | None = None

    def lay(self) -> None:
        network, self.near_address, self.far_address = _free_network()
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", TAKE_AWAY, "guard", self._near, self.namespace, network],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what was not made cannot be taken away
            start_new_session=True,  # Ctrl-C in the terminal is not for the guard
        )
        # While there is no cable, nobody looks for its other end beyond this machine.
        _run("ip", "route", "add", "unreachable", network, "metric", "4278198272")
        _run("ip", "netns", "add", self.namespace)
        _run("ip", "link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self.namespace)
        _run("ip", "address", "add", f"{self.near_address}/30", "dev", self._near)
        _run("ip", "link", "set", "dev", self._near, "up")
        _run("ip", "-n", self.namespace, "address", "add", f"{self.far_address}/30", "dev", self._far)
        self.plug()

    def remove(self) -> None:
        """By the guard, as when this process were killed."""
        guard, self._guard = self._guard, None
        if guard is not None and guard.stdin is not None:
            guard.stdin.close()
            guard.wait(LIMIT_S)

    def inside(self, command: Sequence[str]) -> list[str]:
        """The same command, at the far end."""
        return ["ip", "netns", "exec", self.namespace, *command]

    # What can be done to it

    def pull(self) -> None:
        """At the far end, so that our route stays and packets vanish; without it they would be refused at once."""
        _run("ip", "-n", self.namespace, "link", "set", "dev", self._far, "down")

    def plug(self) -> None:
        _run("ip", "-n", self.namespace, "link", "set", "dev", self._far, "up")

    def lose(self, percent: float, delay_ms: float) -> None:
        """Both ways, each packet by chance; the others come late."""
        self._queue("netem", "loss", f"{percent:.1f}%", "delay", f"{delay_ms:.1f}ms", f"{delay_ms / 2:.1f}ms")

    def narrow(self, kbit: int) -> None:
        """Both ways: what comes faster waits in a queue of four packets, and is dropped beyond it."""
        self._queue("tbf", "rate", f"{kbit}kbit", "burst", "3000", "limit", "6000")

    def mend(self) -> None:
        self.plug()
        for where, end in self._ends():
            with contextlib.suppress(CableTrouble):  # nothing was wrong
                _run("tc", *where, "qdisc", "delete", "dev", end, "root")

    def _queue(self, *words: str) -> None:
        for where, end in self._ends():
            _run("tc", *where, "qdisc", "replace", "dev", end, "root", *words)

    def _ends(self) -> list[tuple[list[str], str]]:
        return [([], self._near), (["-n", self.namespace], self._far)]


_BY_DISCIPLINE: dict[str, tuple[str, Callable[[Cable], None]]] = {
    "link-lossy": ("netem", lambda cable: cable.lose(percent=1, delay_ms=1)),
    "link-narrow": ("tbf", lambda cable: cable.narrow(kbit=1_000)),
}


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise CableTrouble(f"`{' '.join(command)}` could not be run: {error}.") from error
    if done.returncode:
        raise CableTrouble(f"`{' '.join(command)}` said: {' '.join(done.stderr.split())}.")
    return done.stdout


def _free_network() -> tuple[str, str, str]:
    """That nobody on this machine has: itself, and the addresses of its two ends."""
    taken = _run("ip", "-4", "route", "show", "table", "all")
    while True:
        first = random.SystemRandom().randrange(NETWORKS) * 4
        network, near, far = (f"198.{18 + (at >> 16)}.{at >> 8 & 255}.{at & 255}" for at in range(first, first + 3))
        if f"{network}/30" not in taken:
            return f"{network}/30", near, far
