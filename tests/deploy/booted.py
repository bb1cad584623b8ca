"""A Debian that systemd boots in a container, with our units and the programs of the server's image."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.deploy.tools import DEPLOY, check
from tests.support.server_process import wait_until

UNITS = ("windlass-server.service", "windlass-worker@shop.service")
STOP_LIMIT_S = 60.0


def install_units(root: Path, server: dict[str, str], worker: dict[str, str], code: str) -> None:
    """Install the units as docs/deploying.md says, for a server and an application `shop`."""
    units, wanted = root / "etc/systemd/system", root / "etc/systemd/system/multi-user.target.wants"
    for folder in (wanted, root / "etc/sysusers.d", root / "etc/windlass", root / "srv/shop"):
        folder.mkdir(parents=True, exist_ok=True)
    for path in (DEPLOY / "systemd").glob("*.service"):
        shutil.copy(path, units)
    shutil.copy(DEPLOY / "systemd/windlass.sysusers", root / "etc/sysusers.d/windlass.conf")
    for unit in UNITS:
        name = unit.replace("@shop", "@")
        (wanted / unit).symlink_to(f"/etc/systemd/system/{name}")
    (root / "srv/shop/.venv").symlink_to("/opt/windlass")
    (root / "srv/shop/tasks.py").write_text(code)
    for name, variables in (("server", server), ("worker-shop", worker)):
        lines = "".join(f'{variable}="{value}"\n' for variable, value in variables.items())
        (root / f"etc/windlass/{name}.env").write_text(lines)


class Booted:
    """A running system. It shares the network of this machine."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    def run(self, *command: str) -> str:
        """Run a command in the system."""
        wait_until(lambda: bool(self._children.read_text().split()))
        first = self._children.read_text().split()[0]
        return check("nsenter", f"--target={first}", "--all", *command)


@contextlib.contextmanager
def booted(root: Path) -> Iterator[Booted]:
    command = (
        "systemd-nspawn",
        "--quiet",
        "--boot",
        "--register=no",
        "--keep-unit",
        "--console=pipe",
        f"--directory={root}",
    )
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield Booted(process)
    finally:
        process.terminate()  # it shuts the system down
        process.wait(STOP_LIMIT_S)
