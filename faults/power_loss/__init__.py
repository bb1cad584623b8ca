"""Power cuts of an engine: the shim that records what is on the disk, and the loss of everything else."""
