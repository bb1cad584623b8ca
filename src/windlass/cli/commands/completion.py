"""windlass completion: what a shell needs to complete subcommands and options."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Example:
      windlass completion bash > ~/.local/share/bash-completion/completions/windlass
      windlass completion zsh > ~/.zfunc/_windlass
      windlass completion fish > ~/.config/fish/completions/windlass.fish
    """
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 (click knows the three)
    writer = found(context.find_root().command, {}, "windlass", "_WINDLASS_COMPLETE")
    # Bash's own version would first start bash, only to look at its version.
    click.echo(ShellComplete.source(writer))
