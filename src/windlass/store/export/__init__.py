"""Reader and writer of exports."""
