"""Names of workers on the command line: the name, the id, or the beginning or end of the id."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.cli.output import is_for_people
from windlass.core.errors import UnknownWorker
from windlass.core.ids import format_id, id_part
from windlass.core.operations import Worker
from windlass.core.text.similar_names import suggest_name
from windlass.core.validation.bounds import PAGE_MAX
from windlass.service import Service

LABEL_DIGITS = 8  # of an id, as in the log of a worker


def find_workers(service: Service, text: str) -> list[Worker]:
    """Return the workers with this name; or else those with this id, or part of one."""
    known = list(all_workers(service))
    if named := [worker for worker in known if worker.info.name == text]:
        return named
    part = id_part(text)
    if part is not None and (found := [worker for worker in known if part.is_in(worker.id)]):
        return found
    suggestion = suggest_name(text, [worker.info.name for worker in known if worker.info.name])
    hint = f" Did you mean {suggestion!r}?" if suggestion else ""
    raise UnknownWorker(
        f"No worker is called {text!r}, and no id begins or ends with it.{hint} See `windlass workers ls`."
    )


def all_workers(service: Service) -> Iterator[Worker]:
    start = 0
    while page := service.workers(start=start, most=PAGE_MAX).wait():
        yield from page
        start += len(page)


def label_of(worker: Worker) -> str:
    """Return the name in a table. A worker without a name has the beginning of its id there, if people read it: the
    column of ids is left out where it does not fit."""
    return worker.info.name or (f"{format_id(worker.id)[:LABEL_DIGITS]}…" if is_for_people() else "")
