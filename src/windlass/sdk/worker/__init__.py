"""A worker: takes jobs, runs them in its pools, reports how they ended."""
