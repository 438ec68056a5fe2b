"""The trainer's own program in place of lcplan's step: compiled in searches, for a trainer's file, and for its improvement."""
