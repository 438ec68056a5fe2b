"""Inputs of every cost model: the table of strategies, the request's setting, sizes per device, fitted constants."""
