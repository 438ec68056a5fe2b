"""What a program is built from."""
