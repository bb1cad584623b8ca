"""SQL queries over a copy of the jobs, in child processes."""
