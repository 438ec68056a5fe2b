"""Charts as Vega-Lite specifications, each with the table of the same figures that stands behind it."""
