"""Windlass beside others: what programs already use to serve, trace and measure. Each needs the extra of its name."""
