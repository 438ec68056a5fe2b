"""Cost of a mixture of experts: its buffers and its work."""
