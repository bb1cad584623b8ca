"""What users call things on the command line: jobs, flows, workers, and names that do not exist."""
