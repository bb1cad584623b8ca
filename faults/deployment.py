"""A whole deployment as processes: an engine, servers, and clients of every front end, with a proxy between all of
them where the topology allows it. Everything it starts is ended by pid when its block is left."""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.engine_process import _free_port
from windlass.core.job import Durability
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

from .engines import Alone, Apart, Embedded, Engine, made
from .processes import Member
from .proxy import Link, Proxy
from .roster import Client, Ports

ROOT = Path(__file__).resolve().parent.parent
SERVERS = {"server-api": "api", "server-loops": "processor,notifier"}
PATIENCE_S = 60.0


class Deployment:
    def __init__(self, topology: str, folder: Path, *, seed: int, durability: Durability | None = None) -> None:
        self.folder = folder
        self.seed = seed
        self.durability = durability
        for part in ("logs", "histories", "data"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        self.engine: Engine = made(topology, folder / "data")
        self.proxy = Proxy()
        self.servers: list[Member] = []
        self.load: list[Member] = []
        self.ports = Ports(_free_port(), _free_port())
        self._ports = {name: (_free_port(), _free_port()) for name in SERVERS}

    # Its life

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
        for member in (*self.load, *self.servers):
            member.kill()
        self._keep_engine_logs()
        self.engine.close()
        self.proxy.close()

    def _keep_engine_logs(self) -> None:
        for at, path in enumerate(self.engine.logs):
            if path.exists():
                (self.folder / "logs" / f"engine-{at}.log").write_bytes(path.read_bytes()[-200_000:])

    # Where things are

    def engine_link(self, whose: str) -> str:
        """The engine as one of the processes reaches it: through a link of its own, where it is at one address."""
        if isinstance(self.engine, Alone) and not isinstance(self.engine, Apart):
            return f"redis://127.0.0.1:{self._link(f'{whose}→engine', ('127.0.0.1', self.engine.node.port)).port}/0"
        if isinstance(self.engine, Embedded):
            target = str(self.engine.url).removeprefix("unix://")
            return f"redis://127.0.0.1:{self._link(f'{whose}→engine', target).port}/0"
        return self.engine.url

    def _link(self, name: str, target: tuple[str, int] | str) -> Link:
        return self.proxy.links.get(name) or self.proxy.link(name, target)

    @property
    def http_url(self) -> str:
        port = self._link("clients→http", ("127.0.0.1", self._ports["server-api"][0])).port
        return f"http://127.0.0.1:{port}"

    @property
    def bedrock(self) -> str:
        return f"127.0.0.1:{self._link('clients→bedrock', ('127.0.0.1', self._ports['server-api'][1])).port}"

    def metrics_url(self, server: str) -> str:
        """Past the proxies."""
        return f"http://127.0.0.1:{self._ports[server][0]}/metrics"

    def service(self, patience_s: float = PATIENCE_S) -> Service:
        """Of this process, past the proxies. Close its store when done."""
        return Service(Store(parse_url(self.engine.url), patience_s=patience_s))

    # What it starts

    def _environment(self, **more: str) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("WINDLASS_", "FAULTS_"))}
        return plain | {
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "faults" / "shifted_clock"), str(ROOT)]),
            "WINDLASS_DATA_DIR": str(self.folder / "data"),
            "WINDLASS_DOWNLOAD_DIR": str(self.folder / "data" / "downloads"),
            "WINDLASS_DOWNLOAD_RETRY_DELAY": "500ms",
            **({"WINDLASS_DURABILITY": self.durability} if self.durability else {}),
            "WINDLASS_ALLOW_PRIVATE_ADDRESSES": "1",
            "WINDLASS_CALLBACK_RETRY_DELAY": "500ms",
            **more,
        }

    def _start_servers(self) -> None:
        for name, roles in SERVERS.items():
            port, bedrock_port = self._ports[name]
            door = "--port" if "api" in roles else "--health-port"
            words = ["--roles", roles, door, str(port), "--bedrock-port", str(bedrock_port), "--grace", "2s"]
            if not isinstance(self.engine, Embedded):
                words += ["--url", self.engine_link(name)]
            member = Member(
                name,
                [sys.executable, "-m", "windlass", "serve", *words],
                folder=self.folder / "logs",
                environment=self._environment(),
                ready_word="Stop with",
            )
            self.servers.append(member)
            member.start()
        for member in self.servers:
            member.wait_ready()

    def start_load(self, clients: Mapping[str, Client], seconds: float) -> None:
        for name, client in clients.items():
            clock = self.folder / "data" / f"{name}.clock"
            clock.write_bytes(struct.pack("d", 0.0))
            words = ["--url", self.engine_link(name), "--http", self.http_url, "--bedrock", self.bedrock]
            words += ["--history", str(self.folder / "histories" / f"{name}.jsonl"), "--client", name]
            words += ["--seed", str(self.seed), "--seconds", str(int(seconds))]
            member = Member(
                name,
                [sys.executable, "-m", "faults.load", client.kind, *words, *client.words],
                folder=self.folder / "logs",
                environment=self._environment(FAULTS_CLOCK=str(clock)),
            )
            self.load.append(member)
            member.start()

    def shift_clock(self, member: Member, by_s: float) -> None:
        with (self.folder / "data" / f"{member.name}.clock").open("r+b") as clock:
            clock.write(struct.pack("d", by_s))

    # Who is there

    def members(self, role: str) -> list[Member]:
        """By what they are: server, worker, producer, client (both of these, and the others that ask)."""
        if role == "server":
            return self.servers
        if role == "client":
            return self.load
        return [member for member in self.load if member.name.startswith(role)]

    @property
    def histories(self) -> list[Path]:
        return sorted((self.folder / "histories").glob("*.jsonl"))

    def end_load(self) -> list[str]:
        """Clients end by SIGTERM; those that did not end well are named."""
        alive = [member for member in self.load if member.is_alive]
        for member in alive:
            member.ask_to_end()
        return [f"{member.name} ended with {code}" for member in alive if (code := member.ended()) != 0]

    def everything_mended(self) -> None:
        """No fault is left: links pass, processes run, clocks are right."""
        for link in self.proxy.links.values():
            link.mend()
        self.engine.revive()
        for member in (*self.servers, *self.load):
            member.signal(signal.SIGCONT)
        for member in self.servers:
            if not member.is_alive:
                member.start()
        for member in self.servers:
            member.wait_ready()
