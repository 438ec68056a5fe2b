"""FLOP counts, and how long one kernel or one launch takes."""
