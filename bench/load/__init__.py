"""Deployments with very much of one thing: time of every page, list and command, memory, and followers of events.

`python -m bench.load` measures all axes at their largest size; `python -m bench load` the section of the report."""
