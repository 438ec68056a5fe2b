"""Cost of communication: the list of a step's collectives, and the time of each on a network."""
