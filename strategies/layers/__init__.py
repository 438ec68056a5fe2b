"""Parts of a layer without communication: norms, activations, positions, initial values."""
