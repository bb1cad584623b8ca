"""Child processes: supervisors that keep programs running, and a pool of processes that execute requests."""
