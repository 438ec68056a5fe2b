"""Shell scripts, read as data: the commands that a script would run, with their words expanded, and nothing run."""
