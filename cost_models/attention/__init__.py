"""Cost of attention: work on the slowest rank, and attention whose scores go through memory."""
