"""Where commands are answered."""

from __future__ import annotations

from ...service import Service
from ...service.gathering import Gathering
from .client import Client
from .wire import Reply, Request


class Desk:
    def __init__(self, service: Service, gathering: Gathering) -> None:
        self._service = service
        self._gathering = gathering

    async def answer(self, request: Request, client: Client) -> Reply:
        return Reply(430, "Unrecognized command")

    async def undelivered(self, request: Request, reply: Reply) -> None: ...

    async def give_back(self, jobs: tuple[tuple[bytes, int], ...]) -> None: ...
