"""Fault injection: clients record calls (load), faults disturb a deployment (injection), rules judge it (checks)."""
