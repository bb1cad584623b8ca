"""Frozen copy of a deployment: all data of one instant in a private engine."""
