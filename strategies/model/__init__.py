"""The decoder: embedding, layers, loss, gradient accumulation."""
