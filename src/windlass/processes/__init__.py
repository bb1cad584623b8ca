"""Child processes that execute requests: jobs of a worker, and queries that must be killable."""
