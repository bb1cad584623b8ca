"""Private PostgreSQL in a temporary directory, reached through a unix socket, with its defaults for durability."""

import functools
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Self

USER = "bench"
ACCOUNT = "postgres"  # of the operating system: PostgreSQL refuses to run as root
READY_LIMIT_S = 30.0
LOOK_EVERY_S = 0.05
STOP_LIMIT_S = 20.0
DEBIAN = Path("/usr/lib/postgresql")
# The defaults, named because the comparison depends on them: a commit is on disk before it is acknowledged.
DURABLE = ("fsync=on", "synchronous_commit=on", "full_page_writes=on")


class NoPostgres(Exception):
    """PostgreSQL is not installed, or does not start."""


@functools.cache
def binaries() -> Path:
    """Return the folder of PostgreSQL's programs. Debian keeps them outside of the search path."""
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parent.parent.name))
    other = shutil.which("initdb")
    if not found and other is None:
        raise NoPostgres("PostgreSQL is not installed: install the package postgresql")
    return found[-1].parent if found else Path(str(other)).resolve().parent


def version() -> str:
    said = subprocess.run([binaries() / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    return said.split()[2]


class Postgres:
    def __init__(self) -> None:
        self._binaries = binaries()
        self.directory = Path(tempfile.mkdtemp(prefix="wl-"))  # short: a unix socket's path has ~100 bytes
        self._as_user: dict[str, Any] = {}
        if os.getuid() == 0:
            shutil.chown(self.directory, ACCOUNT, ACCOUNT)
            self._as_user = {"user": ACCOUNT, "group": ACCOUNT, "extra_groups": []}

    def __enter__(self) -> Self:
        data = self.directory / "data"
        self._run("initdb", "-D", str(data), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-instructions")
        settings = ["listen_addresses=", f"unix_socket_directories={self.directory}", *DURABLE]
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", data, *(word for one in settings for word in ("-c", one))],
                cwd=self.directory,
                stdout=log,
                stderr=subprocess.STDOUT,
                **self._as_user,
            )
        self._guard = _guard(self._process.pid, self.directory)
        self._wait_ready()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._guard.kill()  # first: later it could signal another process with the same pid
        self._guard.communicate()
        self._process.send_signal(signal.SIGINT)  # closes connections and stops
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(STOP_LIMIT_S)
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@/{database}?host={self.directory}"

    def create(self, database: str) -> None:
        self.query(f'CREATE DATABASE "{database}"')

    def query(self, text: str, database: str = "postgres") -> str:
        """Run a statement and return its only value."""
        return self._run("psql", "-h", str(self.directory), "-U", USER, "-d", database, "-XAtqc", text).strip()

    def database_bytes(self, database: str) -> int:
        """Return the size of a database with its indexes. Pages that were never written count, too."""
        return int(self.query(f"SELECT pg_database_size('{database}')"))

    def wal_bytes(self) -> int:
        """Return the length of the write-ahead log since the cluster was made."""
        return int(self.query("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"))

    def _run(self, program: str, *words: str) -> str:
        ran = subprocess.run(
            [self._binaries / program, *words],
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
            **self._as_user,
        )
        if ran.returncode:
            raise NoPostgres(f"{program} failed: {ran.stderr[-1000:]}")
        return str(ran.stdout)

    def _wait_ready(self) -> None:
        give_up_at_s = monotonic() + READY_LIMIT_S
        while monotonic() < give_up_at_s and self._process.poll() is None:
            ready = [str(self._binaries / "pg_isready"), "-q", "-h", str(self.directory)]
            if subprocess.run(ready, check=False).returncode == 0:
                return
            sleep(LOOK_EVERY_S)
        log = (self.directory / "log").read_text()[-1000:]
        self.__exit__()
        raise NoPostgres(f"PostgreSQL does not start: {log}")


def _guard(pid: int, directory: Path) -> subprocess.Popen[bytes]:
    """Start a guard that ends PostgreSQL when this process dies and its pipe closes, even by SIGKILL."""
    return subprocess.Popen(
        ["/bin/sh", "-c", 'read _; kill -QUIT "$1"; sleep 1; rm -rf "$2"', "guard", str(pid), str(directory)],
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in the terminal is not for the guard
    )
