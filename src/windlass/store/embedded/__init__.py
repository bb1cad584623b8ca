"""Embedded engine of one data directory and its supervisor process."""
