"""Commands around a search: the machine, the shell, a first request."""
