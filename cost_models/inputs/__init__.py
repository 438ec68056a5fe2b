"""What every cost model reads: the table of strategies, the request's setting, sizes per device, fitted constants."""
