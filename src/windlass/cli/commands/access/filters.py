"""windlass filters: list and remove the saved filters of the dashboard."""

from __future__ import annotations

import click

from windlass.cli.bulk import accepted_yes_option
from windlass.cli.connection import with_service
from windlass.cli.output import Column, json_option, print_json_line, print_table, print_text
from windlass.cli.records import to_record
from windlass.core.filters.saved_filter import SavedFilter
from windlass.service import Service

COLUMNS = (Column("filter", shrinks=12), Column("page"), Column("fields", rank=1, shrinks=20))


@click.group()
def filters() -> None:
    """List and remove saved filters of the dashboard.

    People save them on the pages of the dashboard. `windlass jobs ls --filter NAME` lists the jobs of one.
    """


@filters.command("ls")
@json_option
@with_service
def ls(service: Service, as_json: bool) -> None:
    """List the saved filters.

    \b
    Example:
      windlass filters ls
    """
    found = service.filters().wait()
    if as_json:
        for saved in found:
            print_json_line(to_record(saved))
    else:
        print_table(COLUMNS, map(_row, found), empty="No saved filters.")


def _row(saved: SavedFilter) -> tuple[object, ...]:
    return saved.name, saved.page, " ".join(f"{field}={value}" for field, value in saved.fields.items())


@filters.command("rm")
@click.argument("name", metavar="NAME")
@accepted_yes_option
@with_service
def rm(service: Service, name: str) -> None:
    """Remove the saved filter NAME, for all users.

    \b
    Example:
      windlass filters rm 'late mail'
    """
    service.remove_filter(name).wait()
    print_text(f"The filter {name} is removed.")
