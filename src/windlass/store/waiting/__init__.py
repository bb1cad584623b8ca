"""Waiting without polling: wakeups and the loops that wait for them."""
