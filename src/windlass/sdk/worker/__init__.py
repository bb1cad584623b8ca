"""Worker: takes jobs, runs them in its pools, reports their ends."""
