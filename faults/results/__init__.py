"""What is made of the histories of a run beside findings: a file of them, times of recovery, counts."""
