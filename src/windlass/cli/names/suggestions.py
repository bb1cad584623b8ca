"""Suggestions for names that do not exist: those of things that an operator names, of tasks, and of queues."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from windlass.cli.output import print_note
from windlass.core.errors import (
    Forbidden,
    Refusal,
    UnknownAlert,
    UnknownFilter,
    UnknownLimit,
    UnknownSchedule,
    UnknownToken,
    WindlassError,
)
from windlass.core.text.humanize import quote_text
from windlass.core.text.similar_names import suggest_name
from windlass.service import Service

_LISTS: dict[type[Refusal], Callable[[Service], list[str]]] = {
    UnknownSchedule: lambda service: [status.schedule.name for status in service.schedules().wait()],
    UnknownLimit: lambda service: [state.limit.name for state in service.limits().wait()],
    UnknownAlert: lambda service: [status.rule.name for status in service.alerts(past=0).wait().rules],
    UnknownFilter: lambda service: [saved.name for saved in service.filters().wait()],
    UnknownToken: lambda service: [token.name for token in service.tokens().wait().tokens],
}


@contextlib.contextmanager
def suggesting(service: Service, given: Iterable[object]) -> Iterator[None]:
    """Add the name that is spelt most alike to an error about an unknown name. `given`: arguments of the command, one
    of which is that name."""
    try:
        yield
    except tuple(_LISTS) as error:
        suggestion = _suggest(service, error, [text for text in given if isinstance(text, str)])
        if not suggestion:
            raise
        raise type(error)(f"{error} Did you mean {quote_text(suggestion)}?") from error


def _suggest(service: Service, error: Refusal, given: Sequence[str]) -> str:
    name = next((text for text in given if text and repr(text) in str(error)), "")
    with contextlib.suppress(WindlassError):  # such as a list that the token may not read
        return suggest_name(name, _LISTS[type(error)](service))
    return ""


def note_missing_queue(service: Service, queue: str) -> bool:
    """Print a note about a queue that does not exist, with the suggestion of one that does. Return whether it is
    missing; without the role to read queues it counts as present, and the command itself says what it needs."""
    try:
        presence = service.queue_presence(queue).wait()
    except Forbidden:
        return False
    if not presence.exists:
        print_note(presence.sentence)
    return not presence.exists


def note_misspelt_queue(service: Service, queue: str) -> bool:
    """Print a note if the queue does not exist and one with a similar name does. Return whether it looks misspelt. A
    queue may come later than what names it, so without a similar name there is no note."""
    with contextlib.suppress(Refusal):  # a token to produce jobs may not read queues
        presence = service.queue_presence(queue).wait()
        if presence.suggestion:
            print_note(presence.sentence)
            return True
    return False


def note_unknown_task(service: Service, queue: str, name: str) -> None:
    """Print a note if live workers serve the queue and none of them knows the task."""
    with contextlib.suppress(Refusal):  # a token to produce jobs may not read queues
        for unknown in service.unknown_among(queue, [name]).wait():
            print_note(unknown.sentence)
