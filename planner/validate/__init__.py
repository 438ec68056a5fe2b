"""Validate: predictions of the laws beside published measurements, table by table."""
