"""The train step, its optimizer, and one rank's slice of it."""
