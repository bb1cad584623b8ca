"""windlass flows: list, show, resume, cancel and run flows again."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import islice
from typing import Any

import click

from windlass.cli import flow_page
from windlass.cli.bulk import accepted_yes_option, report_each
from windlass.cli.connection import CommandFunction, with_service
from windlass.cli.names.flows import find_flows
from windlass.cli.names.jobs import queue_option
from windlass.cli.output import (
    ID,
    Column,
    DurationCell,
    InstantCell,
    format_count,
    json_option,
    limit_option,
    print_json,
    print_json_line,
    print_note,
    print_table,
)
from windlass.core.errors import Refusal
from windlass.core.flow import FLOW_STATES, FlowState, FlowSummary, ResumedFlow
from windlass.core.ids import format_id
from windlass.core.validation.bounds import PAGE_MAX
from windlass.service import Service
from windlass.wire.flows import flow_summary_shape

COLUMNS = (
    ID,
    Column("name", shrinks=12),
    Column("state"),
    Column("steps", is_right=True),
    Column("finished", is_right=True, rank=2),
    Column("failed", is_right=True),
    Column("cancelled", is_right=True, rank=4),
    Column("not run", is_right=True, rank=3),
    Column("created", rank=1),
    Column("took", is_right=True, rank=3),
    Column("queues", rank=5, shrinks=10),
)


@click.group()
def flows() -> None:
    """Show flows and act on them.

    An ID is the id of a flow, or at least 4 digits of its beginning or end, or any name of a job that belongs to it.
    """


@flows.command("ls")
@click.option("--state", "-s", type=click.Choice(FLOW_STATES), help="State of the flows. Default: all.")
@click.option("--name", default="", metavar="GLOB", help="Pattern of the flow's name, e.g. 'check*'.")
@limit_option
@json_option
@with_service
def ls(service: Service, state: FlowState | None, name: str, limit: int, as_json: bool) -> None:
    """List flows, the newest first.

    With --json, one object per line.

    \b
    Example:
      windlass flows ls --state failed
      windlass flows ls --state failed | cut -f1 | xargs windlass flows resume
    """
    now_ms = service.now().wait()
    found = _find(service, state, name, limit + 1 if limit else PAGE_MAX)
    shown = islice(found, limit) if limit else found
    if as_json:
        for flow in shown:
            print_json_line(flow_summary_shape(flow))
    else:
        print_table(COLUMNS, (_row(flow, now_ms) for flow in shown), empty="No flows.")
    if limit and next(found, None) is not None:
        print_note(f"Only the first {format_count(limit, 'flow')}: --limit 0 shows all.")


def _find(service: Service, state: FlowState | None, name: str, most: int) -> Iterator[FlowSummary]:
    cursor = ""
    while True:
        page = service.flows(state=state or "", name=name, most=min(most, PAGE_MAX), cursor=cursor).wait()
        yield from page.flows
        cursor = page.cursor
        if not cursor:
            return


def _row(flow: FlowSummary, now_ms: int) -> tuple[object, ...]:
    return (
        flow.key,
        flow.name,
        flow.state,
        flow.total,
        flow.finished,
        flow.failed,
        flow.cancelled,
        flow.consequences,
        InstantCell(flow.created_at_ms, now_ms),
        DurationCell(max(0, (flow.ended_at_ms or now_ms) - flow.created_at_ms)),
        ",".join(flow.queues),
    )


def with_flow(command: CommandFunction) -> CommandFunction:
    """Add the service and the argument ID to a command; it gets the id of the flow as `flow_id`."""

    @click.argument("name", metavar="ID")
    @queue_option
    @with_service
    @functools.wraps(command)
    def wrapper(service: Service, name: str, queue: str, **options: Any) -> Any:
        return command(service, flow_id=find_flows(service, (name,), queue)[0], **options)

    return wrapper


def with_flows(command: CommandFunction) -> CommandFunction:
    """Add the service and the argument ID… to a command; it gets the ids of the flows as `flow_ids`."""

    @click.argument("names", nargs=-1, required=True, metavar="ID…")
    @queue_option
    @with_service
    @functools.wraps(command)
    def wrapper(service: Service, names: tuple[str, ...], queue: str, **options: Any) -> Any:
        return command(service, flow_ids=find_flows(service, names, queue), **options)

    return wrapper


@flows.command()
@click.option("--all", "is_all", is_flag=True, help="Show every step. Default: equal steps of a large flow are folded.")
@json_option
@with_flow
def show(service: Service, flow_id: bytes, is_all: bool, as_json: bool) -> None:
    """Show the steps of a flow, and what to do next.

    Large flows: equal steps are folded into one line.

    \b
    Example:
      windlass flows show 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
    """
    details = flow_page.read(service, flow_id, all_causes=is_all or as_json)
    if as_json:
        print_json(flow_page.as_record(details))
    else:
        flow_page.show(details, is_all=is_all)


@flows.command()
@accepted_yes_option
@with_flows
def resume(service: Service, flow_ids: tuple[bytes, ...]) -> None:
    """Retry the failed and cancelled steps of flows.

    Steps that did not run because of them wait again. Finished steps do not run again.

    \b
    Example:
      windlass flows resume 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
    """
    answers = {flow_id: _attempt(lambda flow_id=flow_id: service.resume_flow(flow_id).wait()) for flow_id in flow_ids}
    is_any_refused = any(isinstance(answer, Refusal) or answer.refused for answer in answers.values())
    for flow_id, answer in answers.items():
        if isinstance(answer, Refusal):
            print_note(f"windlass: {format_id(flow_id)}: {answer}")
        else:
            _report_resumed(flow_id, answer)
    if is_any_refused:
        raise click.exceptions.Exit(1)


def _report_resumed(flow_id: bytes, answer: ResumedFlow) -> None:
    if answer.retried or not answer.refused:
        retried = f"{format_count(len(answer.retried), 'step')} retried" if answer.retried else "nothing to resume"
        click.echo(f"{format_id(flow_id)}\t{retried}")
    for job_id, reason in answer.refused.items():
        print_note(f"windlass: step {format_id(job_id)}: {reason}")


def _attempt(call: Any) -> Any:
    """Return the answer or the refusal, so that one flow does not stop the others."""
    try:
        return call()
    except Refusal as refusal:
        return refusal


@flows.command()
@accepted_yes_option
@with_flows
def cancel(service: Service, flow_ids: tuple[bytes, ...]) -> None:
    """Cancel the steps of flows that have not ended.

    Waiting steps end at once; running steps are asked to stop.

    \b
    Example:
      windlass flows cancel 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
    """
    report_each(flow_ids, [_attempt(service.cancel_flow(flow_id).wait) for flow_id in flow_ids])


@flows.command()
@accepted_yes_option
@with_flow
def rerun(service: Service, flow_id: bytes) -> None:
    """Run a flow again, as a new flow with the same arguments. Prints the id of the new flow.

    The records of all its jobs must still be kept.

    \b
    Example:
      windlass flows rerun 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
    """
    click.echo(format_id(service.rerun_flow(flow_id).wait()))
