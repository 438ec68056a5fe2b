"""A MaxText configuration as people have it: a file over others, or the script of a run."""
