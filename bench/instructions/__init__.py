"""Instructions per job of the engine and of clients, counted with callgrind: `python -m bench.instructions`.

Counts hardly depend on other programs on the machine. The loads use only `windlass` and `windlass.engine_api`, so the
same tool counts an older tree: `PYTHONPATH=<older tree>/src python -m bench.instructions`.
"""
