"""A whole deployment as processes: an engine, servers and clients of every front end, with proxies between them.

A proxy stands between two processes where the topology allows it. Leaving the context ends every process by pid."""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.engine_process import free_port
from windlass.core.job import Durability
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

from . import previous_version
from .client_set import CHANGEABLE, WORKER_COMMAND, ClientSpec, Ports
from .engines import EmbeddedEngineProcess, Engine, NamespacedEngine, StandaloneEngine, create_engine
from .managed_process import ManagedProcess
from .proxy import Proxy, ProxyLink

ROOT = Path(__file__).resolve().parent.parent
SERVERS = {"server-api": "api", "server-loops": "processor,notifier"}
PATIENCE_S = 60.0
CLOCK = str(ROOT / "faults" / "shifted_clock")
PRESENT = os.pathsep.join([CLOCK, str(ROOT)])


class Deployment:
    def __init__(self, topology: str, folder: Path, *, seed: int, durability: Durability | None = None) -> None:
        self.folder = folder
        self.seed = seed
        self.durability = durability
        for part in ("logs", "histories", "data"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        self.engine: Engine = create_engine(topology, folder / "data")
        self.previous = previous_version.check_out(folder / "previous") if topology == "versions" else None
        self.proxy = Proxy()
        self.servers: list[ManagedProcess] = []
        self.load: list[ManagedProcess] = []
        self.ports = Ports(free_port(), free_port())
        self._ports = {name: (free_port(), free_port()) for name in SERVERS}

    # Lifecycle

    def __enter__(self) -> Self:
        try:
            self.engine.start()
            self._start_servers()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self.load, *self.servers):
            process.kill()
        self._save_engine_logs()
        self.engine.close()
        self.proxy.close()

    def _save_engine_logs(self) -> None:
        for number, path in enumerate(self.engine.logs):
            if path.exists():
                (self.folder / "logs" / f"engine-{number}.log").write_bytes(path.read_bytes()[-200_000:])

    # Addresses

    def engine_url_for(self, process: str) -> str:
        """Return the URL of the engine for one process: through its own link if the engine has a single address."""
        if isinstance(self.engine, StandaloneEngine) and not isinstance(self.engine, NamespacedEngine):
            link = self._link(f"{process}→engine", ("127.0.0.1", self.engine.node.port))
            return f"redis://127.0.0.1:{link.port}/0"
        if isinstance(self.engine, EmbeddedEngineProcess):
            link = self._link(f"{process}→engine", str(self.engine.url).removeprefix("unix://"))
            return f"redis://127.0.0.1:{link.port}/0"
        return self.engine.url

    def _link(self, name: str, target: tuple[str, int] | str) -> ProxyLink:
        return self.proxy.links.get(name) or self.proxy.add_link(name, target)

    @property
    def http_url(self) -> str:
        port = self._link("clients→http", ("127.0.0.1", self._ports["server-api"][0])).port
        return f"http://127.0.0.1:{port}"

    @property
    def bedrock_address(self) -> str:
        return f"127.0.0.1:{self._link('clients→bedrock', ('127.0.0.1', self._ports['server-api'][1])).port}"

    def metrics_url(self, server: str) -> str:
        """Return the URL of a server's metrics, without a proxy."""
        return f"http://127.0.0.1:{self._ports[server][0]}/metrics"

    def service(self, patience_s: float = PATIENCE_S) -> Service:
        """Return a service of this process, without a proxy. Close its store afterwards."""
        return Service(Store(parse_url(self.engine.url), patience_s=patience_s))

    # Starting processes

    def _environment(self, **more: str) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("WINDLASS_", "FAULTS_"))}
        return inherited | {
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": PRESENT,
            "PYTHONSAFEPATH": "1",  # the working directory has the packages of the present version
            "WINDLASS_DATA_DIR": str(self.folder / "data"),
            "WINDLASS_DOWNLOAD_DIR": str(self.folder / "data" / "downloads"),
            "WINDLASS_DOWNLOAD_RETRY_DELAY": "500ms",
            **({"WINDLASS_DURABILITY": self.durability} if self.durability else {}),
            "WINDLASS_ALLOW_PRIVATE_ADDRESSES": "1",
            "WINDLASS_CALLBACK_RETRY_DELAY": "500ms",
            **more,
        }

    @property
    def _engine_environment(self) -> dict[str, str]:
        """Environment of the servers that start the embedded engine."""
        return self.engine.environment if isinstance(self.engine, EmbeddedEngineProcess) else {}

    def _start_servers(self) -> None:
        for name, roles in SERVERS.items():
            port, bedrock_port = self._ports[name]
            port_option = "--port" if "api" in roles else "--health-port"
            arguments = ["--roles", roles, port_option, str(port), "--bedrock-port", str(bedrock_port), "--grace", "2s"]
            if not isinstance(self.engine, EmbeddedEngineProcess):
                arguments += ["--url", self.engine_url_for(name)]
            process = ManagedProcess(
                name,
                [sys.executable, "-m", "windlass", "serve", *arguments],
                folder=self.folder / "logs",
                environment=self._environment(**self._engine_environment),
                ready_text="Stop with",
            )
            self.servers.append(process)
            self._alternate(process, len(self.servers))
            process.start()
        for process in self.servers:
            process.wait_ready()

    def _alternate(self, process: ManagedProcess, number: int) -> None:
        """Let every second process that may do so begin with the previous version."""
        is_client = process not in self.servers
        if self.previous is not None and number % 2 == 0 and (not is_client or process.name in CHANGEABLE):
            self.change_version(process)

    def start_load(self, clients: Mapping[str, ClientSpec], seconds: float) -> None:
        for name, client in clients.items():
            clock = self.folder / "data" / f"{name}.clock"
            clock.write_bytes(struct.pack("d", 0.0))
            process = ManagedProcess(
                name,
                self._load_command(name, client, seconds),
                folder=self.folder / "logs",
                environment=self._environment(FAULTS_CLOCK=str(clock), **self._load_environment(name)),
            )
            self.load.append(process)
            self._alternate(process, len(self.load))
            process.start()

    def _load_command(self, name: str, client: ClientSpec, seconds: float) -> list[str]:
        if client.kind == WORKER_COMMAND:
            application = ["faults.load.supervised_app:app", "--name", name, "--grace", "2s"]
            return [sys.executable, "-m", "windlass", "worker", *application, *client.arguments]
        arguments = ["--url", self.engine_url_for(name), "--http", self.http_url, "--bedrock", self.bedrock_address]
        arguments += ["--history", str(self.history_of(name)), "--client", name]
        arguments += ["--seed", str(self.seed), "--seconds", str(int(seconds))]
        return [sys.executable, "-m", "faults.load", client.kind, *arguments, *client.arguments]

    def _load_environment(self, name: str) -> dict[str, str]:
        history = str(self.history_of(name))
        return {"FAULTS_HISTORY": history, "FAULTS_SEED": str(self.seed), "FAULTS_URL": self.engine_url_for(name)}

    def history_of(self, name: str) -> Path:
        return self.folder / "histories" / f"{name}.jsonl"

    def shift_clock(self, process: ManagedProcess, by_s: float) -> None:
        with (self.folder / "data" / f"{process.name}.clock").open("r+b") as clock:
            clock.write(struct.pack("d", by_s))

    # Running processes

    def processes(self, role: str) -> list[ManagedProcess]:
        """Return the processes of a role: server, worker, producer, or client (all processes of the load)."""
        if role == "server":
            return self.servers
        if role == "client":
            return self.load
        return [process for process in self.load if process.name.startswith(role)]

    @property
    def changeable(self) -> list[ManagedProcess]:
        """Running processes that may run with the previous version: servers, and clients that it has, too."""
        found = [*self.servers, *(process for process in self.load if process.name in CHANGEABLE)]
        return [process for process in found if self.previous is not None and process.is_alive]

    def change_version(self, process: ManagedProcess) -> str:
        """Let the process start with the other version the next time. Return the name of that version."""
        assert self.previous is not None, "a deployment of two versions"
        previous = os.pathsep.join([CLOCK, str(self.previous / "src"), str(self.previous)])
        is_present = process.environment["PYTHONPATH"] == PRESENT
        process.set_environment({**process.environment, "PYTHONPATH": previous if is_present else PRESENT})
        return "previous" if is_present else "present"

    @property
    def histories(self) -> list[Path]:
        return sorted((self.folder / "histories").glob("*.jsonl"))

    def stop_load(self) -> list[str]:
        """End all clients by SIGTERM and return a sentence for each exit code other than 0."""
        alive = [process for process in self.load if process.is_alive]
        for process in alive:
            process.request_stop()
        return [f"{process.name} ended with {code}" for process in alive if (code := process.wait()) != 0]

    def repair_all(self) -> None:
        """Undo every fault: links pass, the engine and the servers run."""
        for link in self.proxy.links.values():
            link.restore()
        self.engine.revive()
        for process in (*self.servers, *self.load):
            process.signal(signal.SIGCONT)
        for process in self.servers:
            if not process.is_alive:
                process.start()
        for process in self.servers:
            process.wait_ready()
