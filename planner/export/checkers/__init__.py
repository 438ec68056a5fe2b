"""Scripts that run inside a trainer's own Python: its real parser and validator, and what these miss. They import no lcplan."""
