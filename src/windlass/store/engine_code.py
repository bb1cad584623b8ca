"""Calls of operations and the code that they need: functions of a library, or scripts where these cannot be used."""

from __future__ import annotations

import logging
from collections.abc import Callable

from windlass.core.errors import EngineFull, EngineNotPermitted

from .connection.connection import CommandArgs, EngineReplyError
from .connection.reconnect import ReconnectingConnection, SyncReconnectingConnection
from .connection.replies import is_command_unknown, is_library_loaded, load_without_memory_limit
from .scripts import Library
from .topology.permissions import CallsBy
from .topology.requirements import Deployment, scripts_notice

log = logging.getLogger("windlass.store")


class EngineCode:
    """The way in which a store calls operations. It starts with the way that the deployment's check found, and changes
    to scripts when the engine refuses functions later."""

    def __init__(self, library: Callable[[], Library], is_embedded: bool) -> None:
        self._library = library
        self._is_embedded = is_embedded
        self._deployment: Deployment | None = None
        self.calls_by: CallsBy = "functions"
        self.scripts_because = ""  # why operations are called by scripts

    def opened(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.calls_by, self.scripts_because = deployment.calls_by, deployment.scripts_because

    def head(self, operation: str) -> tuple[str, str]:
        """Return the first two words of a call."""
        if self.calls_by == "functions":
            return "FCALL", self._library().function(operation)
        return "EVALSHA", self._library().script(operation).sha

    def load_command_for(self, call: CommandArgs) -> CommandArgs | None:
        """Return the command that loads the code of a call. None: it needs none."""
        if call[0] == "FCALL":
            return self._load_functions()
        return self._load_script(self._library().operation_of(str(call[1]))) if call[0] == "EVALSHA" else None

    def check_missing(self, error: EngineReplyError) -> None:
        """Return if the engine refused a call because it lacks the code; raise any other error."""
        if error.kind == "OOM":
            raise EngineFull() from error
        if is_command_unknown(error, "FCALL"):
            self._use_scripts("the engine has no FCALL", error)
        elif error.kind != "NOSCRIPT" and "Function not found" not in str(error):
            raise error

    async def load(self, operation: str, connection: ReconnectingConnection) -> None:
        command = self._load_command(operation)
        try:
            await connection.call(*command)
        except (EngineReplyError, EngineNotPermitted) as error:
            if commands := self._after_refused_load(command, error):
                await connection.call_together(commands)

    def load_sync(self, operation: str, connection: SyncReconnectingConnection) -> None:
        command = self._load_command(operation)
        try:
            connection.call(*command)
        except (EngineReplyError, EngineNotPermitted) as error:
            if commands := self._after_refused_load(command, error):
                connection.call_together(commands)

    def _load_command(self, operation: str) -> CommandArgs:
        if self.calls_by == "functions" and self._deployment and not self._deployment.may_load_functions:
            self._use_scripts("the engine lost the functions, and its user may not load them")
        return self._load_functions() if self.calls_by == "functions" else self._load_script(operation)

    def _load_functions(self) -> CommandArgs:
        return "FUNCTION", "LOAD", self._library().source

    def _load_script(self, operation: str) -> CommandArgs:
        return "EVAL", self._library().script(operation).source, 0

    def _after_refused_load(
        self, command: CommandArgs, error: EngineReplyError | EngineNotPermitted
    ) -> list[CommandArgs]:
        """Return the commands that load the library after all. The call is then repeated. The refused command counts:
        another caller may have changed the way since it was sent."""
        is_library = command[0] == "FUNCTION"
        if isinstance(error, EngineReplyError) and error.kind == "OOM":
            return self._load_when_full(is_library, error)
        if is_library and (isinstance(error, EngineNotPermitted) or is_command_unknown(error, "FUNCTION")):
            self._use_scripts("the engine refuses to load functions", error)
        elif isinstance(error, EngineNotPermitted) or not is_library_loaded(error):
            raise error
        return []

    def _load_when_full(self, is_library: bool, error: EngineReplyError) -> list[CommandArgs]:
        if not is_library or not self._is_embedded or self._deployment is None:
            raise EngineFull() from error
        load = ("FUNCTION", "LOAD", "REPLACE", self._library().source)
        return load_without_memory_limit(load, self._deployment.memory_max)

    def _use_scripts(self, reason: str, error: Exception | None = None) -> None:
        if self._deployment is not None:
            self._deployment.check_may_call_scripts(error)
        if self.calls_by != "scripts":
            log.warning("%s", scripts_notice(reason))
            self.calls_by, self.scripts_because = "scripts", reason
