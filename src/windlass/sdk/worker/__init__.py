"""Who runs the jobs? One process: it takes, runs, reports."""
