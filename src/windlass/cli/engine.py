"""windlass engine: what an administrator does with the engine itself (docs/engines.md)."""

from __future__ import annotations

import click

from .engine_files import check, repair


@click.group()
def engine() -> None:
    """Check and repair the embedded engine's files."""


engine.add_command(check)
engine.add_command(repair)
