"""Supervision of worker processes: start, restart, scale, recover orphans."""
