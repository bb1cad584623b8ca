"""Actions on many jobs: confirmation, batches with a progress bar, and a report."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from windlass.core.errors import AlreadyEnded, MemberFailed, Refusal, UnknownJob
from windlass.core.ids import format_id
from windlass.core.text.control_characters import printable

from .output import format_count, print_note, print_text

BATCH_SIZE = 500  # jobs per service call
REASONS_SHOWN = 5
JobsAction = Callable[[Sequence[bytes]], "list[str | Refusal]"]

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")

# For commands that change something and do not ask, so that scripts may add it to any of them.
accepted_yes_option = click.option(
    "--yes", "-y", is_flag=True, expose_value=False, help="Accepted, as in commands that ask; this one does not ask."
)


def confirm(question: str, is_confirmed: bool) -> None:
    """Ask the user, and abort unless the answer is yes. Without a terminal, --yes is required."""
    if is_confirmed:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask on: use --yes to confirm.")
    click.confirm(question, abort=True, err=True)


@contextlib.contextmanager
def progress(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr if it is a terminal. Without a total, it only counts."""
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)


def batches(ids: Iterable[bytes], size: int = BATCH_SIZE) -> Iterator[list[bytes]]:
    source = iter(ids)
    while batch := list(islice(source, size)):
        yield batch


def run_in_batches(
    done: str, act: JobsAction, id_batches: Iterable[Sequence[bytes]], total: int, *, skipped: int = 0
) -> None:
    """Run the action batch by batch, and report. Jobs that ended or were removed since, and jobs that follow the retry
    of their cause, are not errors; other refusals are printed, and the exit code is then 1. `skipped`: number of jobs
    that follow their cause and are not in the batches."""
    outcomes: Counter[str] = Counter(skipped=skipped)
    refused: list[str] = []  # the first REASONS_SHOWN
    with progress(done, total) as advance:
        for batch in id_batches:
            for job_id, answer in zip(batch, act(batch), strict=True):
                if not isinstance(answer, Refusal):
                    outcomes[done] += 1
                elif isinstance(answer, UnknownJob | AlreadyEnded):
                    outcomes["gone"] += 1
                elif isinstance(answer, MemberFailed):
                    outcomes["skipped"] += 1
                else:
                    outcomes["refused"] += 1
                    refused += [f"{format_id(job_id)}: {answer}"] if len(refused) < REASONS_SHOWN else []
            advance(len(batch))
    _report(done, outcomes, refused)


def _report(done: str, outcomes: Counter[str], refused: list[str]) -> None:
    gone = f"; {format_count(outcomes['gone'], 'job')} had already ended or been removed" if outcomes["gone"] else ""
    print_text(f"{done} {format_count(outcomes[done], 'job')}{gone}.{_describe_skipped(outcomes['skipped'])}")
    for line in refused:
        print_note(f"windlass: {line}")
    if outcomes["refused"] > len(refused):
        print_note(f"windlass: … and {format_count(outcomes['refused'] - len(refused), 'more refusal')}.")
    if refused:
        raise click.exceptions.Exit(1)


def _describe_skipped(number: int) -> str:
    if not number:
        return ""
    return " 1 later step follows its cause." if number == 1 else f" {number:,} later steps follow their causes."


def report_each(ids: Sequence[bytes], answers: Sequence[str | Refusal]) -> None:
    """Print a line for each job. The exit code is 1 if any job was refused."""
    is_any_refused = False
    for job_id, answer in zip(ids, answers, strict=True):
        if isinstance(answer, Refusal):
            is_any_refused = True
            print_note(f"windlass: {format_id(job_id)}: {answer}")
        else:
            click.echo(f"{format_id(job_id)}\t{printable(answer)}")
    if is_any_refused:
        raise click.exceptions.Exit(1)
