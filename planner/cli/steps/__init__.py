"""Commands on a step of one's own, on an executable and on the program of a trainer."""
