"""Validate: predictions of the cost model next to published measurements, table by table."""
