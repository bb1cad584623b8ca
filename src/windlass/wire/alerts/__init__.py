"""Shapes of alert rules and their incidents."""
