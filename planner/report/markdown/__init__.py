"""The report as Markdown: the page of accuracy."""
