"""The run without faults, its latency, its picture, and its section of the page."""
