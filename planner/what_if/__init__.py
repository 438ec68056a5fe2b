"""What-if: the longest, fewest and largest, and a sweep along any quantity; exact on the boundary by the cost model."""
