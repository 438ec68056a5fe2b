"""Memory of one step on one device: saved tensors and the buffers that are alive at the peak, by framework."""
