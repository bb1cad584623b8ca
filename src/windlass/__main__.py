"""python -m windlass."""

from .cli.main import main

main()
