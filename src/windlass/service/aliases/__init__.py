"""Names of jobs beside their ids: numbers, unique keys, and look-up by any name."""
