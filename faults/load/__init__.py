"""Load clients of every front end, one process each: `python -m faults.load KIND …`.

They record their calls and answers, reconnect by themselves, continue after refusals, and may be killed at any time."""
