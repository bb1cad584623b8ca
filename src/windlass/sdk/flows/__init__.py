"""Flows: chains, groups, children and their inputs."""
