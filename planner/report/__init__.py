"""Report: one self-contained HTML page of a run, and its charts as PNG and SVG."""
