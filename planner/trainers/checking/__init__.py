"""How a trainer's checker is run: inside the trainer's own Python, with its real parser."""
