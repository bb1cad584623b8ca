"""Many jobs at once: asked about before they are destroyed, done in bounded steps behind a progress bar, reported."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from windlass.core.errors import AlreadyEnded, Refusal, UnknownJob
from windlass.core.ids import format_id

from .output import counted, note, say

STEP = 500  # jobs per call
REASONS_SHOWN = 5
Act = Callable[[Sequence[bytes]], "list[str | Refusal]"]

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def ask(question: str, is_sure: bool) -> None:
    """Goes on only with a yes. Where nobody can be asked, --yes must say so."""
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Nobody can be asked here: give --yes to do it.")
    click.confirm(question, abort=True, err=True)


@contextlib.contextmanager
def progress(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where that is a terminal; total None: it only counts."""
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)


def in_steps(ids: Iterable[bytes], size: int = STEP) -> Iterator[list[bytes]]:
    source = iter(ids)
    while step := list(islice(source, size)):
        yield step


def carry_out(done: str, act: Act, steps: Iterable[Sequence[bytes]], total: int) -> None:
    """Acts step by step. Jobs that went their way meanwhile are no failure; other refusals are, and are told."""
    outcomes: Counter[str] = Counter()
    refused: list[str] = []  # the first of them
    with progress(done, total) as advance:
        for step in steps:
            for job_id, answer in zip(step, act(step), strict=True):
                if not isinstance(answer, Refusal):
                    outcomes[done] += 1
                elif isinstance(answer, UnknownJob | AlreadyEnded):
                    outcomes["gone"] += 1
                else:
                    outcomes["refused"] += 1
                    refused += [f"{format_id(job_id)}: {answer}"] if len(refused) < REASONS_SHOWN else []
            advance(len(step))
    _report(done, outcomes, refused)


def _report(done: str, outcomes: Counter[str], refused: list[str]) -> None:
    gone = f"; {counted(outcomes['gone'], 'job')} had gone meanwhile" if outcomes["gone"] else ""
    say(f"{done} {counted(outcomes[done], 'job')}{gone}.")
    for line in refused:
        note(f"windlass: {line}")
    if outcomes["refused"] > len(refused):
        note(f"windlass: … and {counted(outcomes['refused'] - len(refused), 'more refusal')}.")
    if refused:
        raise click.exceptions.Exit(1)


def tell_each(ids: Sequence[bytes], answers: Sequence[str | Refusal]) -> None:
    """Jobs named one by one: a line for each, and exit code 1 when one was refused."""
    is_bad = False
    for job_id, answer in zip(ids, answers, strict=True):
        if isinstance(answer, Refusal):
            is_bad = True
            note(f"windlass: {format_id(job_id)}: {answer}")
        else:
            click.echo(f"{format_id(job_id)}\t{answer}")
    if is_bad:
        raise click.exceptions.Exit(1)
