"""Worker processes: jobs in, results out, and what happens when a worker dies."""
