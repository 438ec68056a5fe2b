"""Cost of communication: the list of the step's collectives, and how long each takes on a network."""
