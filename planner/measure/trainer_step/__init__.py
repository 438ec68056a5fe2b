"""A trainer's own train step, compiled in a worker of the trainer's own Python."""
