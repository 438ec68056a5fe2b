"""What-if: how long, how many, how large, and what changes along any quantity; exact on the boundary by the laws."""
