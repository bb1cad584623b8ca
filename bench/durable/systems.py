"""Systems of the comparison: where their programs keep steps, and what keeping them costs."""

import abc
import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.engine import Engine
from bench.measurements.durability import LEVELS
from bench.peers import WINDLASS

from .cpu import cpu_us
from .postgres import Postgres

DBOS = "dbos"
# The file of commands is measured, so the engine must not rewrite it.
CONFIG = (*LEVELS["always"], "--auto-aof-rewrite-percentage", "0")


class System(abc.ABC):
    peer: str  # folder of its program
    has_engine = True  # the steps are stored by another process

    @property
    @abc.abstractmethod
    def url(self) -> str: ...

    @abc.abstractmethod
    def renew(self) -> None:
        """Begin with an empty store."""

    @abc.abstractmethod
    def cpu_us(self) -> float:
        """Return the processor time of the engine; 0 if there is none."""

    @abc.abstractmethod
    def stored_bytes(self) -> int: ...

    @abc.abstractmethod
    def written_bytes(self) -> int:
        """Return the length of the log that is flushed before an acknowledgement; 0 if there is none."""


class OnValkey(System):
    peer = WINDLASS

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def url(self) -> str:
        return self._engine.url

    def renew(self) -> None:
        self._engine.empty()

    def cpu_us(self) -> float:
        return cpu_us(self._engine.pid)

    def stored_bytes(self) -> int:
        """Return the used memory without the buffers of clients and of the append-only file."""
        memory = self._engine.info("memory")
        return int(memory["used_memory"]) - int(memory["mem_clients_normal"]) - int(memory["mem_aof_buffer"])

    def written_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._engine.directory.glob("appendonlydir/*"))


class OnPostgres(System):
    peer = DBOS

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._serial = 0

    @property
    def _database(self) -> str:
        return f"bench{self._serial}"

    @property
    def url(self) -> str:
        return self._postgres.url(self._database)

    def renew(self) -> None:
        self._serial += 1
        self._postgres.create(self._database)
        self._postgres.query("CHECKPOINT")  # else the log of the next run contains whole pages because of this one

    def cpu_us(self) -> float:
        return cpu_us(self._postgres.pid)

    def stored_bytes(self) -> int:
        return self._postgres.database_bytes(self._database)

    def written_bytes(self) -> int:
        return self._postgres.wal_bytes()


class OnSqlite(System):
    peer = DBOS
    has_engine = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._serial = 0

    @property
    def _file(self) -> Path:
        return self._directory / f"bench{self._serial}.sqlite"

    @property
    def url(self) -> str:
        return f"sqlite:///{self._file}"

    def renew(self) -> None:
        self._serial += 1

    def cpu_us(self) -> float:
        return 0.0

    def stored_bytes(self) -> int:
        return self._file.stat().st_size

    def written_bytes(self) -> int:
        return 0


TITLES = {"windlass": "Windlass", "postgres": "DBOS on PostgreSQL", "sqlite": "DBOS on SQLite"}


@contextlib.contextmanager
def _on_valkey() -> Iterator[System]:
    with Engine(CONFIG) as engine:
        yield OnValkey(engine)


@contextlib.contextmanager
def _on_postgres() -> Iterator[System]:
    with Postgres() as postgres:
        yield OnPostgres(postgres)


@contextlib.contextmanager
def _on_sqlite() -> Iterator[System]:
    with tempfile.TemporaryDirectory(prefix="wl-") as directory:
        yield OnSqlite(Path(directory))


_OPEN = {"windlass": _on_valkey, "postgres": _on_postgres, "sqlite": _on_sqlite}


@contextlib.contextmanager
def opened(names: Sequence[str]) -> Iterator[dict[str, System]]:
    """Start the engines of systems."""
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(_OPEN[name]()) for name in names}
