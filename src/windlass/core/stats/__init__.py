"""Queue statistics: latency histogram, per-minute rollup, failure groups."""
