"""Child processes that perform requests: a worker's jobs, and queries that must be killable."""
