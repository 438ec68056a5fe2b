"""Cost of a mixture of experts: buffers and work."""
