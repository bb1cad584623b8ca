"""Clients of every front end that write down what they ask and what they are told, one process each: `python -m
faults.load KIND …`. They reconnect by themselves, go on through refusals and cuts, and may be killed at any time."""
