"""Worker processes: jobs in, results out, and the handling of a worker's death."""
