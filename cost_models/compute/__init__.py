"""FLOP counts, and the time of one kernel or one launch."""
