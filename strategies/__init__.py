"""Real JAX programs: the ring-attention Llama step and what it is made of."""
