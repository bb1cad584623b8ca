"""A network of its own for one process: a network namespace, and a veth pair (the cable) that connects it.

The cable can be pulled, slowed and made lossy. However this process ends, the namespace and the cable are removed."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Sequence

LIMIT_S = 30.0
SKIPPED = "Faults that the kernel makes (a pulled cable, lost packets) are left out:"
# Each cable has a /30 of 198.18.0.0/15, which is reserved for tests of networks (RFC 2544).
NETWORKS = 2**15
# In reverse order of creation. The shell continues when this process is gone, however it ended.
CLEAN_UP = 'read _; ip link delete "$1"; ip netns delete "$2"; ip route delete unreachable "$3"'


class CableError(OSError):
    """An error of `ip` or `tc`."""


def unavailable_reason() -> str:
    """Return why no cable can be created here, and what to do about it; empty if it can."""
    if os.geteuid() != 0:
        return f"{SKIPPED} they need root. Run this as root to have them."
    if not shutil.which("ip") or not shutil.which("tc"):
        return f"{SKIPPED} there is no `ip` and `tc`. Install the package iproute2."
    cable = Cable()
    try:
        cable.create()
    except CableError as error:
        return f"{SKIPPED} {error} Run this where root may make network namespaces (CAP_NET_ADMIN, CAP_SYS_ADMIN)."
    finally:
        cable.remove()
    return ""


def unsupported_faults() -> dict[str, str]:
    """Return the faults that this kernel cannot make although it has cables, each with a sentence."""
    unsupported = {}
    for fault, (discipline, disturb) in _BY_DISCIPLINE.items():
        cable = Cable()
        try:
            cable.create()
            disturb(cable)
        except CableError:
            unsupported[fault] = (
                f"`{fault}` was left out: this kernel has no {discipline}. Load sch_{discipline} to have it."
            )
        finally:
            cable.remove()
    return unsupported


class Cable:
    def __init__(self) -> None:
        self.namespace = f"windlass-faults-{os.getpid()}-{os.urandom(3).hex()}"
        self._near, self._far = (f"wlf{self.namespace[-6:]}{end}" for end in "nf")
        self._guard: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        network, self.near_address, self.far_address = _free_network()
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", CLEAN_UP, "guard", self._near, self.namespace, network],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it may have to remove parts that were never made
            start_new_session=True,  # Ctrl-C in the terminal is not for the guard
        )
        # Without a cable, packets to its far end must not leave this machine.
        _run("ip", "route", "add", "unreachable", network, "metric", "4278198272")
        _run("ip", "netns", "add", self.namespace)
        _run("ip", "link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self.namespace)
        _run("ip", "address", "add", f"{self.near_address}/30", "dev", self._near)
        _run("ip", "link", "set", "dev", self._near, "up")
        _run("ip", "-n", self.namespace, "address", "add", f"{self.far_address}/30", "dev", self._far)
        self.plug()

    def remove(self) -> None:
        """Let the guard remove everything, as it does if this process is killed."""
        guard, self._guard = self._guard, None
        if guard is not None and guard.stdin is not None:
            guard.stdin.close()
            guard.wait(LIMIT_S)

    def command_inside(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs `command` at the far end."""
        return ["ip", "netns", "exec", self.namespace, *command]

    # Faults

    def pull(self) -> None:
        """Disconnect the far end. Our route stays, so packets vanish; without a route they would be refused at once."""
        _run("ip", "-n", self.namespace, "link", "set", "dev", self._far, "down")

    def plug(self) -> None:
        _run("ip", "-n", self.namespace, "link", "set", "dev", self._far, "up")

    def lose_packets(self, percent: float, delay_ms: float) -> None:
        """Lose packets in both directions at random, and delay the others."""
        self._set_discipline("netem", "loss", f"{percent:.1f}%", "delay", f"{delay_ms:.1f}ms", f"{delay_ms / 2:.1f}ms")

    def limit_rate(self, kbit: int) -> None:
        """Limit the rate in both directions. Four packets wait in a queue; further packets are dropped."""
        self._set_discipline("tbf", "rate", f"{kbit}kbit", "burst", "3000", "limit", "6000")

    def restore(self) -> None:
        self.plug()
        for where, end in self._ends():
            with contextlib.suppress(CableError):  # no discipline was set
                _run("tc", *where, "qdisc", "delete", "dev", end, "root")

    def _set_discipline(self, *words: str) -> None:
        for where, end in self._ends():
            _run("tc", *where, "qdisc", "replace", "dev", end, "root", *words)

    def _ends(self) -> list[tuple[list[str], str]]:
        return [([], self._near), (["-n", self.namespace], self._far)]


_BY_DISCIPLINE: dict[str, tuple[str, Callable[[Cable], None]]] = {
    "link-lossy": ("netem", lambda cable: cable.lose_packets(percent=1, delay_ms=1)),
    "link-narrow": ("tbf", lambda cable: cable.limit_rate(kbit=1_000)),
}


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise CableError(f"`{' '.join(command)}` could not be run: {error}.") from error
    if done.returncode:
        raise CableError(f"`{' '.join(command)}` failed: {' '.join(done.stderr.split())}.")
    return done.stdout


def _free_network() -> tuple[str, str, str]:
    """Choose a network that this machine does not use. Return it with the addresses of its two ends."""
    taken = _run("ip", "-4", "route", "show", "table", "all")
    while True:
        first = random.SystemRandom().randrange(NETWORKS) * 4
        network, near, far = (f"198.{18 + (at >> 16)}.{at >> 8 & 255}.{at & 255}" for at in range(first, first + 3))
        if f"{network}/30" not in taken:
            return f"{network}/30", near, far
