"""A user's own train step, compiled in a worker: the file with its content hash, and the faults of steps for absent devices."""
