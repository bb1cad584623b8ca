"""Explanation of a job's state: inputs, rules and reasons."""
