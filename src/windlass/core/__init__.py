"""What is a job? Pure: no I/O, no clock."""
