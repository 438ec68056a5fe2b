"""Charts as Vega-Lite specifications, each with a table of the same figures."""
