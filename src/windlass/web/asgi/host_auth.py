"""Authentication by the program that mounts Windlass: its function says which role a request has."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

import msgspec

from windlass.core.access.tokens import Principal, Role
from windlass.core.errors import BadSetting, Forbidden, Unauthorized
from windlass.web.app.auth import ANONYMOUS, bearer_token, is_page_navigation, is_same_origin
from windlass.web.app.sessions import Session, StartedSession
from windlass.web.listener.messages import Head

from .scope import MountedHead, Scope

HOST_NAME = "host"  # of a client that the host gives a role but no name
NAME_MAX = 200


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Access of a request: its role, or several; the name of the person for the audit log; and the queues that it may
    use, as patterns with `*` (none: all)."""

    role: str | Collection[str]
    name: str = HOST_NAME
    queues: Collection[str] = ()


HostAnswer: TypeAlias = "str | Access | None"
RoleFunction: TypeAlias = "Callable[[Scope], HostAnswer | Awaitable[HostAnswer]]"


class HostAuthenticator:
    """Authenticator whose principals come from the host. It has no sessions: people log in at the host."""

    def __init__(self, role: RoleFunction) -> None:
        self._role = role

    async def identify(self, head: MountedHead) -> None:
        """Ask the host who sends the request. Call it before the request is planned."""
        head.principal = await self._ask(head.scope)

    async def _ask(self, scope: Scope) -> Principal | None:
        answer = self._role(scope)
        if inspect.isawaitable(answer):
            answer = await answer
        return principal_of(answer)

    def admit_cached(self, head: Head, roles: frozenset[Role] | None) -> Principal:
        """Return the principal. Raise Unauthorized or Forbidden."""
        if roles is None:
            return ANONYMOUS
        principal = head.principal if isinstance(head, MountedHead) else None
        if principal is None:
            raise Unauthorized("The application that serves this path has not admitted the request; log in there.")
        _check_origin(head)
        _check_role(principal, roles)
        return principal

    def is_probably_admitted(self, head: Head) -> bool:
        return isinstance(head, MountedHead) and head.principal is not None

    async def admit(self, head: Head, roles: frozenset[Role] | None) -> Principal:
        return self.admit_cached(head, roles or frozenset())

    async def still_admits(self, head: Head, roles: frozenset[Role], queue: str = "") -> bool:
        """Ask the host again, for a stream that runs long."""
        principal = await self._ask(head.scope) if isinstance(head, MountedHead) else None
        return principal is not None and principal.may(roles) and (not queue or principal.may_use(queue))

    async def start_session(self, text: str) -> StartedSession | None:
        return None

    async def end_session(self, head: Head) -> None:
        return None

    def renew_session(self, head: Head) -> Session | None:
        return None

    async def needs_login(self) -> bool:
        return False


def principal_of(answer: HostAnswer) -> Principal | None:
    """Return the principal that the host's answer describes, or None if it refuses the request. Raise BadSetting for a
    role that does not exist."""
    if answer is None:
        return None
    if not isinstance(answer, str | Access):
        raise BadSetting(
            f"The function `role` has returned {type(answer).__name__}; return the name of a role, windlass.Access(…), "
            "or None to refuse the request."
        )
    access = Access(role=answer) if isinstance(answer, str) else answer
    names = [access.role] if isinstance(access.role, str) else access.role
    queues = (access.queues,) if isinstance(access.queues, str) else tuple(access.queues)
    return Principal(access.name[:NAME_MAX] or HOST_NAME, frozenset(map(_role, names)), queues)


def _role(name: str) -> Role:
    try:
        return Role(name)
    except ValueError:
        roles = ", ".join(sorted(Role))
        raise BadSetting(f"The function `role` has returned {name!r}; the roles are {roles}, or None.") from None


def _check_role(principal: Principal, roles: frozenset[Role]) -> None:
    if not principal.may(roles):
        wanted, has = " or ".join(sorted(roles | {Role.ADMIN})), ", ".join(sorted(principal.roles)) or "none"
        raise Forbidden(f"This needs the role {wanted}; {principal.name!r} has {has}.")


def _check_origin(head: Head) -> None:
    """Refuse pages of other origins. The host probably knows its users by a cookie, which browsers attach to requests
    of any page. They never add a bearer token by themselves."""
    if not bearer_token(head) and not is_page_navigation(head) and not is_same_origin(head):
        raise Forbidden("Pages of another origin may not use this application.")
