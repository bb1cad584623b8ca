"""Domain model of the job queue: jobs, states, operations and rules. No I/O and no clock; time is an argument."""
