"""Real JAX programs: the ring-attention Llama step and its parts."""
