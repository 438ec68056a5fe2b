"""Files of programs that start trainers, with the trainer's own settings inside."""
