"""Entry point of `python -m windlass`."""

from .cli.main import main

main()
