"""windlass completion: shell completion scripts."""

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
    completion_class = get_completion_class(shell)
    assert completion_class is not None  # noqa: S101 (click knows the three shells)
    writer = completion_class(context.find_root().command, {}, "windlass", "_WINDLASS_COMPLETE")
    # The class for Bash would start bash to check its version.
    click.echo(ShellComplete.source(writer))
