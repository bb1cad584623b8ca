"""Saved filters of the pages that show lists."""
